"""One client of Algorithm 1, as pure functions: engines run it alone or mapped over a cohort."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gradveil import keys, tree
from gradveil.data import unequal
from gradveil.data.dataset import readable
from gradveil.data.sampling import BatchIndices
from gradveil.data.unequal import Own
from gradveil.federation.messages import ClientSpec, Report, RoundTask
from gradveil.models.factors import gradient_sums, in_products, plain_gradient
from gradveil.models.gradients import joined, per_example_gradients, trained
from gradveil.models.regression import SoftmaxRegression
from gradveil.privacy.sanitize import ClipMetrics, Crossing, Sums, cross, cross_sum, needs_no_units
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


class ClientData(NamedTuple):
    """What a client holds: the pool of examples, its shard (row numbers in the pool) and its number.

    own: what its batches depend on where clients hold different numbers of examples; the rest of its shard is padding.
    """

    x: Array
    y: Array
    shard: Array
    client: Array
    own: Own | None = None


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


def train(spec: ClientSpec, task: RoundTask, data: ClientData, there: Array | float = 1.0) -> Report:
    """Do the L local steps as one compiled loop, or the one of a preparation; there: as in `finish`."""
    if spec.stage is not None:
        return prepare(spec, task, data)
    move = partial(step, spec, task, data)
    after, _ = jax.lax.scan(lambda p, index: (move(p, index), None), begin(spec, task), jnp.arange(spec.steps))
    return finish(spec, task, data, after, there)


def prepare(spec: ClientSpec, task: RoundTask, data: ClientData) -> Report:
    """Send the noised mean of the vectors of a preparation, over all examples of the client."""
    index = jnp.asarray(0)
    key, indices = _noise_key(task, data, index), batch_indices(spec, task, data, index)
    batches = [_Batch(slots, index, indices, key) for slots in spec.capacities]
    crossing: Crossing = _in_smallest(
        spec, indices, [partial(_cross_sum, spec, task, data, task.params, batch) for batch in batches]
    )
    return Report(crossing.used, crossing.statistics, crossing.metrics)


def begin(spec: ClientSpec, task: RoundTask) -> Progress:
    """Download the global model: W_i(t)_0 <- W(t)."""
    zeros = ClipMetrics(*(jnp.zeros(()),) * len(ClipMetrics._fields))
    return Progress(task.params, _no_statistics(spec, task), zeros)


def step(spec: ClientSpec, task: RoundTask, data: ClientData, before: Progress, index: Array) -> Progress:
    """Do local step `index`: pick a batch, let its gradients cross the example surface, descend."""
    key, indices = _noise_key(task, data, index), batch_indices(spec, task, data, index)
    batches = [_Batch(slots, index, indices, key) for slots in spec.capacities]
    after: Progress = _in_smallest(
        spec, indices, [partial(_descend, spec, task, data, before, batch) for batch in batches]
    )
    return after


def _in_smallest(spec: ClientSpec, indices: BatchIndices, ways: list[Callable[[], Any]]) -> Any:
    """Do what is compiled for the smallest of the spec's capacities that holds the batch; one way for each."""
    if len(ways) == 1:
        return ways[0]()
    return jax.lax.switch(jnp.searchsorted(jnp.asarray(spec.capacities), indices.real), ways)


def finish(spec: ClientSpec, task: RoundTask, data: ClientData, after: Progress, there: Array | float = 1.0) -> Report:
    """Let the update cross the update surface: Delta W_i(t) = W_i(t)_L - W(t).

    there: 0 for the neighbor without this client, whose lot is empty where updates are noised: noise about nobody.
    """
    method = spec.method(task)
    moved, start = (trained(spec.model, params) for params in (after.params, task.params))
    update = tree.lot_of_one(tree.subtract(moved, start))
    sigma = _share(spec, task.sigmas[0])
    key = keys.named(_client_key(task, data), "update")
    crossing = cross(Surface.UPDATE, method, update, jnp.full(1, there), 1, sigma, task.clip_state, key)
    if method.acts(Surface.EXAMPLE):
        return Report(crossing.used, after.statistics, jax.tree.map(lambda m: m / spec.steps, after.metrics))
    return Report(crossing.used, crossing.statistics, crossing.metrics)


