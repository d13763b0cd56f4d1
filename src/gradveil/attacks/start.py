"""Where an attack starts: the first guess."""

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp

from gradveil.attacks.public_stats import PublicStats
from gradveil.errors import BadInput
from gradveil.models.networks import Shape
from gradveil.tree import Array


class Start(Protocol):
    """A rule (key, stats, n, shape) -> guesses [n, ...]."""

    def __call__(self, key: Array, stats: PublicStats, n: int, shape: Shape) -> Array:
        """Draw n guesses of one example's shape."""


@dataclass(frozen=True, slots=True)
class Uniform:
    """Every value from U(0, 1)."""

    def __call__(self, key: Array, stats: PublicStats, n: int, shape: Shape) -> Array:
        """Draw all values at once."""
        return jax.random.uniform(key, (n, *shape))


@dataclass(frozen=True, slots=True)
class Normal:
    """Every value from N(0, 1), as DLG and GradInv."""

    def __call__(self, key: Array, stats: PublicStats, n: int, shape: Shape) -> Array:
        """Draw all values at once."""
        return jax.random.normal(key, (n, *shape))


@dataclass(frozen=True, slots=True)
class Tiles:
    """One uniform tile of 1 / times of the height and width, repeated, as CPL; a table row is tiled along itself."""

    times: int = 2

    def __post_init__(self) -> None:
        if self.times < 1:
            raise BadInput(f"times = {self.times}: a tile is repeated at least once")

    def __call__(self, key: Array, stats: PublicStats, n: int, shape: Shape) -> Array:
        """Draw a tile per guess, repeat it and cut it to the shape."""
        sides = shape[:2] if len(shape) == 3 else shape[:1]
        rest = shape[len(sides) :]
        tile = jax.random.uniform(key, (n, *(-(-side // self.times) for side in sides), *rest))
        whole = jnp.tile(tile, (1, *(self.times for _ in sides), *(1 for _ in rest)))
        return whole[(slice(None), *(slice(side) for side in sides))]


@dataclass(frozen=True, slots=True)
class ConstantStart:
    """Every value the same: a plain gray image."""

    value: float = 0.5

    def __call__(self, key: Array, stats: PublicStats, n: int, shape: Shape) -> Array:
        """Return the value everywhere."""
        return jnp.full((n, *shape), self.value)


@dataclass(frozen=True, slots=True)
class ClassMean:
    """The public mean of each guess's label, and around it normal noise: `spread` makes one start unlike another."""

    spread: float = 0.0

    def __post_init__(self) -> None:
        if not self.spread >= 0:
            raise BadInput(f"spread = {self.spread}: must be at least 0")

    def __call__(self, key: Array, stats: PublicStats, n: int, shape: Shape) -> Array:
        """Return the mean of each label, plus noise."""
        return stats.class_means[stats.labels] + self.spread * jax.random.normal(key, (n, *shape))


STARTS = (Uniform(), Normal(), Tiles(2), Tiles(4), ConstantStart(0.5), ClassMean())
