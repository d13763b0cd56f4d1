"""The law of a release: what an adversary who knows the mechanism expects of a lot, apart from chance."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.privacy.clip import NormStats
from gradveil.privacy.method import TracedMethod
from gradveil.privacy.prune import Keep
from gradveil.privacy.slack import slots_of
from gradveil.tree import Array, Tree


class ReleaseLaw(NamedTuple):
    """Coordinate i is value_i with probability share_i, else absent_i; on it lies noise N(0, std_i^2).

    Trees of one shape, but that std broadcasts to it; absent and share are None where every coordinate is shared.
    slots: the mean of what the clip writes beside each unit, a tree without leaves if it writes none, with noise
    N(0, slots_std^2).
    """

    value: Tree
    absent: Tree | None
    share: Tree | None
    std: Tree
    slots: Tree = ()
    slots_std: Tree = ()

    @property
    def mean(self) -> Tree:
        """The mean of every coordinate."""
        if self.share is None:
            return self.value
        return jax.tree.map(lambda v, a, p: p * v + (1 - p) * a, self.value, self.absent, self.share)

    @property
    def variance(self) -> Tree:
        """The variance of every coordinate: of its noise, and of whether it is kept; it broadcasts to `value`."""
        noise = jax.tree.map(jnp.square, self.std)
        if self.share is None:
            return noise
        chance = jax.tree.map(lambda v, a, p: p * (1 - p) * jnp.square(v - a), self.value, self.absent, self.share)
        return jax.tree.map(lambda c, n: c + n, chance, noise)


def release_law(
    method: TracedMethod, lot: Tree, mask: Array, expected: float, sigma: Array | float, state: Tree
) -> ReleaseLaw:
    """Return the law of what `cross` releases of a lot where the method acts: prune -> clip -> mean -> noise.

    The noise is that of this very lot, so where S follows the data each lot has its own. A random prune is exact for a
    lot of one, up to the norm that is clipped, for which its root mean square stands; for more units the mean and the
    variance of every coordinate are right.
    """
    values, shares = (lot, None) if isinstance(method.prune, Keep) else jax.vmap(method.prune.law)(lot)
    inside = method.clip.transform(values, state)
    if shares is None:
        norms = tree.layer_norms(inside)
    else:
        outside = method.clip.transform(jax.tree.map(jnp.zeros_like, values), state)
        norms = tree.layer_norms(jax.tree.map(_root_mean_square, inside, outside, shares))
    scales = method.clip.scales(norms, state) * mask[:, None]
    weights = scales / expected
    after = jnp.where(scales > 0, norms, 0.0) * scales
    slots = tree.summed(slots_of(method.clip, norms, state), mask / expected)
    if shares is None:
        mean = tree.weighted_sum(weights, inside)
        std = _noise(method, NormStats(norms, after, tree.norms(mean), mask), expected, sigma, state)
        spread = _mapped(method, _level(mean, std), state)
        return ReleaseLaw(method.clip.inverse(mean, state), None, None, spread, slots, _level(slots, std))
    if mask.shape[0] == 1:
        std = _noise(method, NormStats(norms, after, weights[0] * norms[0], mask), expected, sigma, state)
        value, absent = (method.clip.inverse(tree.weighted_sum(weights, part), state) for part in (inside, outside))
        share = jax.tree.map(lambda p: p[0], shares)
        spread = _mapped(method, _level(value, std), state)
        return ReleaseLaw(value, absent, share, spread, slots, _level(slots, std))
    mean = tree.weighted_sum(weights, jax.tree.map(lambda v, a, p: p * v + (1 - p) * a, inside, outside, shares))
    std = _noise(method, NormStats(norms, after, tree.norms(mean), mask), expected, sigma, state)
    chance = jax.tree.map(lambda v, a, p: p * (1 - p) * jnp.square(v - a), inside, outside, shares)
    spread = jax.tree.map(lambda v: jnp.sqrt(std**2 + v), tree.weighted_sum(jnp.square(weights), chance))
    spread = _mapped(method, spread, state)
    return ReleaseLaw(method.clip.inverse(mean, state), None, None, spread, slots, _level(slots, std))


def _root_mean_square(present: Array, absent: Array, share: Array) -> Array:
    return jnp.sqrt(share * jnp.square(present) + (1 - share) * jnp.square(absent))


def _noise(method: TracedMethod, norm_stats: NormStats, expected: float, sigma: Array | float, state: Tree) -> Array:
    """Return sigma S of this lot, on its mean."""
    sensitivity = method.sensitivity(norm_stats, method.clip.bound(state))
    return sigma * sensitivity * method.draw.std_factor(expected)


def _level(like: Tree, std: Array) -> Tree:
    return jax.tree.map(lambda _: std, like)


def _mapped(method: TracedMethod, spread: Tree, state: Tree) -> Tree:
    """Return standard deviations of the space of the clip in that of gradients."""
    none = jax.tree.map(jnp.zeros_like, spread)
    return tree.subtract(method.clip.inverse(spread, state), method.clip.inverse(none, state))
