"""Sanitizing a lot as it crosses a surface, and what an adversary there observes."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.clip import Flat, NormStats, OwnNorm, PerLayer, Unclipped, joint_norms
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Method, TracedMethod
from gradveil.privacy.prune import Keep
from gradveil.privacy.slack import Slack, slots_of
from gradveil.surface import Surface
from gradveil.tree import Array, Tree

Weigh = Callable[[Array, Array], Array]
"""From norms [n, M] and mask [n] of some units to the weights [n, M] with which they enter the mean."""
Sums = Callable[[Weigh], tuple[Array, Tree]]
"""A lot as two sums: given how to weigh, the norms [n, M] of all units and their weighted sum.

The weights of a unit depend on its own norms alone, so a lot may be weighed and summed some units at a time. A unit of
weight 0 is left out of the sum, also where it is not finite.
"""


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
    key_prune, _ = jax.random.split(key)
    pruned = jax.vmap(method.prune)(lot, jax.random.split(key_prune, mask.shape[0]))
    transformed = method.clip.transform(pruned, state)
    if method.draw is Draw.EACH:
        crossing = _cross_each(method, transformed, mask, expected, sigma, state, key)
    else:
        crossing = cross_sum(method, partial(_summed, transformed, mask), mask, expected, sigma, state, key)
    return crossing._replace(observed=crossing.observed._replace(raw=lot))


def needs_no_units(method: Method | TracedMethod) -> bool:
    """Whether a method only scales units and noises their sum: no pruning, no whitening, no noise on each."""
    scales = isinstance(method.clip, Unclipped | PerLayer | Flat | OwnNorm | Quantile | Slack)
    return scales and isinstance(method.prune, Keep) and method.draw is not Draw.EACH


def cross_sum(
    method: TracedMethod, sums: Sums, mask: Array, expected: float, sigma: Array, state: Tree, key: Array
) -> Crossing:
    """Clip, sum and noise a lot that is known by its sums alone; its units need not be made, and `raw` is empty.

    mask, expected and guarantees: as `cross`. The noise is the one that `cross` draws with the same key.
    """

    def weigh(norms: Array, real: Array) -> Array:
        return _clipped(method, norms, real, state).weights / expected

    norms, mean = sums(weigh)
    clipped = _clipped(method, norms, mask, state)
    law = _law(method, clipped, mean, mask, expected, sigma, state)
    means = mean, tree.summed(slots_of(method.clip, clipped.before, state), mask / expected)
    noised, slots = tree.add_scaled(means, tree.gaussian(_noise_key(key), means), law.std)
    used = method.clip.inverse(noised, state)
    known = slots if jax.tree.leaves(slots) else used
    statistics = method.clip.statistics(law.norm_stats, known, law.std, state)
    return Crossing(used, Observed(tree.lot_of_one(used), ()), _measure(clipped, mask, law), statistics)


def _cross_each(
    method: TracedMethod, lot: Tree, mask: Array, expected: float, sigma: Array, state: Tree, key: Array
) -> Crossing:
    """Clip a transformed lot and noise every unit of it."""
    clipped = _clipped(method, tree.layer_norms(lot), mask, state)
    mean = tree.weighted_sum(clipped.weights / expected, lot)
    law = _law(method, clipped, mean, mask, expected, sigma, state)
    units = tree.weigh(clipped.weights, lot), slots_of(method.clip, clipped.before, state)
    released, slots = tree.add_scaled(units, tree.gaussian(_noise_key(key), units), sigma * law.sensitivity)
    share = mask / expected
    used = method.clip.inverse(tree.summed(released, share), state)
    known = tree.summed(slots, share) if jax.tree.leaves(slots) else used
    statistics = method.clip.statistics(law.norm_stats, known, law.std, state)
    observed = Observed(method.clip.inverse(released, state), ())
    return Crossing(used, observed, _measure(clipped, mask, law), statistics)


class _Clipped(NamedTuple):
    """Norms before clipping, the clip's factors, and the weights with which units enter the sum, all [n, M]."""

    before: Array
    scales: Array
    weights: Array


class _Law(NamedTuple):
    """What the noise of a crossing follows: the norms, S, C, and the standard deviation on the mean."""

    norm_stats: NormStats
    sensitivity: Array
    bound: Array
    std: Array


def _clipped(method: TracedMethod, norms: Array, mask: Array, state: Tree) -> _Clipped:
    """Return each unit's factors, which depend on its own norms alone; padding has weight 0.

    A unit whose norm is NaN or infinite is left out like a unit of zeros. No factor could clip it: NaN survives
    clipping and noise, and would reveal that the unit was in the lot.
    """
    if isinstance(method.clip, Unclipped):
        scales = method.clip.scales(norms, state) * mask[:, None]
        return _Clipped(norms, scales, scales)
    finite = jnp.all(jnp.isfinite(norms), axis=1, keepdims=True)
    before = jnp.where(finite, norms, 0.0)
    scales = method.clip.scales(before, state) * mask[:, None]
    return _Clipped(before, scales, jnp.where(finite, scales, 0.0))


def _law(
    method: TracedMethod, clipped: _Clipped, mean: Tree, mask: Array, expected: float, sigma: Array, state: Tree
) -> _Law:
    # An infinite norm has scale 0, and their product would be NaN.
    after = jnp.where(clipped.scales > 0, clipped.before, 0.0) * clipped.scales
    norm_stats, bound = NormStats(clipped.before, after, tree.norms(mean), mask), method.clip.bound(state)
    sensitivity = method.sensitivity(norm_stats, bound)
    return _Law(norm_stats, sensitivity, bound, sigma * sensitivity * method.draw.std_factor(expected))


def _summed(lot: Tree, mask: Array, weigh: Weigh) -> tuple[Array, Tree]:
    """Return the norms of the units of a lot and their weighted sum."""
    norms = tree.layer_norms(lot)
    return norms, tree.weighted_sum(weigh(norms, mask), lot)


def _noise_key(key: Array) -> Array:
    return jax.random.split(key)[1]


def _pass_through(lot: Tree, mask: Array, expected: float) -> Crossing:
    norms = tree.layer_norms(lot)
    used = tree.summed(lot, mask / expected)
    scales = jnp.ones_like(norms)
    unbounded = _Law(NormStats(norms, norms, norms, mask), jnp.zeros(()), jnp.asarray(jnp.inf), jnp.zeros(()))
    return Crossing(used, Observed(lot, lot), _measure(_Clipped(norms, scales, scales), mask, unbounded), ())


def _measure(clipped: _Clipped, mask: Array, law: _Law) -> ClipMetrics:
    total = jnp.maximum(jnp.sum(mask), 1.0)
    unit_norm = jnp.sum(jnp.where(mask > 0, joint_norms(clipped.before)[:, 0], 0.0)) / total
    share = jnp.sum((clipped.scales < 1) * mask[:, None]) / (total * clipped.before.shape[1])
    return ClipMetrics(*(jnp.asarray(v, jnp.float32) for v in (law.sensitivity, law.bound, unit_norm, share)))
