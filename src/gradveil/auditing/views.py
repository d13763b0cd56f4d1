"""What each adversary sees of one client in one round, as one vector: the real client and server, with given keys.

Three views: every local step's release, the client's update, and the model. What a clip releases beside units is part
of it: the slots of `Slack` in what is noised with them, the noised count of `Quantile` in the model.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import tree
from gradveil.auditing.absence import CLIENT, NOBODY, Without
from gradveil.auditing.clip_releases import beside_model, beside_update, noise_beside, numbers_beside
from gradveil.auditing.probe import AuditStage, Host
from gradveil.federation import client, server
from gradveil.federation.client import ClientData
from gradveil.federation.messages import ClientSpec, Report, RoundTask
from gradveil.federation.plan import Plan
from gradveil.models.gradients import trained
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.method import split_static
from gradveil.surface import Surface
from gradveil.tree import Array, Tree

VICTIM = 0
"""The number of the client whose records are compared."""


class Seen(NamedTuple):
    """One round of the victim: releases of its local steps [L, d], its update [d], the model's change [d]."""

    steps: Any
    update: Any
    model: Any


def flat(value: Tree) -> Array:
    """Lay the tensors of one tree side by side, [d]."""
    return tree.flat(tree.lot_of_one(value))[0]


class Cohort(NamedTuple):
    """A round of the victim in W worlds, and of the rest of the cohort, who hold nothing: their noise, [K - 1, ...].

    steps: releases of the victim's local steps [W, L, d]; update: as the server receives it, [W, d].
    """

    steps: Array
    update: Array
    victim: Report
    others: Report


def of_cohort(
    spec: ClientSpec, task: RoundTask, worlds: Array, gone: Array, labels: Array, nobody: Array, others: bool = True
) -> Cohort:
    """Train the victim in each world [W, size, d], and the others if wanted, all by one program; gone: [W]."""
    count = worlds.shape[0]

    def one(i: Array) -> tuple[Array, Array, Report]:
        own, world = i < count, jnp.minimum(i, count - 1)
        x, who = jnp.where(own, worlds[world], nobody), jnp.where(own, gone[world], NOBODY)
        number = jnp.where(own, VICTIM, VICTIM + 1 + i - count)
        return _of_client(spec, task, ClientData(x, labels, jnp.arange(spec.size), number), who)

    steps, update, reports = jax.lax.map(one, jnp.arange(count + (spec.cohort - 1 if others else 0)))
    victim, rest = (jax.tree.map(lambda a, s=part: a[s], reports) for part in (slice(count), slice(count, None)))
    return Cohort(steps[:count], update[:count], victim, rest)


def _of_client(spec: ClientSpec, task: RoundTask, data: ClientData, gone: Array) -> tuple[Array, Array, Report]:
    """Return a client's steps, its update, and its report; gone: as in `Without`."""
    thinned = replace(spec, sampling=Without(spec.sampling, gone))
    report = client.train(thinned, task, data, _there(spec, gone, Surface.UPDATE))
    update = jnp.concatenate([flat(report.update), beside_update(spec, task, report.statistics)])
    return update[None] if spec.stage is not None or spec.steps == 1 else _steps(thinned, task, data), update, report


def _there(spec: ClientSpec, gone: Array, surface: Surface) -> Array:
    """Return 0 for a client that is gone where the method noises at this surface; else 1.

    So neighbors differ there. An update of zeros is another thing: it fills slots and is counted.
    """
    return jnp.where((gone == CLIENT) & (spec.static.surface is surface), 0.0, 1.0)


def _steps(spec: ClientSpec, task: RoundTask, data: ClientData) -> Array:
    """Return how far every local step moved the parameters, [L, d]."""

    def move(before: client.Progress, index: Array) -> tuple[client.Progress, Array]:
        after = client.step(spec, task, data, before, index)
        pair = (trained(spec.model, p.params) for p in (after, before))
        own = jax.tree.map(jnp.subtract, after.statistics, before.statistics)
        return after, jnp.concatenate([flat(tree.subtract(*pair)), beside_update(spec, task, own)])

    return jax.lax.scan(move, client.begin(spec, task), jnp.arange(spec.steps))[1]


def of_model(spec: ClientSpec, task: RoundTask, report: Report, others: Report, gone: Array) -> Array:
    """Return how far the round moves the model, [d]; gone: who is gone of the victim."""
    cohort = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), report, others)
    mask = jnp.ones(spec.cohort).at[0].set(_there(spec, gone, Surface.SERVER))
    after, clip_state, _ = server.aggregate(spec, task, cohort.update, cohort.statistics, cohort.metrics, mask)
    if spec.stage is not None:
        return flat(after)
    moved = flat(tree.subtract(trained(spec.model, after), trained(spec.model, task.params)))
    return jnp.concatenate([moved, beside_model(spec, task, clip_state, cohort.update, mask)])


