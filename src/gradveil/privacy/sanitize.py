"""Sanitizing a lot as it crosses a surface, and what an adversary there observes."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.privacy.clip import NormStats, Unclipped, joint_norms
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import TracedMethod
from gradveil.privacy.slack import slots_of
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


class Observed(NamedTuple):
    """What an adversary at a surface observes, as lots.

    released: what the method releases there: every noised unit where noise is drawn for EACH, else the one noised mean;
    where the method does not act, the units themselves. raw: the units before anything was done to them, which
    exist in memory (or arrive) even under a method that noises their sum.
    """

    released: Tree
    raw: Tree


class ClipMetrics(NamedTuple):
    """Scalars of one crossing for the record: S, C, mean unit norm, and the fraction of unit layers clipped."""

    sensitivity: Array
    bound: Array
    unit_norm: Array
    clipped: Array


class Crossing(NamedTuple):
    """The mean that training uses, what can be observed, metrics, and the clip's statistics."""

    used: Tree
    observed: Observed
    metrics: ClipMetrics
    statistics: Tree


def cross(
    surface: Surface,
    method: TracedMethod,
    lot: Tree,
    mask: Array,
    expected: float,
    sigma: Array,
    state: Tree,
    key: Array,
) -> Crossing:
    """Sanitize a lot at a surface if the method acts there: prune -> clip -> mean -> noise.

    lot: leaves [n, ...]; mask: [n], 0 for padded slots; expected: the public number of units by which the sum is
    divided (never the realized count, which is private). Guarantees: no unit changes the clipped sum by more than the
    clip's bound, the slots that the clip may write beside it included; an empty lot is noised like any other.
    """
    if not method.acts(surface):
        return _pass_through(lot, mask, expected)
    key_prune, key_noise = jax.random.split(key)
    pruned = jax.vmap(method.prune)(lot, jax.random.split(key_prune, mask.shape[0]))
    transformed = method.clip.transform(pruned, state)
    before = tree.layer_norms(transformed)
    if not isinstance(method.clip, Unclipped):
        transformed, before = _finite(transformed, before)
    scales = method.clip.scales(before, state) * mask[:, None]
    mean = tree.weighted_sum(scales / expected, transformed)
    after = jnp.where(scales > 0, before, 0.0) * scales  # an infinite norm has scale 0, and their product would be NaN
    norm_stats = NormStats(before, after, tree.norms(mean), mask)
    bound = method.clip.bound(state)
    sensitivity = method.sensitivity(norm_stats, bound)
    std = sigma * sensitivity * method.draw.std_factor(expected)
    slots = slots_of(method.clip, before, state)
    if method.draw is Draw.EACH:
        units = tree.weigh(scales, transformed), slots
        released, slots = tree.add_scaled(units, tree.gaussian(key_noise, units), sigma * sensitivity)
        noised = tree.weighted_sum(jnp.broadcast_to(mask[:, None] / expected, before.shape), released)
        slots = tree.summed(slots, mask / expected)
        released = method.clip.inverse(released, state)
        used = method.clip.inverse(noised, state)
    else:
        means = mean, tree.summed(slots, mask / expected)
        noised, slots = tree.add_scaled(means, tree.gaussian(key_noise, means), std)
        used = method.clip.inverse(noised, state)
        released = tree.lot_of_one(used)
    metrics = _measure(before, scales, mask, sensitivity, bound)
    known = slots if jax.tree.leaves(slots) else used
    return Crossing(used, Observed(released, lot), metrics, method.clip.statistics(norm_stats, known, std, state))


def _finite(lot: Tree, norms: Array) -> tuple[Tree, Array]:
    """Replace every unit whose norm is NaN or infinite by zero.

    No factor could clip it: NaN survives clipping and noise, and would reveal that the unit was in the lot.
    """
    finite = jnp.all(jnp.isfinite(norms), axis=1)

    def zeroed(leaf: Array) -> Array:
        return jnp.where(finite.reshape((-1,) + (1,) * (leaf.ndim - 1)), leaf, 0.0)

    return jax.tree.map(zeroed, lot), jnp.where(finite[:, None], norms, 0.0)


def _pass_through(lot: Tree, mask: Array, expected: float) -> Crossing:
    norms = tree.layer_norms(lot)
    used = tree.weighted_sum(jnp.broadcast_to(mask[:, None] / expected, norms.shape), lot)
    nothing = jnp.zeros(())
    metrics = _measure(norms, jnp.ones_like(norms), mask, nothing, jnp.asarray(jnp.inf))
    return Crossing(used, Observed(lot, lot), metrics, ())


def _measure(before: Array, scales: Array, mask: Array, sensitivity: Array, bound: Array) -> ClipMetrics:
    total = jnp.maximum(jnp.sum(mask), 1.0)
    unit_norm = jnp.sum(jnp.where(mask > 0, joint_norms(before)[:, 0], 0.0)) / total
    clipped = jnp.sum((scales < 1) * mask[:, None]) / (total * before.shape[1])
    return ClipMetrics(*(jnp.asarray(v, jnp.float32) for v in (sensitivity, bound, unit_norm, clipped)))
