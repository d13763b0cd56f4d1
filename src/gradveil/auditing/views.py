"""What each adversary sees of one client in one round, as one vector: the real client and server, with given keys.

Three views: every local step's release, the client's update, and the model. What an adaptive clip sends beside an
update (a count, slots) is left out, so a lower bound is that of somebody who ignores it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import tree
from gradveil.auditing.probe import AuditStage, Host
from gradveil.federation import client, server
from gradveil.federation.client import ClientData
from gradveil.federation.messages import ClientSpec, Report, RoundTask
from gradveil.models.gradients import trained
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


def of_victim(spec: ClientSpec, task: RoundTask, x: Array, y: Array) -> tuple[Array, Array, Report]:
    """Return the victim's steps, its update as the server receives it, and its report."""
    data = ClientData(x, y, jnp.arange(spec.size), jnp.asarray(VICTIM))
    report = client.train(spec, task, data)
    update = flat(report.update)
    return update[None] if spec.stage is not None or spec.steps == 1 else _steps(spec, task, data), update, report


def _steps(spec: ClientSpec, task: RoundTask, data: ClientData) -> Array:
    """Return how far every local step moved the parameters, [L, d]."""

    def move(before: client.Progress, index: Array) -> tuple[client.Progress, Array]:
        after = client.step(spec, task, data, before, index)
        pair = (trained(spec.model, p.params) for p in (after, before))
        return after, flat(tree.subtract(*pair))

    return jax.lax.scan(move, client.begin(spec, task), jnp.arange(spec.steps))[1]


def of_others(spec: ClientSpec, task: RoundTask, x: Array, y: Array) -> Report:
    """Return the reports of the rest of the cohort, who hold nothing: their noise, [K - 1, ...]."""

    def one(number: Array) -> Report:
        return client.train(spec, task, ClientData(x, y, jnp.arange(spec.size), number))

    reports: Report = jax.lax.map(one, jnp.arange(VICTIM + 1, VICTIM + spec.cohort))
    return reports


def of_model(spec: ClientSpec, task: RoundTask, report: Report, others: Report) -> Array:
    """Return how far the round moves the model, [d]."""
    cohort = jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), report, others)
    after, _, _ = server.aggregate(spec, task, cohort.update, cohort.statistics, cohort.metrics)
    if spec.stage is not None:
        return flat(after)
    return flat(tree.subtract(trained(spec.model, after), trained(spec.model, task.params)))


def look(spec: ClientSpec, task: RoundTask, worlds: Array, labels: Array, nobody: Array) -> Seen:
    """Return what is seen of the victim in each world [W, size, d], with the same keys in all of them."""
    others = of_others(spec, task, nobody, labels)

    def one(x: Array) -> Seen:
        steps, update, report = of_victim(spec, task, x, labels)
        return Seen(steps, update, of_model(spec, task, report, others))

    seen: Seen = jax.lax.map(one, worlds)
    return seen


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


PARTS: dict[str, Callable[..., Any]] = {"look": look, "draw": batches}
"""What is compiled for a kind of round."""


class Looker:
    """Compiled views of a stage, one program a kind of round; made anew for every audit, to run the code of today."""

    def __init__(self, stage: AuditStage) -> None:
        self._stage = stage
        self._programs: dict[tuple[ClientSpec, str], Callable[..., Any]] = {}
        self._labels, self._nobody = jnp.asarray(stage.labels()), jnp.asarray(stage.nobody())

    def __call__(self, task: RoundTask, worlds: Host, silent: bool = False) -> Seen:
        """Look at a round in some worlds, as it is or with every sigma set to zero; on the host."""
        quiet = task._replace(sigmas=jnp.zeros_like(task.sigmas)) if silent else task
        seen = self._program(task, "look")(quiet, worlds, self._labels, self._nobody)
        return Seen(*(np.asarray(part, np.float64) for part in seen))

    def drawn(self, task: RoundTask, keys: Array) -> Drawn:
        """Draw the victim's batches of a round with each of the keys [n]; on the host."""
        return Drawn(*map(np.asarray, self._program(task, "draw")(task, keys)))

    def _program(self, task: RoundTask, what: str) -> Callable[..., Any]:
        spec = ClientSpec.of(self._stage.plan, int(task.t))
        if (spec, what) not in self._programs:
            self._programs[spec, what] = jax.jit(partial(PARTS[what], spec))
        return self._programs[spec, what]


def layers_of(stage: AuditStage, params: Tree, t: int, coordinates: int) -> Host:
    """Return the layer of every coordinate of a view, [d]; the vectors of a preparation have one."""
    if stage.plan.stage(t) is not None:
        return np.zeros(coordinates, int)
    sizes = [leaf.size for leaf in jax.tree.leaves(trained(stage.plan.model, params))]
    return np.repeat(np.arange(len(sizes)), sizes)
