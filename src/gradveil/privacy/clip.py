"""Clips with a constant bound: how large a unit may be before noise is added.

A clip has two steps: `transform` maps units into the space where norms are taken (the identity here), and
`scales` gives factors [unit, layer] <= 1 that bound them. `bound` is the C that those factors enforce.
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import jax.numpy as jnp
import numpy as np

from gradveil.errors import BadInput
from gradveil.fields import real, settle
from gradveil.tree import Array, Tree

TINY = float(np.finfo(np.float32).tiny)


class NormStats(NamedTuple):
    """Norms that are measured while a lot is sanitized.

    before, after: norms [unit, layer] in the space of the clip, before and after clipping.
    of_mean: norms [layer] of the clipped mean. mask: 1 for real units, 0 for padding, [unit].
    """

    before: Array
    after: Array
    of_mean: Array
    mask: Array


class Clip(Protocol):
    """A rule that bounds units. An adaptive clip has a state, which is fixed within a round."""

    sound: ClassVar[bool]
    """True if the bound is a constant or learned from noised values only."""
    once_a_round: ClassVar[bool]
    """True if only the first local step of a round enters the statistics, so that a record is counted at most once."""

    @property
    def joint(self) -> bool:
        """True if `bound` holds for all layers together, False if for each layer on its own."""

    def init(self, params: Tree) -> Tree:
        """Return the state before the first round."""

    def transform(self, lot: Tree, state: Tree) -> Tree:
        """Map units into the space in which norms are taken."""

    def scales(self, norms: Array, state: Tree) -> Array:
        """Return the factor of each unit and layer from the norms [unit, layer]."""

    def inverse(self, noised: Tree, state: Tree) -> Tree:
        """Map the noised mean back: the inverse of `transform`."""

    def bound(self, state: Tree) -> Array:
        """Return C: no clipped unit is larger, in a layer or jointly."""

    def statistics(self, norm_stats: NormStats, noised: Tree, noise_std: Array, state: Tree) -> Tree:
        """Return what `update` needs of a crossing; `noise_std` is the noise on `noised`, before `inverse`.

        noised: the noised mean of the units, mapped back; of a clip with slots, the noised mean of those.
        """

    def update(self, state: Tree, summed: Tree, expected: Array, key: Array) -> Tree:
        """Return the next round's state from the statistics summed over the cohort; expected units per round."""


def within(norms: Array, bound: Array | float) -> Array:
    """Return min(1, bound / norm), and 1 for a norm of zero; an infinite norm gives 0."""
    return jnp.minimum(1.0, bound / jnp.maximum(norms, TINY))


def joint_norms(norms: Array) -> Array:
    """Return the norm of each unit over all layers, [unit, layer] -> [unit, 1]; no overflow below float32's range."""
    largest = jnp.maximum(jnp.max(norms, axis=1, keepdims=True), TINY)
    joint = largest * jnp.sqrt(jnp.sum(jnp.square(norms / largest), axis=1, keepdims=True))
    return jnp.where(jnp.isinf(largest), jnp.inf, joint)


class ConstantClip:
    """All of a clip that has no state and takes norms of units as they are, but `scales` and `bound`.

    Its bound holds for all layers together; a clip whose bound holds for each layer sets joint = False.
    """

    __slots__ = ()
    joint: ClassVar[bool] = True
    sound: ClassVar[bool] = True
    once_a_round: ClassVar[bool] = False

    def init(self, params: Tree) -> Tree:
        """Return the empty state."""
        return ()

    def transform(self, lot: Tree, state: Tree) -> Tree:
        """Return the lot as it is."""
        return lot

    def inverse(self, noised: Tree, state: Tree) -> Tree:
        """Return the mean as it is: `transform` is the identity."""
        return noised

    def statistics(self, norm_stats: NormStats, noised: Tree, noise_std: Array, state: Tree) -> Tree:
        """Return no statistics."""
        return ()

    def update(self, state: Tree, summed: Tree, expected: Array, key: Array) -> Tree:
        """Return the state unchanged."""
        return state


@dataclass(frozen=True, slots=True)
class Unclipped(ConstantClip):
    """Leave every unit as it is; C is infinite, so no noise can hide a unit."""

    def scales(self, norms: Array, state: Tree) -> Array:
        """Return 1 everywhere."""
        return jnp.ones_like(norms)

    def bound(self, state: Tree) -> Array:
        """Return infinity."""
        return jnp.asarray(jnp.inf)


@dataclass(frozen=True, slots=True)
class PerLayer(ConstantClip):
    """Clip each layer on its own, as Algorithm 1 and the authors' code: g_m min(1, C / ||g_m||).

    The whole unit is then bounded by C sqrt(M), not by C.
    """

    c: float
    joint: ClassVar[bool] = False

    def __post_init__(self) -> None:
        settle(self)
        real("c", self.c)

    def scales(self, norms: Array, state: Tree) -> Array:
        """Return min(1, C / ||g_m||)."""
        return within(norms, self.c)

    def bound(self, state: Tree) -> Array:
        """Return C."""
        return jnp.asarray(self.c)


@dataclass(frozen=True, slots=True)
class Flat(ConstantClip):
    """Clip the unit as one vector: g min(1, C / ||g||), as DP-SGD; the accounting then needs no factor sqrt(M)."""

    c: float

    def __post_init__(self) -> None:
        settle(self)
        real("c", self.c)

    def scales(self, norms: Array, state: Tree) -> Array:
        """Return min(1, C / ||g||) in every layer."""
        return jnp.broadcast_to(within(joint_norms(norms), self.c), norms.shape)

    def bound(self, state: Tree) -> Array:
        """Return C."""
        return jnp.asarray(self.c)


@dataclass(frozen=True, slots=True)
class OwnNorm(ConstantClip):
    """Clip unit j to its own size, as the authors' l2-max code: c_j = min(max(max_m ||g_jm||, low), high).

    Nothing below `high` is clipped, so `high` is the only bound that holds for every unit.
    """

    low: float = 0.1
    high: float = 32.0
    joint: ClassVar[bool] = False

    def __post_init__(self) -> None:
        settle(self)
        real("low", self.low)
        if not self.low <= real("high", self.high):
            raise BadInput(f"high = {self.high}: must be finite and at least low = {self.low}")

    def scales(self, norms: Array, state: Tree) -> Array:
        """Return min(1, c_j / ||g_jm||)."""
        return within(norms, own_norm(norms, self.low, self.high)[:, None])

    def bound(self, state: Tree) -> Array:
        """Return the upper limit of c_j."""
        return jnp.asarray(self.high)


def own_norm(norms: Array, low: float, high: float) -> Array:
    """Return the authors' c_j = min(max(max_m norm_jm, low), high), [unit, layer] -> [unit]."""
    return jnp.clip(jnp.max(norms, axis=1), low, high)
