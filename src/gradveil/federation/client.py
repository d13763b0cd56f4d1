"""One client of Algorithm 1, as pure functions: engines run it alone or mapped over a cohort."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gradveil import keys, tree
from gradveil.data.dataset import readable
from gradveil.data.sampling import BatchIndices
from gradveil.federation.messages import ClientSpec, Report, RoundTask
from gradveil.models.gradients import batch_gradient, per_example_gradients
from gradveil.privacy.sanitize import ClipMetrics, Crossing, cross
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


class ClientData(NamedTuple):
    """What a client holds: the pool of examples, its shard (row numbers in the pool) and its number."""

    x: Array
    y: Array
    shard: Array
    client: Array


class Progress(NamedTuple):
    """A client between two local steps: its parameters, and the clip's statistics and metrics summed so far."""

    params: Tree
    statistics: Tree
    metrics: ClipMetrics


class _Batch(NamedTuple):
    """The batch of a local step: its slots (a compiled size), the step's number, the examples and the noise key."""

    slots: int
    step: Array
    indices: BatchIndices
    key: Array

    @property
    def mask(self) -> Array:
        """1 for each slot that holds an example, 0 for padding."""
        return (jnp.arange(self.slots) < self.indices.real).astype(jnp.float32)


def train(spec: ClientSpec, task: RoundTask, data: ClientData) -> Report:
    """Do the L local steps as one compiled loop."""
    move = partial(step, spec, task, data)
    after, _ = jax.lax.scan(lambda p, index: (move(p, index), None), begin(spec, task), jnp.arange(spec.steps))
    return finish(spec, task, data, after)


def begin(spec: ClientSpec, task: RoundTask) -> Progress:
    """Download the global model: W_i(t)_0 <- W(t)."""
    zeros = ClipMetrics(*(jnp.zeros(()),) * len(ClipMetrics._fields))
    return Progress(task.params, _no_statistics(spec, task), zeros)


def step(spec: ClientSpec, task: RoundTask, data: ClientData, before: Progress, index: Array) -> Progress:
    """Do local step `index`: pick a batch, let its gradients cross the example surface, descend."""
    key, indices = _noise_key(task, data, index), batch_indices(spec, task, data, index)
    capacities = spec.sampling.capacities(spec.size, spec.batch)
    moves = [partial(_descend, spec, task, data, before, _Batch(n, index, indices, key)) for n in capacities]
    if len(moves) == 1:
        return moves[0]()
    after: Progress = jax.lax.switch(jnp.searchsorted(jnp.asarray(capacities), indices.real), moves)
    return after


def finish(spec: ClientSpec, task: RoundTask, data: ClientData, after: Progress) -> Report:
    """Let the update cross the update surface: Delta W_i(t) = W_i(t)_L - W(t)."""
    method = spec.method(task)
    update = tree.lot_of_one(tree.subtract(after.params, task.params))
    sigma = task.sigmas[0] / jnp.sqrt(spec.cohort) if method.share else task.sigmas[0]
    key = keys.named(_client_key(task, data), "update")
    crossing = cross(Surface.UPDATE, method, update, jnp.ones(1), 1, sigma, task.clip_state, key)
    if method.acts(Surface.EXAMPLE):
        return Report(crossing.used, after.statistics, jax.tree.map(lambda m: m / spec.steps, after.metrics))
    return Report(crossing.used, crossing.statistics, crossing.metrics)


def batch_indices(spec: ClientSpec, task: RoundTask, data: ClientData, index: Array) -> BatchIndices:
    """Draw the batch of local step `index`."""
    key = keys.named(_client_key(task, data), "batch", index)
    return spec.sampling.pick(key, index, spec.size, spec.batch)


def observed(spec: ClientSpec, task: RoundTask, data: ClientData, params: Tree, index: Array) -> Crossing:
    """Replay the crossing of local step `index` at the example surface, to see what an adversary observes there.

    It draws the same noise as `step`; not to be compiled, since the number of real examples decides shapes.
    """
    size = int(batch_indices(spec, task, data, index).real)
    slots = next(n for n in spec.sampling.capacities(spec.size, spec.batch) if n >= size)
    crossing: Crossing = _observed(spec, slots, task, data, params, index)
    return crossing


@partial(jax.jit, static_argnums=(0, 1))
def _observed(spec: ClientSpec, slots: int, task: RoundTask, data: ClientData, params: Tree, index: Array) -> Crossing:
    batch = _Batch(slots, index, batch_indices(spec, task, data, index), _noise_key(task, data, index))
    return _cross_examples(spec, task, data, params, batch)


def _cross_examples(spec: ClientSpec, task: RoundTask, data: ClientData, params: Tree, batch: _Batch) -> Crossing:
    """Let the gradients of a batch, a lot with leaves [slots, ...], cross the example surface; nothing else does."""
    gradients = per_example_gradients(spec.model, params, *_examples(data, batch))
    sigma = task.sigmas[batch.step]
    method = spec.method(task)
    return cross(Surface.EXAMPLE, method, gradients, batch.mask, spec.batch, sigma, task.clip_state, batch.key)


def _descend(spec: ClientSpec, task: RoundTask, data: ClientData, before: Progress, batch: _Batch) -> Progress:
    """Take one step; where the method does not act on examples, one gradient of the batch is enough and cheaper."""
    method = spec.method(task)
    if not method.acts(Surface.EXAMPLE):
        gradient = batch_gradient(spec.model, before.params, *_examples(data, batch), batch.mask / spec.batch)
        return before._replace(params=tree.add_scaled(before.params, gradient, -task.learning_rate))
    crossing = _cross_examples(spec, task, data, before.params, batch)
    first_only = jnp.where(batch.step == 0, 1.0, 0.0) if method.clip.once_a_round else 1.0
    return Progress(
        tree.add_scaled(before.params, crossing.used, -task.learning_rate),
        tree.add_scaled(before.statistics, crossing.statistics, first_only),
        ClipMetrics(*(a + b for a, b in zip(before.metrics, crossing.metrics, strict=True))),
    )


def _examples(data: ClientData, batch: _Batch) -> tuple[Array, Array]:
    rows = data.shard[batch.indices.positions[: batch.slots]]
    return readable(data.x[rows]), data.y[rows]


def _client_key(task: RoundTask, data: ClientData) -> Array:
    return keys.named(task.key, "client", data.client)


def _noise_key(task: RoundTask, data: ClientData, index: Array) -> Array:
    return keys.named(_client_key(task, data), "example", index)


def _no_statistics(spec: ClientSpec, task: RoundTask) -> Tree:
    """Return statistics of zeros, in the shape that the clip's have at the example surface."""
    method = spec.method(task)
    if not method.acts(Surface.EXAMPLE):
        return ()

    def collected(params: Tree) -> Tree:
        lot = tree.lot_of_one(params)
        sigma = task.sigmas[0]
        return cross(Surface.EXAMPLE, method, lot, jnp.ones(1), spec.batch, sigma, task.clip_state, task.key).statistics

    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(collected, task.params))