def batch_indices(spec: ClientSpec, task: RoundTask, data: ClientData, index: Array) -> BatchIndices:
    """Draw the batch of local step `index`."""
    key = keys.named(_client_key(task, data), "batch", index // spec.sampling.period(spec.size, spec.batch))
    if data.own is not None:
        return unequal.pick(spec.sampling, key, spec.rooms, spec.rungs[-1], data.own)
    return spec.sampling.pick(key, index, spec.size, spec.batch)


def observed(spec: ClientSpec, task: RoundTask, data: ClientData, params: Tree, index: Array) -> Crossing:
    """Replay the crossing of local step `index` at the example surface, to see what an adversary observes there.

    It draws the same noise as `step`; not to be compiled, since the number of real examples decides shapes.
    """
    size = int(batch_indices(spec, task, data, index).real)
    slots = next(n for n in spec.capacities if n >= size)
    crossing: Crossing = _observed(spec, slots, task, data, params, index)
    return crossing


@partial(jax.jit, static_argnums=(0, 1))
def _observed(spec: ClientSpec, slots: int, task: RoundTask, data: ClientData, params: Tree, index: Array) -> Crossing:
    batch = _Batch(slots, index, batch_indices(spec, task, data, index), _noise_key(task, data, index))
    return _cross_examples(spec, task, data, params, batch)


def _cross_examples(spec: ClientSpec, task: RoundTask, data: ClientData, params: Tree, batch: _Batch) -> Crossing:
    """Let the gradients of a batch, a lot with leaves [slots, ...], cross the example surface; nothing else does."""
    lot = lot_of(spec, params, *_examples(data, batch))
    sigma = _share(spec, task.sigmas[batch.step])
    method = spec.method(task)
    return cross(Surface.EXAMPLE, method, lot, batch.mask, _expected(spec, data), sigma, task.clip_state, batch.key)


def lot_of(spec: ClientSpec, params: Tree, x: Array, y: Array) -> Tree:
    """Return the units of a round: gradients, or the vectors of its preparation, a lot with leaves [n, ...]."""
    if spec.stage is not None and isinstance(spec.model, SoftmaxRegression):
        return spec.model.vectors(params, x, spec.stage)
    return per_example_gradients(spec.model, params, x, y)


def _sums(spec: ClientSpec, params: Tree, x: Array, y: Array, mask: Array) -> Sums | None:
    """Return the sums of a round's units, none or few of which are made at a time; None if the model knows no way."""
    if isinstance(spec.model, SoftmaxRegression):
        norms, summed = spec.model.sums(params, x, y, spec.stage)
        return lambda weigh: (norms, summed(weigh(norms, mask)))
    return partial(gradient_sums, spec.model, params, x, y, mask) if in_products(spec.model) else None


def _cross_sum(spec: ClientSpec, task: RoundTask, data: ClientData, params: Tree, batch: _Batch) -> Crossing:
    """Let the units of a batch cross the example surface, as one sum where nothing needs the units themselves.

    The result is that of the lot, up to rounding.
    """
    method, mask = spec.method(task), batch.mask
    sums = _sums(spec, params, *_examples(data, batch), mask) if needs_no_units(method) else None
    if sums is None:
        return _cross_examples(spec, task, data, params, batch)
    expected, sigma = _expected(spec, data), _share(spec, task.sigmas[batch.step])
    return cross_sum(method, sums, mask, expected, sigma, task.clip_state, batch.key)


def _expected(spec: ClientSpec, data: ClientData) -> Any:
    """Return the public number by which sums over a batch are divided."""
    return spec.batch if data.own is None else data.own.expected


def _share(spec: ClientSpec, sigma: Array) -> Array:
    """Return the noise scale that one client draws with: sigma, or its share of it."""
    return sigma / jnp.sqrt(spec.honest) if spec.static.share else sigma


def _descend(spec: ClientSpec, task: RoundTask, data: ClientData, before: Progress, batch: _Batch) -> Progress:
    """Take one step; where the method does not act on examples, one gradient of the batch is enough and cheaper."""
    method = spec.method(task)
    if not method.acts(Surface.EXAMPLE):
        gradient = plain_gradient(
            spec.model, before.params, *_examples(data, batch), batch.mask / _expected(spec, data)
        )
        return before._replace(params=_moved(spec, before.params, gradient, -task.learning_rate))
    crossing = _cross_sum(spec, task, data, before.params, batch)
    first_only = jnp.where(batch.step == 0, 1.0, 0.0) if method.clip.once_a_round else 1.0
    return Progress(
        _moved(spec, before.params, crossing.used, -task.learning_rate),
        tree.add_scaled(before.statistics, crossing.statistics, first_only),
        ClipMetrics(*(a + b for a, b in zip(before.metrics, crossing.metrics, strict=True))),
    )


def _moved(spec: ClientSpec, params: Tree, direction: Tree, factor: Array | float) -> Tree:
    """Move the trained parameters."""
    return joined(spec.model, params, tree.add_scaled(trained(spec.model, params), direction, factor))


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

    start = trained(spec.model, task.params)

    def collected(params: Tree) -> Tree:
        lot = tree.lot_of_one(params)
        sigma = task.sigmas[0]
        return cross(Surface.EXAMPLE, method, lot, jnp.ones(1), spec.batch, sigma, task.clip_state, task.key).statistics

    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(collected, start))
