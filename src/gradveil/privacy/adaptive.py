"""Clips that learn between rounds: the quantile rule (Andrew et al.) and AdaClip (Pichapati et al.)."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.errors import BadInput
from gradveil.fields import real, settle
from gradveil.normals import normals
from gradveil.privacy.clip import Flat, NormStats, OwnNorm, PerLayer, Unclipped, joint_norms, within
from gradveil.privacy.slack import Slack
from gradveil.tree import Array, Tree


@dataclass(frozen=True, slots=True)
class Quantile:
    """Flat clipping whose C follows the `gamma` quantile of the norms: C <- C exp(-eta (b - gamma)).

    b is the noised fraction of units that were NOT clipped: 1/2 + (sum of +-1/2 + N(0, (count_noise n)^2)) / n, where n
    is the expected number of units per round. At the example surface only the first local step is counted, so that a
    record is counted at most once per round and client. Noise uses the C that clipped; the new C is for the next round.
    """

    c: float
    gamma: float = 0.5
    eta: float = 0.2
    count_noise: float = 0.05
    joint: ClassVar[bool] = True
    sound: ClassVar[bool] = True
    once_a_round: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self)
        real("c", self.c)
        real("eta", self.eta)
        if not 0 < self.gamma < 1:
            raise BadInput(f"gamma = {self.gamma}: a quantile lies between 0 and 1")
        if not 0 <= self.count_noise < float("inf"):
            raise BadInput(f"count_noise = {self.count_noise}: must be a finite number, at least 0")

    def init(self, params: Tree) -> Tree:
        """Return C, the whole state."""
        return jnp.asarray(self.c, jnp.float32)

    def transform(self, lot: Tree, state: Tree) -> Tree:
        """Return the lot as it is."""
        return lot

    def scales(self, norms: Array, state: Tree) -> Array:
        """Return min(1, C / ||g||) with the C of this round."""
        return jnp.broadcast_to(within(joint_norms(norms), state), norms.shape)

    def inverse(self, noised: Tree, state: Tree) -> Tree:
        """Return the mean as it is: `transform` is the identity."""
        return noised

    def bound(self, state: Tree) -> Array:
        """Return the C that clips in this round."""
        return jnp.asarray(state)

    def statistics(self, norm_stats: NormStats, noised: Tree, noise_std: Array, state: Tree) -> Tree:
        """Count the units within C, each as 1/2 and each other one as -1/2, so that no unit moves it by more."""
        unclipped = joint_norms(norm_stats.before)[:, 0] <= state
        return jnp.sum(norm_stats.mask * (unclipped - 0.5))

    def update(self, state: Tree, summed: Tree, expected: Array, key: Array) -> Tree:
        """Move C by the noised fraction of unclipped units."""
        noised = summed + self.count_noise * expected * normals(key, 1)[0]
        return state * jnp.exp(-self.eta * (noised / expected + 0.5 - self.gamma))


@dataclass(frozen=True, slots=True)
class AdaClip:
    """Whiten each coordinate before clipping: w = (g - m) / b, clipped to `radius`, noised, mapped back b w + m.

    s is a standard deviation a coordinate and b = sqrt(s) sqrt(sum_i s_i), the choice that minimizes the added
    noise for E||w||^2 = 1. Between rounds, from noised means g~ only (so learning costs no privacy):
        m   <- beta1 m + (1 - beta1) mean(g~)
        s^2 <- beta2 s^2 + (1 - beta2) min(max(mean((g~ - m)^2 - (b noise)^2), low), high)
    with the old m in the second line and `noise` the standard deviation of the noise on w. s_0^2 = sqrt(low high).
    The state is (m, s, b), with b stored so that all clients use the same.
    """

    radius: float = 1.0
    beta1: float = 0.99
    beta2: float = 0.9
    low: float = 1e-5
    high: float = 1e-3
    joint: ClassVar[bool] = True
    sound: ClassVar[bool] = True
    once_a_round: ClassVar[bool] = False

    def __post_init__(self) -> None:
        settle(self)
        for name in ("radius", "low", "high"):
            real(name, getattr(self, name))
        for name in ("beta1", "beta2"):
            if not 0 <= getattr(self, name) < 1:
                raise BadInput(f"{name} = {getattr(self, name)}: must be at least 0 and below 1")
        if self.high < self.low:
            raise BadInput(f"high = {self.high}: must be at least low = {self.low}")

    def init(self, params: Tree) -> Tree:
        """Return m = 0, the same s everywhere, and b."""
        start = (self.low * self.high) ** 0.25
        spread = jax.tree.map(lambda a: jnp.full_like(a, start), params)
        return jax.tree.map(jnp.zeros_like, params), spread, _width(spread)

    def transform(self, lot: Tree, state: Tree) -> Tree:
        """Whiten: (g - m) / b."""
        return jax.tree.map(lambda g, m, b: (g - m) / b, lot, state[0], state[2])

    def scales(self, norms: Array, state: Tree) -> Array:
        """Return min(1, radius / ||w||)."""
        return jnp.broadcast_to(within(joint_norms(norms), self.radius), norms.shape)

    def inverse(self, noised: Tree, state: Tree) -> Tree:
        """Map back: b w + m."""
        return jax.tree.map(lambda w, m, b: b * w + m, noised, state[0], state[2])

    def bound(self, state: Tree) -> Array:
        """Return the radius in whitened space."""
        return jnp.asarray(self.radius)

    def statistics(self, norm_stats: NormStats, noised: Tree, noise_std: Array, state: Tree) -> Tree:
        """Return g~, its squared distance from m minus the noise variance, and a count of one crossing."""
        excess = jax.tree.map(lambda g, m, b: jnp.square(g - m) - jnp.square(b * noise_std), noised, state[0], state[2])
        return noised, excess, jnp.ones(())

    def update(self, state: Tree, summed: Tree, expected: Array, key: Array) -> Tree:
        """Move m and s towards the noised means and their deviations."""
        (mean, spread, _), (released, excess, count) = state, summed
        crossings = jnp.maximum(count, 1.0)
        new_mean = jax.tree.map(lambda m, g: self.beta1 * m + (1 - self.beta1) * g / crossings, mean, released)
        new_spread = jax.tree.map(
            lambda s, o: jnp.sqrt(
                self.beta2 * jnp.square(s) + (1 - self.beta2) * jnp.clip(o / crossings, self.low, self.high)
            ),
            spread,
            excess,
        )
        learned = (new_mean, new_spread, _width(new_spread))
        return jax.tree.map(lambda new, old: jnp.where(count > 0, new, old), learned, state)


def _width(spread: Tree) -> Tree:
    """Return b = sqrt(s) sqrt(sum_i s_i)."""
    total = jnp.sum(tree.flat(tree.lot_of_one(spread)))
    return jax.tree.map(lambda s: jnp.sqrt(s * total), spread)


CLIPS = (Unclipped, PerLayer, Flat, OwnNorm, Quantile, AdaClip, Slack)