def look(spec: ClientSpec, task: RoundTask, worlds: Array, gone: Array, labels: Array, nobody: Array) -> Seen:
    """Return what is seen of the victim in each world [W, size, d], with the same keys in all; gone: of each, [W]."""
    cohort = of_cohort(spec, task, worlds, gone, labels, nobody)
    model: Array = jax.lax.map(lambda one: of_model(spec, task, one[0], cohort.others, one[1]), (cohort.victim, gone))
    return Seen(cohort.steps, cohort.update, model)


class Drawn(NamedTuple):
    """Batches of many rounds: how often each local step holds record 0, and how many records it holds, [n, L] each."""

    first: Host
    sizes: Host


def batches(spec: ClientSpec, task: RoundTask, keys: Array) -> tuple[Array, Array]:
    """Draw the victim's batches with each of the keys [n]: how often they hold record 0, and how many records."""
    data = ClientData(jnp.zeros((1, 1)), jnp.zeros(1), jnp.arange(spec.size), jnp.asarray(VICTIM))

    def one(key: Array, step: Array) -> tuple[Array, Array]:
        indices = client.batch_indices(spec, task._replace(key=key), data, step)
        real = jnp.arange(indices.positions.shape[0]) < indices.real
        return jnp.sum((indices.positions == 0) & real), indices.real

    each_step = jax.vmap(one, in_axes=(None, 0))
    drawn: tuple[Array, Array] = jax.lax.map(lambda key: each_step(key, jnp.arange(spec.steps)), keys)
    return drawn


PARTS: dict[str, Callable[..., Any]] = {
    "look": look,
    "draw": batches,
    "beside": noise_beside,
}
"""What is compiled for a kind of round."""


def silenced(plan: Plan, task: RoundTask) -> RoundTask:
    """Return the task with every sigma set to zero, and the noise of a quantile's count."""
    method = plan.method_at(int(task.t))
    if isinstance(method.clip, Quantile):
        _, numbers = split_static(replace(method, clip=replace(method.clip, count_noise=0.0)))
        task = task._replace(dynamic=tuple(jnp.float32(n) for n in numbers))
    return task._replace(sigmas=jnp.zeros_like(task.sigmas))


class Looker:
    """Compiled views of a stage, one program a kind of round; made anew for every audit, to run the code of today."""

    def __init__(self, stage: AuditStage) -> None:
        self._stage = stage
        self._programs: dict[tuple[ClientSpec, str], Callable[..., Any]] = {}
        self._labels, self._nobody = jnp.asarray(stage.labels()), jnp.asarray(stage.nobody())

    def __call__(self, task: RoundTask, worlds: Host, gone: Host, silent: bool = False) -> Seen:
        """Look at a round in some worlds, as it is or without any noise; on the host."""
        quiet = silenced(self._stage.plan, task) if silent else task
        seen = self._program(task, "look")(quiet, worlds, gone, self._labels, self._nobody)
        return Seen(*(np.asarray(part, np.float64) for part in seen))

    def drawn(self, task: RoundTask, keys: Array) -> Drawn:
        """Draw the victim's batches of a round with each of the keys [n]; on the host."""
        return Drawn(*map(np.asarray, self._program(task, "draw")(task, keys)))

    def numbers_beside(self, task: RoundTask) -> int:
        """Count the numbers that a round releases beside units."""
        return numbers_beside(ClientSpec.of(self._stage.plan, int(task.t)), task)

    def more_noise(self, task: RoundTask, keys: Array) -> Seen | None:
        """Draw the noise of what is released beside units, rows [., k] for each view; None where nothing is."""
        if not self.numbers_beside(task):
            return None
        drawn = self._program(task, "beside")(task, keys, self._labels, self._nobody)
        return Seen(*(np.asarray(part, np.float64) for part in drawn))

    def _program(self, task: RoundTask, what: str) -> Callable[..., Any]:
        spec = ClientSpec.of(self._stage.plan, int(task.t))
        if (spec, what) not in self._programs:
            self._programs[spec, what] = jax.jit(partial(PARTS[what], spec))
        return self._programs[spec, what]


def layers_of(stage: AuditStage, params: Tree, t: int, coordinates: int) -> Host:
    """Return the layer of every coordinate of a view, [d]; the vectors of a preparation have one.

    What is released beside units is a layer of its own, the last.
    """
    if stage.plan.stage(t) is not None:
        return np.zeros(coordinates, int)
    sizes = [leaf.size for leaf in jax.tree.leaves(trained(stage.plan.model, params))]
    return np.repeat(np.arange(len(sizes) + 1), [*sizes, coordinates - sum(sizes)])
