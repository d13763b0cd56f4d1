"""The crossing of a lot whose norms and weighted sums are known without making its units.

The gradients of a linear model are outer products: their norms are products, and their sum is one matrix product. What
comes out is what `sanitize.cross` gives for the lot itself, with the same noise, up to rounding.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.clip import Flat, NormStats, OwnNorm, PerLayer, Unclipped, joint_norms
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Method, TracedMethod
from gradveil.privacy.prune import Keep
from gradveil.privacy.sanitize import ClipMetrics, Crossing, Observed
from gradveil.privacy.slack import Slack, slots_of
from gradveil.tree import Array, Tree


def needs_no_units(method: Method | TracedMethod) -> bool:
    """Whether a method only scales units and noises their sum: no pruning, no whitening, no noise on each."""
    scales = isinstance(method.clip, Unclipped | PerLayer | Flat | OwnNorm | Quantile | Slack)
    return scales and isinstance(method.prune, Keep) and method.draw is not Draw.EACH


def cross_sum(
    method: TracedMethod,
    norms: Array,
    summed: Callable[[Array], Tree],
    expected: float,
    sigma: Array,
    state: Tree,
    key: Array,
) -> Crossing:
    """Clip, sum and noise the units of a full lot, none of which is made: `raw` is empty.

    norms: [n, M]; summed: from weights [n, M] to the weighted sum of the units, in which a unit of weight 0 is left
    out even if it is not finite. Guarantees: as `sanitize.cross`.
    """
    _, key_noise = jax.random.split(key)  # the key that `cross` noises with
    finite = jnp.all(jnp.isfinite(norms), axis=1, keepdims=True)
    before = jnp.where(finite, norms, 0.0)
    scales = method.clip.scales(before, state)
    mean = summed(jnp.where(finite, scales, 0.0) / expected)
    norm_stats = NormStats(before, before * scales, tree.norms(mean), jnp.ones(len(norms)))
    bound = method.clip.bound(state)
    sensitivity = method.sensitivity(norm_stats, bound)
    std = sigma * sensitivity * method.draw.std_factor(expected)
    means = mean, tree.summed(slots_of(method.clip, before, state), jnp.full(len(norms), 1 / expected))
    noised, slots = tree.add_scaled(means, tree.gaussian(key_noise, means), std)
    measured = (sensitivity, bound, jnp.mean(joint_norms(before)[:, 0]), jnp.mean(scales < 1))
    metrics = ClipMetrics(*(jnp.asarray(m, jnp.float32) for m in measured))
    known = slots if jax.tree.leaves(slots) else noised
    statistics = method.clip.statistics(norm_stats, known, std, state)
    return Crossing(noised, Observed(tree.lot_of_one(noised), ()), metrics, statistics)
