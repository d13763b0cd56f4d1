"""What an adversary at a surface reads: one client of one round, replayed with its own keys.

A surface has views. `released` is what the method releases there, as the paper attacks it; `arriving` (server) and
`in_memory` (example) are stronger: the updates before the server adds noise, and the gradients in a client before
their sum is noised. `aggregate` (server) is weaker: only the sum over the clients of a round (see `sum_leaks`).
`model` is no reading of a round but the trained model, in which membership leaves its traces.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import keys, tree
from gradveil.errors import BadInput
from gradveil.federation import client
from gradveil.federation.client import ClientData
from gradveil.federation.engine import Population
from gradveil.federation.ledger import releases
from gradveil.federation.messages import ClientSpec, RoundTask, task_for
from gradveil.federation.plan import Plan
from gradveil.federation.server import State
from gradveil.keys import Key, Keys
from gradveil.models.gradients import trained
from gradveil.privacy.clip import NormStats
from gradveil.privacy.draw import Draw
from gradveil.privacy.sanitize import cross
from gradveil.privacy.slack import read_slots
from gradveil.surface import Surface
from gradveil.tree import Tree

Host = np.ndarray[Any, Any]
AGGREGATE, MODEL = "aggregate", "model"
VIEWS = {
    Surface.SERVER: ("released", "arriving", AGGREGATE, MODEL),
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
            views = " or ".join(", ".join(VIEWS[self.surface]).rsplit(", ", 1))
            raise BadInput(f"view = {self.view!r}: must be {views} at surface {int(self.surface)}")
        if self.single and self.surface is not Surface.EXAMPLE:
            raise BadInput("batch = 1: gradients of single examples are read at surface 2 only")

    def shows_slots(self, spec: ClientSpec) -> bool:
        """Whether what a clip writes beside units is read too: all of a lot's are noised together, or one unit's."""
        return self.view != "in_memory" and (not self.single or spec.batch == 1)

    @staticmethod
    def at(plan: Plan, surface: Surface, view: str) -> "Tap":
        """Return the most detailed tap that a plan allows: single examples, unless only a noised sum is released."""
        return Tap(surface, view, surface is Surface.EXAMPLE and shows_singles(plan, view))


def shows_singles(plan: Plan, view: str) -> bool:
    """Whether gradients of single examples can be read at the example surface."""
    acts = plan.method.acts(Surface.EXAMPLE)
    return plan.batch == 1 or view == "in_memory" or not acts or plan.method.draw is Draw.EACH


class Read(NamedTuple):
    """A reading in the units of a gradient (an update is divided by -lr L), and the rows of its examples.

    std: the noise on it, a tree that broadcasts to `gradient`; NaN where S is private. rows: indices into the pool of
    examples, for scoring only. slots: what the clip wrote beside the units, noised alike; () if it writes nothing.
    """

    params: Tree
    clip_state: Tree
    gradient: Tree
    std: Tree
    rows: Host
    slots: Tree = ()


def as_gradient(update: Tree, learning_rate: float, steps: int) -> Tree:
    """Return an update of some steps in the units of a gradient: divided by -lr L."""
    return jax.tree.map(lambda u: -u / (learning_rate * steps), update)


def read(plan: Plan, population: Population, state: State, roots: Keys, number: int, tap: Tap, step: int = 0) -> Read:
    """Replay client `number` in the round after `state` and read it at a tap; `step` matters at surface 2 only.

    After the last round of a plan, one more round with the last noise scale is read.
    """
    task, data = gradient_task(plan, state, round_key(state, roots)), client_data(population, number)
    spec = ClientSpec.of(plan)
    if tap.surface is Surface.EXAMPLE:
        params, gradient, rows, slots = _at_example(spec, task, data, step, tap)
    else:
        params, gradient, rows, slots = _at_update(spec, task, data, tap)
    std = noise(plan, int(task.t), tap, trained(plan.model, params), state.clip_state, step)
    factor = _public_factor(plan, data, tap)
    return Read(params, state.clip_state, jax.tree.map(lambda g: factor * g, gradient), std, rows, slots)


def _public_factor(plan: Plan, data: ClientData, tap: Tap) -> float:
    """Return what turns a reading of a client into one whose sums were divided by B, as adversaries reckon with.

    Clients of different sizes divide by a number of their own, which is public. Of several steps this is right to first
    order; an update that was clipped as a whole is left as it is.
    """
    as_summed = tap.surface is Surface.EXAMPLE and (tap.single or tap.view != "released")
    clipped = plan.method.acts(Surface.UPDATE) or plan.method.acts(Surface.SERVER)
    return 1.0 if data.own is None or as_summed or clipped else float(data.own.expected) / plan.batch


def round_key(state: State, roots: Keys) -> Key:
    """Return the private key of the round after a state."""
    return keys.named(roots.private, "round", state.round)


def gradient_task(plan: Plan, state: State, key: Key) -> RoundTask:
    """Return the task of the round after a state; BadInput if that is a preparation, which shows no gradient."""
    t = min(state.round, plan.rounds - 1)
    if (stage := plan.stage(t)) is not None:
        raise BadInput(
            f"round = {t}: releases the noised {stage.name} of the features and no gradient; the first round with "
            f"gradients is {len(plan.preparation)}"
        )
    return task_for(plan, t, state.params, state.clip_state, key)


def client_data(population: Population, number: int) -> ClientData:
    """Return what a client holds."""
    fields = (population.x, population.y, population.shards[number], np.int32(number), population.of_clients(number))
    return ClientData(*jax.tree.map(jnp.asarray, fields))


_train = partial(jax.jit, static_argnums=0)(client.train)
_step = partial(jax.jit, static_argnums=0)(client.step)
_Look = tuple[Tree, Tree, Host, Tree]
"""The parameters, the gradient read there, the rows of its examples, and the slots beside it."""


def _at_example(spec: ClientSpec, task: RoundTask, data: ClientData, step: int, tap: Tap) -> _Look:
    before = client.begin(spec, task)
    for index in range(step):
        before = _step(spec, task, data, before, jnp.asarray(index))
    crossing = client.observed(spec, task, data, before.params, jnp.asarray(step))
    rows = _rows(spec, task, data, step)
    lot = crossing.observed.raw if tap.view == "in_memory" else crossing.observed.released
    slots = read_slots(spec.method(task).clip, crossing.statistics, task.clip_state) if tap.shows_slots(spec) else ()
    if tap.single:
        return before.params, jax.tree.map(lambda a: a[0], lot), rows[:1], slots
    if tap.view == "released":
        return before.params, crossing.used, rows, slots
    return before.params, jax.tree.map(lambda a: jnp.sum(a[: len(rows)], axis=0) / spec.batch, lot), rows, slots


def sent(spec: ClientSpec, task: RoundTask, data: ClientData) -> tuple[Tree, Host, Tree]:
    """Return the update that a client sends, the rows of its examples in the order of their use, and its slots."""
    rows = np.concatenate([_rows(spec, task, data, step) for step in range(spec.steps)])
    report = _train(spec, task, data)
    return report.update, rows, read_slots(spec.method(task).clip, report.statistics, task.clip_state)


def _at_update(spec: ClientSpec, task: RoundTask, data: ClientData, tap: Tap) -> _Look:
    update, rows, slots = sent(spec, task, data)
    if tap.surface is Surface.SERVER and tap.view == "released":
        # The paper noises every update as it arrives: a lot of one, noised by sigma S.
        method, key = spec.method(task), keys.named(task.key, "server", data.client)
        lot = tree.lot_of_one(update)
        crossing = cross(Surface.SERVER, method, lot, jnp.ones(1), 1, task.sigmas[0], task.clip_state, key)
        update = crossing.used
        slots = read_slots(method.clip, crossing.statistics, task.clip_state) if method.acts(Surface.SERVER) else slots
    return task.params, as_gradient(update, float(task.learning_rate), spec.steps), rows, slots


def _rows(spec: ClientSpec, task: RoundTask, data: ClientData, step: int) -> Host:
    """Return the rows of the pool that a local step used."""
    indices = client.batch_indices(spec, task, data, jnp.asarray(step))
    rows: Host = np.asarray(data.shard)[np.asarray(indices.positions)[: int(indices.real)]]
    return rows


def noise(plan: Plan, t: int, tap: Tap, params: Tree, clip_state: Tree, step: int = 0) -> Tree:
    """Return the standard deviation of the noise on a reading of round t, a scalar or an array a trained layer.

    Noise of L local steps adds up in an update to sqrt(sum_l std_l^2) / L in the units of their mean gradient; that
    later steps start from noised parameters is left out.
    """
    std = _scalar_noise(plan, t, tap, step) * _pooling(plan, tap) * _public_sensitivity(plan, clip_state)
    std = std if _adds_noise(plan, tap) else 0.0
    if std == 0 or math.isnan(std):
        return jax.tree.map(lambda a: np.float32(std), params)
    level, none = (jax.tree.map(lambda a, v=value: jnp.full_like(a, v), params) for value in (std, 0.0))
    spread = tree.subtract(plan.method.clip.inverse(level, clip_state), plan.method.clip.inverse(none, clip_state))
    return jax.tree.map(lambda a: a.ravel()[0] if bool(jnp.all(a == a.ravel()[0])) else a, spread)


def _adds_noise(plan: Plan, tap: Tap) -> bool:
    """Whether the method's noise is on what is read: it acts at the tap's surface or nearer to the data."""
    if plan.method.noise.silent or plan.method.idle or tap.view == "in_memory":
        return False
    return plan.method.surface > tap.surface or (plan.method.surface is tap.surface and tap.view != "arriving")


def _pooling(plan: Plan, tap: Tap) -> float:
    """Return the noise on the mean of H updates over that on one: 1 / sqrt(H) where each has noise of its own."""
    if tap.view != AGGREGATE:
        return 1.0
    own = plan.method.surface is not Surface.SERVER
    return 1 / math.sqrt(plan.honest) if own else plan.method.draw.std_factor(plan.honest)


def _scalar_noise(plan: Plan, t: int, tap: Tap, step: int) -> float:
    """Return the noise on the reading in units of S."""
    method, sigmas = plan.method, plan.sigmas()[t]
    share = 1 / math.sqrt(plan.honest) if method.share else 1.0
    if method.surface is not Surface.EXAMPLE:
        return float(sigmas[0]) * share / (plan.learning_rate * plan.local_steps)
    if tap.single:
        return float(sigmas[step]) * share
    part = method.draw.std_factor(plan.batch) * share
    if tap.surface is Surface.EXAMPLE:
        return float(sigmas[step]) * part
    return float(np.sqrt(np.sum(np.square(sigmas)))) * part / plan.local_steps


def _public_sensitivity(plan: Plan, clip_state: Tree) -> float:
    """Return S, or NaN where it is computed from private gradients."""
    method = plan.method
    if method.sensitivity.data_dependent:
        return math.nan
    bound = method.clip.bound(clip_state)
    nothing = jnp.zeros((1, 1))
    return float(method.sensitivity(NormStats(nothing, nothing, jnp.zeros(1), jnp.ones(1)), bound))


def gaussian_mu(plan: Plan, t: int, tap: Tap, layers: int) -> float | None:
    """Return the mu of one reading if one example (or, for noised updates, the whole client) is added or removed.

    mu = 1 / z for the noise multiplier z of the round's Release, of a lot of one where single units are read; times
    sqrt(touches) where the L steps of an update are read together, each as noisy as the least noisy of them, since an
    example may be in any. In a sum over H clients the noise of each adds up, so mu is sqrt(H) times smaller, but not
    for examples of several local steps: later ones start from noised parameters. None where nothing is noised or
    nothing public bounds the ratio of unit and noise.
    """
    release, *_ = releases(plan, t, layers, copies=1)
    if not _adds_noise(plan, tap) or release.data_dependent or tap.view == MODEL:
        return None
    example = plan.method.surface is Surface.EXAMPLE
    lot = plan.batch if example and not tap.single else 1
    if tap.view == AGGREGATE and plan.method.surface is Surface.SERVER:
        lot = plan.honest
    z = replace(release, expected=float(lot)).noise_multipliers
    together = example and tap.surface is not Surface.EXAMPLE
    smallest, times = (min(z), release.touches) if together else (z[0], 1)
    if tap.view == AGGREGATE and plan.method.surface is not Surface.SERVER and not (example and plan.local_steps > 1):
        smallest *= math.sqrt(plan.honest)
    return math.sqrt(times) / smallest if smallest > 0 else None
