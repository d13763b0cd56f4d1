"""What someone standing at a surface would have read: one client of one round, run again with its own keys.

A surface has views. `released` is what the method lets out there, the paper's reading; `arriving` (server) and
`in_memory` (example) are the harsher ones: what reaches a server before it adds noise, and the gradients that exist in
a client before their sum is noised.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import keys, tree
from gradveil.errors import BadInput
from gradveil.federation import client
from gradveil.federation.client import Holding
from gradveil.federation.engine import Population
from gradveil.federation.ledger import touches
from gradveil.federation.messages import Task, Work, task_for
from gradveil.federation.plan import Plan
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.models.gradients import batch_gradient, per_example_gradients
from gradveil.privacy.clip import Facts
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Rule, kernel
from gradveil.privacy.prune import Keep
from gradveil.privacy.sanitize import cross, unnoised
from gradveil.surface import Surface
from gradveil.tree import Array, Tree

Host = np.ndarray[Any, Any]
VIEWS = {
    Surface.SERVER: ("released", "arriving"),
    Surface.UPDATE: ("released",),
    Surface.EXAMPLE: ("released", "in_memory"),
}


@dataclass(frozen=True, slots=True)
class Tap:
    """Where a reading is taken. single: the gradient of one example of the batch rather than of the whole batch."""

    surface: Surface
    view: str = "released"
    single: bool = False

    def __post_init__(self) -> None:
        if self.view not in VIEWS[self.surface]:
            among = " or ".join(VIEWS[self.surface])
            raise BadInput(f"view = {self.view!r}: surface {int(self.surface)} shows {among}")
        if self.single and self.surface is not Surface.EXAMPLE:
            raise BadInput("batch = 1: gradients of single examples are read at surface 2 only")

    @staticmethod
    def at(plan: Plan, surface: Surface, view: str) -> "Tap":
        """Take the closest look that a plan allows: single examples, unless only the noised sum is let out."""
        return Tap(surface, view, surface is Surface.EXAMPLE and shows_singles(plan, view))


def shows_singles(plan: Plan, view: str) -> bool:
    """Whether gradients of single examples can be read at the example surface."""
    acts = plan.method.surface is Surface.EXAMPLE and not plan.method.idle
    return plan.batch == 1 or view == "in_memory" or not acts or plan.method.draw is Draw.EACH


class Read(NamedTuple):
    """A reading in the units of a gradient (an update is divided by -lr L), and which examples are behind it.

    std: the noise on it, a tree that broadcasts to `gradient`; NaN where S is private. rows: places in the pool of
    examples, for the referee alone.
    """

    params: Tree
    memory: Tree
    gradient: Tree
    std: Tree
    rows: Host


@dataclass(frozen=True, slots=True)
class Replay:
    """The public mechanism as a function: what examples would have shown at a tap, had no noise been drawn."""

    work: Work
    numbers: tuple[float, ...]
    learning_rate: float
    tap: Tap

    @staticmethod
    def of(plan: Plan, tap: Tap) -> "Replay":
        """Take from a plan what is public about it."""
        return Replay(Work.of(plan), kernel(plan.method)[1], plan.learning_rate, tap)

    def __call__(self, params: Tree, memory: Tree, x: Array, y: Array) -> Tree:
        """Give the reading without noise for examples [L B, ...] and labels [L B], in the order of their use.

        Where batches vary in size there may be more or fewer than B of them, and a label below 0 marks an empty place;
        sums are divided by the public B as in training.
        """
        rule = self.work.kind.bind(self.numbers)._replace(prune=Keep())
        if self.tap.surface is Surface.EXAMPLE:
            hidden = self.tap.view == "in_memory"
            return self._batch(rule, params, memory, x, y, 1 if self.tap.single else self.work.batch, hidden)
        steps = self.work.steps
        lots = jax.tree.map(lambda a: a.reshape(steps, a.shape[0] // steps, *a.shape[1:]), (x, y))

        def step(at: Tree, lot: tuple[Array, Array]) -> tuple[Tree, None]:
            mean = self._batch(rule, at, memory, *lot, self.work.batch)
            return tree.add_scaled(at, mean, -self.learning_rate), None

        after, _ = jax.lax.scan(step, params, lots)
        update = _through(Surface.UPDATE, rule, tree.subtract(after, params), memory)
        if self.tap.surface is Surface.SERVER and self.tap.view == "released":
            update = _through(Surface.SERVER, rule, update, memory)
        return _as_gradient(update, self.learning_rate, steps)

    def _batch(
        self, rule: Rule, params: Tree, memory: Tree, x: Array, y: Array, expected: float, hidden: bool = False
    ) -> Tree:
        mask, labels = jnp.where(y < 0, 0.0, 1.0), jnp.maximum(y, 0)
        if hidden or not _acts(rule, Surface.EXAMPLE):
            return batch_gradient(self.work.model, params, x, labels, mask / expected)
        lot = per_example_gradients(self.work.model, params, x, labels)
        return unnoised(rule, lot, mask, expected, memory)


def _acts(rule: Rule, surface: Surface) -> bool:
    return rule.surface is surface and not rule.idle


def _through(surface: Surface, rule: Rule, update: Tree, memory: Tree) -> Tree:
    """Give one update after a surface, clipped if the rule acts there."""
    if not _acts(rule, surface):
        return update
    return unnoised(rule, tree.lot_of_one(update), jnp.ones(1), 1, memory)


def _as_gradient(update: Tree, learning_rate: float, steps: int) -> Tree:
    return jax.tree.map(lambda u: -u / (learning_rate * steps), update)


def read(plan: Plan, population: Population, state: State, roots: Keys, number: int, tap: Tap, step: int = 0) -> Read:
    """Run client `number` of the round after `state` again and read it at a tap; `step` counts at surface 2 only.

    After the last round of a plan, what is read is one more round with the last noise scale.
    """
    t = min(state.round, plan.rounds - 1)
    task = task_for(plan, t, state.params, state.memory, keys.named(roots.private, "round", state.round))
    holding = Holding(*map(jnp.asarray, (population.x, population.y, population.shards[number], np.int32(number))))
    work = Work.of(plan)
    if tap.surface is Surface.EXAMPLE:
        params, gradient, rows = _at_example(work, task, holding, step, tap)
    else:
        params, gradient, rows = _at_update(work, task, holding, tap)
    return Read(params, state.memory, gradient, noise(plan, t, tap, params, state.memory, step), rows)


_train = partial(jax.jit, static_argnums=0)(client.train)
_step = partial(jax.jit, static_argnums=0)(client.step)
_Look = tuple[Tree, Tree, Host]
"""The parameters, the gradient read there, and the rows of the examples behind it."""


def _at_example(work: Work, task: Task, holding: Holding, step: int, tap: Tap) -> _Look:
    before = client.begin(work, task)
    for index in range(step):
        before = _step(work, task, holding, before, jnp.asarray(index))
    crossing = client.seen(work, task, holding, before, jnp.asarray(step))
    rows = _rows(work, task, holding, step)
    lot = crossing.seen.raw if tap.view == "in_memory" else crossing.seen.released
    if tap.single:
        return before.params, jax.tree.map(lambda a: a[0], lot), rows[:1]
    if tap.view == "released":
        return before.params, crossing.used, rows
    return before.params, jax.tree.map(lambda a: jnp.sum(a[: len(rows)], axis=0) / work.batch, lot), rows


def _at_update(work: Work, task: Task, holding: Holding, tap: Tap) -> _Look:
    update = _train(work, task, holding).update
    if tap.surface is Surface.SERVER and tap.view == "released":
        # The paper noises every update as it arrives: a lot of one, noised by sigma S.
        rule, key = work.kind.bind(task.numbers), keys.named(task.key, "server", holding.client)
        lot = tree.lot_of_one(update)
        update = cross(Surface.SERVER, rule, lot, jnp.ones(1), 1, task.sigmas[0], task.memory, key).used
    rows = np.concatenate([_rows(work, task, holding, step) for step in range(work.steps)])
    return task.params, _as_gradient(update, float(task.learning_rate), work.steps), rows


def _rows(work: Work, task: Task, holding: Holding, step: int) -> Host:
    """Give the rows of the pool that a local step used."""
    chosen = client.picked(work, task, holding, jnp.asarray(step))
    rows: Host = np.asarray(holding.shard)[np.asarray(chosen.positions)[: int(chosen.real)]]
    return rows


def noise(plan: Plan, t: int, tap: Tap, params: Tree, memory: Tree, step: int = 0) -> Tree:
    """Give the standard deviation of the noise on a reading of round t, a scalar or an array a layer.

    Noise of L local steps adds up in an update to sqrt(sum_l std_l^2) / L in the units of their mean gradient; that
    later steps start from noised parameters is left out.
    """
    std = _scalar_noise(plan, t, tap, step) * _public_sensitivity(plan, memory)
    std = std if _adds_noise(plan, tap) else 0.0
    if std == 0 or math.isnan(std):
        return jax.tree.map(lambda a: np.float32(std), params)
    level, none = (jax.tree.map(lambda a, v=value: jnp.full_like(a, v), params) for value in (std, 0.0))
    spread = tree.subtract(plan.method.clip.leave(level, memory), plan.method.clip.leave(none, memory))
    return jax.tree.map(lambda a: a.ravel()[0] if bool(jnp.all(a == a.ravel()[0])) else a, spread)


def _adds_noise(plan: Plan, tap: Tap) -> bool:
    """Whether the method's noise is on what is read: it acts at the tap's surface or nearer to the data."""
    if plan.method.noise.silent or plan.method.idle or tap.view == "in_memory":
        return False
    return plan.method.surface > tap.surface or (plan.method.surface is tap.surface and tap.view == "released")


def _scalar_noise(plan: Plan, t: int, tap: Tap, step: int) -> float:
    """Give the noise on the reading in units of S."""
    method, sigmas = plan.method, plan.sigmas()[t]
    if method.surface is not Surface.EXAMPLE:
        share = 1 / math.sqrt(plan.cohort) if method.share else 1.0
        return float(sigmas[0]) * share / (plan.learning_rate * plan.local_steps)
    if tap.single:
        return float(sigmas[step])
    part = method.draw.share(plan.batch)
    if tap.surface is Surface.EXAMPLE:
        return float(sigmas[step]) * part
    return float(np.sqrt(np.sum(np.square(sigmas)))) * part / plan.local_steps


def _public_sensitivity(plan: Plan, memory: Tree) -> float:
    """Give S, or NaN where it is computed from private gradients."""
    method = plan.method
    if method.sensitivity.data_dependent:
        return math.nan
    bound = method.clip.bound(memory)
    nothing = jnp.zeros((1, 1))
    return float(method.sensitivity(Facts(nothing, nothing, jnp.zeros(1), jnp.ones(1)), bound))


def gaussian_mu(plan: Plan, t: int, tap: Tap, params: Tree, memory: Tree) -> float | None:
    """Give the mu of one reading if one example (or, for noised updates, the whole client) is there or not.

    The clipped mean moves by at most C / n jointly, sqrt(M) C / n for a clip of each of M layers, and is noised by
    sigma S share(n): mu is their ratio, times sqrt(touches) where L steps are read together. None where nothing is
    noised or S is private.
    """
    method = plan.method
    if not _adds_noise(plan, tap) or method.sensitivity.data_dependent:
        return None
    layers = 1 if method.clip.joint else len(jax.tree.leaves(params))
    example = method.surface is Surface.EXAMPLE
    moved = float(method.clip.bound(memory)) * math.sqrt(layers)
    if example:
        moved /= 1 if tap.single else plan.batch
    else:
        moved /= plan.learning_rate * plan.local_steps
    often = touches(plan) if example and tap.surface is not Surface.EXAMPLE else 1
    # An example may be in any step, so that of an update counts the step with the least noise.
    step = int(np.argmin(plan.sigmas()[t])) if tap.surface is not Surface.EXAMPLE else 0
    std = _scalar_noise(plan, t, Tap(Surface.EXAMPLE, single=tap.single) if example else tap, step)
    return moved * math.sqrt(often) / (std * _public_sensitivity(plan, memory)) if math.isfinite(moved) else None
