"""Sensitivities: the S in noise N(0, (sigma S)^2). Only a public constant carries a guarantee.

The three l2-max rules are interpretations of one idea of the paper, that S follows the gradients: from its text, its
Algorithm 1 and its authors' code. All three depend on the private lot, and so does the variance of the noise.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import jax.numpy as jnp

from gradveil.errors import BadInput
from gradveil.fields import real, settle
from gradveil.privacy.clip import NormStats, own_norm
from gradveil.tree import Array


class Sensitivity(Protocol):
    """A rule (norm_stats, bound) -> S."""

    data_dependent: ClassVar[bool]
    """True if S is computed from the private lot: then no finite guarantee holds."""

    def __call__(self, norm_stats: NormStats, bound: Array) -> Array:
        """Return S as a scalar."""


@dataclass(frozen=True, slots=True)
class ClipBound:
    """S = C, the bound of the clip: Fed-SDP and Fed-CDP."""

    data_dependent: ClassVar[bool] = False

    def __call__(self, norm_stats: NormStats, bound: Array) -> Array:
        """Return C."""
        return bound


@dataclass(frozen=True, slots=True)
class Fixed:
    """S = a number, whatever the clip; 0 for methods without noise."""

    value: float
    data_dependent: ClassVar[bool] = False

    def __post_init__(self) -> None:
        settle(self)
        if not 0 <= self.value < float("inf"):
            raise BadInput(f"value = {self.value}: a sensitivity is a finite number, at least 0")
        if self.value:
            real("value", self.value)

    def __call__(self, norm_stats: NormStats, bound: Array) -> Array:
        """Return the number."""
        return jnp.asarray(self.value, jnp.float32)


@dataclass(frozen=True, slots=True)
class L2Max:
    """S = min(C, max over units j and layers m of ||clip(g_jm)||): the paper's text."""

    data_dependent: ClassVar[bool] = True

    def __call__(self, norm_stats: NormStats, bound: Array) -> Array:
        """Return the largest clipped layer norm of the real units."""
        largest = jnp.max(norm_stats.after * norm_stats.mask[:, None], initial=0.0)
        return _or_bound(jnp.minimum(bound, largest), norm_stats, bound)


@dataclass(frozen=True, slots=True)
class L2MaxOfMean:
    """S = max over layers m of ||mean_j clip(g_jm)||: Algorithm 1 as printed."""

    data_dependent: ClassVar[bool] = True

    def __call__(self, norm_stats: NormStats, bound: Array) -> Array:
        """Return the largest layer norm of the clipped mean."""
        return _or_bound(jnp.max(norm_stats.of_mean), norm_stats, bound)


@dataclass(frozen=True, slots=True)
class L2MaxAsCoded:
    """S = mean_j c_j with c_j = min(max(max_m ||g_jm||, low), high) before clipping: the authors' code."""

    low: float = 0.1
    high: float = 32.0
    data_dependent: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self)
        if not 0 < self.low <= self.high < float("inf"):
            raise BadInput(f"low = {self.low}, high = {self.high}: needs 0 < low <= high < infinity")

    def __call__(self, norm_stats: NormStats, bound: Array) -> Array:
        """Return the mean of c_j over the real units (the lower limit if there are none)."""
        total = jnp.sum(norm_stats.mask)
        mean = jnp.sum(own_norm(norm_stats.before, self.low, self.high) * norm_stats.mask) / jnp.maximum(total, 1.0)
        return jnp.maximum(mean, self.low)


def _or_bound(sensitivity: Array, norm_stats: NormStats, bound: Array) -> Array:
    """Return the bound for an empty lot, so that it is noised like a full one; infinite bounds are not used."""
    return jnp.where((jnp.sum(norm_stats.mask) > 0) | jnp.isinf(bound), sensitivity, bound)


SENSITIVITIES = (ClipBound, Fixed, L2Max, L2MaxOfMean, L2MaxAsCoded)
