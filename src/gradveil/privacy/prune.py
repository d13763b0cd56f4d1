"""Pruning rules: which coordinates of a unit are kept (the paper's gradient compression).

None of them is a privacy mechanism: without noise the guarantee is infinite.
"""

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.errors import BadInput
from gradveil.fields import real, settle
from gradveil.tree import Array, Tree


class Prune(Protocol):
    """A rule (unit, key) -> unit of the same shape."""

    def __call__(self, unit: Tree, key: Array) -> Tree:
        """Return the unit with the pruned coordinates set to zero."""

    def law(self, unit: Tree) -> tuple[Tree, Tree]:
        """Return what each coordinate is where it is kept, and the probability that it is, coordinates independent."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Prune nothing: unit -> unit."""

    def __call__(self, unit: Tree, key: Array) -> Tree:
        """Return the unit as it is."""
        return unit

    def law(self, unit: Tree) -> tuple[Tree, Tree]:
        """Every coordinate is kept as it is."""
        return unit, jax.tree.map(jnp.ones_like, unit)


@dataclass(frozen=True, slots=True)
class Smallest:
    """Zero the fraction `mu` of coordinates with the smallest |g|, over all layers together.

    g_i -> 0 where |g_i| <= the mu-quantile of |g|; mu = 0 keeps everything but exact zeros.
    """

    mu: float

    def __post_init__(self) -> None:
        settle(self)
        if not 0 <= self.mu < 1:
            raise BadInput(f"mu = {self.mu}: the pruned fraction must be at least 0 and below 1")

    def __call__(self, unit: Tree, key: Array) -> Tree:
        """Compare each |g_i| with the mu-quantile."""
        threshold = self._threshold(unit)
        return jax.tree.map(lambda a: jnp.where(jnp.abs(a) > threshold, a, 0.0), unit)

    def law(self, unit: Tree) -> tuple[Tree, Tree]:
        """A coordinate above the mu-quantile is kept for certain, any other never."""
        threshold = self._threshold(unit)
        return unit, jax.tree.map(lambda a: (jnp.abs(a) > threshold).astype(jnp.float32), unit)

    def _threshold(self, unit: Tree) -> Array:
        vector = tree.flat(tree.lot_of_one(unit))[0]
        ordered = jnp.sort(jnp.abs(vector))
        rank = jnp.floor(self.mu * vector.size).astype(jnp.int32)
        return jnp.where(rank > 0, ordered[jnp.maximum(rank - 1, 0)], -1.0)


@dataclass(frozen=True, slots=True)
class Dssgd:
    """Share a random part of the large coordinates, each bounded (Shokri and Shmatikov, as the paper uses it).

    Coordinate i is shared with probability `fraction` if |g_i| > `threshold`, as min(max(g_i, -bound), bound);
    all others become 0. The choice is drawn anew for every unit.
    """

    fraction: float
    threshold: float
    bound: float

    def __post_init__(self) -> None:
        settle(self)
        if not 0 < self.fraction <= 1:
            raise BadInput(f"fraction = {self.fraction}: the shared part must be above 0 and at most 1")
        if not 0 <= self.threshold < float("inf"):
            raise BadInput(f"threshold = {self.threshold}: must be a finite number, at least 0")
        real("bound", self.bound)

    def __call__(self, unit: Tree, key: Array) -> Tree:
        """Draw one uniform number per coordinate and keep the chosen large ones."""
        vector = tree.flat(tree.lot_of_one(unit))[0]
        chosen = (jax.random.uniform(key, vector.shape) < self.fraction) & (jnp.abs(vector) > self.threshold)
        return tree.unflat(jnp.where(chosen, jnp.clip(vector, -self.bound, self.bound), 0.0), unit)

    def law(self, unit: Tree) -> tuple[Tree, Tree]:
        """A large coordinate is shared with probability `fraction`, bounded; a small one never."""
        return (
            jax.tree.map(lambda a: jnp.clip(a, -self.bound, self.bound), unit),
            jax.tree.map(lambda a: jnp.where(jnp.abs(a) > self.threshold, self.fraction, 0.0), unit),
        )


PRUNES = (Keep, Smallest, Dssgd)
