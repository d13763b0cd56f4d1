"""A clip whose bound follows the norms at no cost: each unit writes the norm it leaves unused into the released vector.

The bound C covers a unit and its slots together, so noise that hides C hides both. What the server learns of the norms
is then part of the one noised sum, and neither a count nor an epsilon of its own is needed.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp

from gradveil.errors import BadInput
from gradveil.fields import real, settle, whole
from gradveil.privacy.clip import Clip, NormStats, joint_norms, within
from gradveil.tree import Array, Tree

MOST_SLOTS = 32


@dataclass(frozen=True, slots=True)
class Slack:
    """Flat or per-layer clipping to C, where a unit of norm n has K slots beside it: slot k holds t_k if n <= t_k.

    With t_k = C 2^(-k/2), k = 1..K, a unit with t_k+1 < n <= t_k fills k slots, of squared norm C^2 (1 - 2^-k), which
    is at most C^2 - n^2: unit and slots together never exceed C. The noised mean of slot k over t_k is the share of
    units within t_k; weighted by t_k / C, as least noise asks, the slots sum up to u, the mean share of C^2 that is
    unused. With s the standard deviation of the noise on u, which is public, between rounds
        C <- C exp(g (unused - u)),   g = eta / (1 + eta (s / drift)^2),   within [low, high].
    So C settles where units leave `unused` of C^2, and noise alone moves ln C by about `drift` in the long run. With
    `per_layer` every layer has slots of its own, and u is the mean over layers. The envelope is public; by default it
    is [c / 10, c]: above, noise of size C would inflate the gradients that C follows, and below nothing is learned.
    """

    c: float
    low: float | None = None
    high: float | None = None
    unused: float = 0.3
    eta: float = 1.0
    drift: float = 0.3
    slots: int = 4
    per_layer: bool = False
    sound: ClassVar[bool] = True
    once_a_round: ClassVar[bool] = False

    def __post_init__(self) -> None:
        settle(self)
        for name in ("c", "eta", "drift"):
            real(name, getattr(self, name))
        whole("slots", self.slots, most=MOST_SLOTS)
        if self.low is not None and real("low", self.low) > self.c:
            raise BadInput(f"low = {self.low}: must be at most c = {self.c}, where the bound starts")
        if self.high is not None and real("high", self.high) < self.c:
            raise BadInput(f"high = {self.high}: must be at least c = {self.c}, where the bound starts")
        if not 0 < self.unused < 1 - 2.0**-self.slots:
            most = 1 - 2.0**-self.slots
            raise BadInput(f"unused = {self.unused}: must be above 0 and below {most:g}, which {self.slots} slots hold")

    @property
    def joint(self) -> bool:
        """Whether C bounds all layers together."""
        return not self.per_layer

    def init(self, params: Tree) -> Tree:
        """Return C, the whole state."""
        return jnp.asarray(self.c, jnp.float32)

    def transform(self, lot: Tree, state: Tree) -> Tree:
        """Return the lot as it is."""
        return lot

    def scales(self, norms: Array, state: Tree) -> Array:
        """Return min(1, C / ||g||) with the C of this round."""
        return jnp.broadcast_to(within(self._bounded(norms), self.bound(state)), norms.shape)

    def inverse(self, noised: Tree, state: Tree) -> Tree:
        """Return the mean as it is: `transform` is the identity."""
        return noised

    def bound(self, state: Tree) -> Array:
        """Return the C of this round, inside the envelope whatever the state says."""
        low, high = (self.c / 10 if self.low is None else self.low), (self.c if self.high is None else self.high)
        return jnp.clip(jnp.asarray(state), low, high)

    def fill(self, norms: Array, state: Tree) -> Array:
        """Return the slots of each unit from its norms [n, M]: [n, 1, K], or [n, M, K] with a set for each layer."""
        levels = self.bound(state) * self._shares()
        return jnp.where(self._bounded(norms)[:, :, None] <= levels, levels, 0.0)

    def statistics(self, norm_stats: NormStats, noised: Tree, noise_std: Array, state: Tree) -> Tree:
        """Return the noised mean of the slots [1 or M, K] over C, its noise variance and a count of one crossing."""
        bound = self.bound(state)
        return noised / bound, jnp.square(noise_std / bound), jnp.ones(())

    def update(self, state: Tree, summed: Tree, expected: Array, key: Array) -> Tree:
        """Move C towards the bound of which units leave the wanted share unused."""
        (slots, variance, count), shares = summed, self._shares()
        crossings = jnp.maximum(count, 1.0)
        unused = jnp.mean(slots @ shares) / crossings
        noise = variance * jnp.sum(jnp.square(shares)) / (slots.shape[0] * jnp.square(crossings))
        gain = self.eta / (1 + self.eta * noise / jnp.square(self.drift))
        moved = self.bound(state) * jnp.exp(gain * (self.unused - unused))
        return jnp.where(count > 0, self.bound(moved), state)

    def _shares(self) -> Array:
        """Return t_k / C, [K]."""
        return jnp.exp2(-0.5 * jnp.arange(1, self.slots + 1))

    def _bounded(self, norms: Array) -> Array:
        """Return the norms that C bounds: [n, 1] jointly, or [n, M] of each layer."""
        return norms if self.per_layer else joint_norms(norms)


def read_slots(clip: Clip, statistics: Tree, state: Tree) -> Tree:
    """Return the noised mean of the slots [1 or M, K] from the statistics of some crossings; () if there are none."""
    if not isinstance(clip, Slack) or not jax.tree.leaves(statistics):
        return ()
    noised, _, count = statistics
    return noised * clip.bound(state) / jnp.maximum(count, 1.0)


def slots_of(clip: Clip, norms: Array, state: Tree) -> Tree:
    """Return the slots that a clip writes beside each unit, a lot; a tree without leaves if it writes none."""
    return clip.fill(norms, state) if isinstance(clip, Slack) else ()
