"""One client of Algorithm 1, as pure functions: engines run it alone or mapped over a cohort."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gradveil import keys, tree
from gradveil.data.dataset import readable
from gradveil.data.sampling import Picked
from gradveil.federation.messages import Report, Task, Work
from gradveil.models.gradients import batch_gradient, per_example_gradients
from gradveil.privacy.method import Rule
from gradveil.privacy.sanitize import Crossing, Measures, cross
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


class Holding(NamedTuple):
    """What a client has: the pool of examples, its shard (row numbers in the pool) and its number."""

    x: Array
    y: Array
    shard: Array
    client: Array


class Progress(NamedTuple):
    """A client between two local steps: its parameters, the notes so far and the measures summed so far."""

    params: Tree
    note: Tree
    measures: Measures


def train(work: Work, task: Task, holding: Holding) -> Report:
    """Do the L local steps as one compiled loop."""
    move = partial(step, work, task, holding)
    after, _ = jax.lax.scan(lambda p, index: (move(p, index), None), begin(work, task), jnp.arange(work.steps))
    return finish(work, task, holding, after)


def begin(work: Work, task: Task) -> Progress:
    """Download the global model: W_i(t)_0 <- W(t)."""
    rule = work.kind.bind(task.numbers)
    zeros = Measures(*(jnp.zeros(()),) * len(Measures._fields))
    return Progress(task.params, _no_note(work, rule, task), zeros)


def step(work: Work, task: Task, holding: Holding, before: Progress, index: Array) -> Progress:
    """Do local step `index`: pick a batch, let its gradients cross the example surface, descend."""
    crossing = keys.named(_client_key(task, holding), "example", index)
    chosen = picked(work, task, holding, index)
    capacities = work.sampling.capacities(work.size, work.batch)
    moves = [partial(_descend, work, task, holding, before, _Lot(n, index, chosen, crossing)) for n in capacities]
    if len(moves) == 1:
        return moves[0]()
    after: Progress = jax.lax.switch(jnp.searchsorted(jnp.asarray(capacities), chosen.real), moves)
    return after


def finish(work: Work, task: Task, holding: Holding, after: Progress) -> Report:
    """Let the update cross the update surface: Delta W_i(t) = W_i(t)_L - W(t)."""
    rule = work.kind.bind(task.numbers)
    update = tree.lot_of_one(tree.subtract(after.params, task.params))
    sigma = task.sigmas[0] / jnp.sqrt(work.cohort) if rule.share else task.sigmas[0]
    key = keys.named(_client_key(task, holding), "update")
    crossing = cross(Surface.UPDATE, rule, update, jnp.ones(1), 1, sigma, task.memory, key)
    if _example_gradients(rule):
        return Report(crossing.used, after.note, jax.tree.map(lambda m: m / work.steps, after.measures))
    return Report(crossing.used, crossing.note, crossing.measures)


def picked(work: Work, task: Task, holding: Holding, index: Array) -> Picked:
    """Choose the batch of local step `index`."""
    key = keys.named(_client_key(task, holding), "batch", index)
    return work.sampling.pick(key, index, work.size, work.batch)


def seen(work: Work, task: Task, holding: Holding, before: Progress, index: Array) -> Crossing:
    """Let the batch of local step `index` cross the example surface once more, to see what it shows there.

    Draws the very noise that `step` draws; not to be compiled, since the number of real examples decides shapes.
    """
    chosen = picked(work, task, holding, index)
    capacity = next(n for n in work.sampling.capacities(work.size, work.batch) if n >= int(chosen.real))
    crossing: Crossing = _cross_example(work, capacity, task, holding, before, index)
    return crossing


@partial(jax.jit, static_argnums=(0, 1))
def _cross_example(work: Work, capacity: int, task: Task, holding: Holding, before: Progress, index: Array) -> Crossing:
    rule, chosen = work.kind.bind(task.numbers), picked(work, task, holding, index)
    mask = (jnp.arange(capacity) < chosen.real).astype(jnp.float32)
    gradients = units(work, before.params, holding, chosen.positions[:capacity])
    key = keys.named(_client_key(task, holding), "example", index)
    return cross(Surface.EXAMPLE, rule, gradients, mask, work.batch, task.sigmas[index], task.memory, key)


def units(work: Work, params: Tree, holding: Holding, positions: Array) -> Tree:
    """Give the gradients of the examples at these positions of the shard, a lot with leaves [B, ...]."""
    return per_example_gradients(work.model, params, *_examples(holding, positions))


class _Lot(NamedTuple):
    capacity: int
    step: Array
    picked: Picked
    key: Array


def _descend(work: Work, task: Task, holding: Holding, before: Progress, lot: _Lot) -> Progress:
    rule = work.kind.bind(task.numbers)
    positions = lot.picked.positions[: lot.capacity]
    mask = (jnp.arange(lot.capacity) < lot.picked.real).astype(jnp.float32)
    if not _example_gradients(rule):
        x, y = _examples(holding, positions)
        gradient = batch_gradient(work.model, before.params, x, y, mask / work.batch)
        return before._replace(params=tree.add_scaled(before.params, gradient, -task.learning_rate))
    gradients = units(work, before.params, holding, positions)
    sigma = task.sigmas[lot.step]
    crossing = cross(Surface.EXAMPLE, rule, gradients, mask, work.batch, sigma, task.memory, lot.key)
    first_only = jnp.where(lot.step == 0, 1.0, 0.0) if rule.clip.once_a_round else 1.0
    return Progress(
        tree.add_scaled(before.params, crossing.used, -task.learning_rate),
        tree.add_scaled(before.note, crossing.note, first_only),
        Measures(*(a + b for a, b in zip(before.measures, crossing.measures, strict=True))),
    )


def _example_gradients(rule: Rule) -> bool:
    """Whether the method needs the gradient of every example; if not, the batch gradient is cheaper."""
    return rule.surface is Surface.EXAMPLE and not rule.idle


def _examples(holding: Holding, positions: Array) -> tuple[Array, Array]:
    rows = holding.shard[positions]
    return readable(holding.x[rows]), holding.y[rows]


def _client_key(task: Task, holding: Holding) -> Array:
    return keys.named(task.key, "client", holding.client)


def _no_note(work: Work, rule: Rule, task: Task) -> Tree:
    """Give a note of zeros, of the shape that the clip's notes have at the example surface."""
    if not _example_gradients(rule):
        return ()

    def noted(params: Tree) -> Tree:
        lot = tree.lot_of_one(params)
        crossing: Crossing = cross(
            Surface.EXAMPLE, rule, lot, jnp.ones(1), work.batch, task.sigmas[0], task.memory, task.key
        )
        return crossing.note

    return jax.tree.map(lambda s: jnp.zeros(s.shape, s.dtype), jax.eval_shape(noted, task.params))
