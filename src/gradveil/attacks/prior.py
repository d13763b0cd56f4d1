"""Priors on examples: how a guess is parametrized, and what it costs."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import jax
import jax.numpy as jnp

from gradveil.attacks.leak import Stage
from gradveil.attacks.public_stats import PublicStats
from gradveil.errors import BadInput
from gradveil.tree import Array


class Prior(Protocol):
    """How guesses x [n, ...] are parametrized by free variables z, what z costs, and how z is clamped after a step."""

    believes: ClassVar[bool]
    """Whether it needs the posterior shares of the classes."""
    cuts: ClassVar[bool]
    """Whether `keep` changes anything."""

    def refuse(self, stage: Stage) -> None:
        """Refuse examples for which the prior has no meaning."""

    def write(self, x: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return z for a first guess x."""

    def read(self, z: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return the guess that z stands for."""

    def cost(self, z: Array, x: Array, stats: PublicStats) -> Array:
        """Return -log p up to a constant, a scalar."""

    def keep(self, z: Array, stats: PublicStats) -> Array:
        """Return z clamped to where it may be."""


@dataclass(frozen=True, slots=True)
class Anything:
    """No prior: the values are free, as in DLG and CPL."""

    believes: ClassVar[bool] = False
    cuts: ClassVar[bool] = False

    def refuse(self, stage: Stage) -> None:
        """Any example will do."""

    def write(self, x: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return x: a guess is its own values."""
        return x

    def read(self, z: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return z: a guess is its own values."""
        return z

    def cost(self, z: Array, x: Array, stats: PublicStats) -> Array:
        """Nothing is less likely than anything else."""
        return jnp.zeros(())

    def keep(self, z: Array, stats: PublicStats) -> Array:
        """Let z be anywhere."""
        return z


@dataclass(frozen=True, slots=True)
class Box:
    """Values stay within the range of public examples, [0, 1] for pictures."""

    believes: ClassVar[bool] = False
    cuts: ClassVar[bool] = True

    def refuse(self, stage: Stage) -> None:
        """Any example will do."""

    def write(self, x: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return x: a guess is its own values."""
        return x

    def read(self, z: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return z: a guess is its own values."""
        return z

    def cost(self, z: Array, x: Array, stats: PublicStats) -> Array:
        """Nothing is less likely than anything else."""
        return jnp.zeros(())

    def keep(self, z: Array, stats: PublicStats) -> Array:
        """Cut values off at the range."""
        return jnp.clip(z, stats.low.min(), stats.high.max())


@dataclass(frozen=True, slots=True)
class TotalVariation:
    """Pictures are smooth: weight times the mean of |x_ij - x_i+1,j| and |x_ij - x_i,j+1|, boxed, as GradInv."""

    weight: float = 1e-4
    believes: ClassVar[bool] = False
    cuts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.weight >= 0:
            raise BadInput(f"weight = {self.weight}: must be at least 0")

    def refuse(self, stage: Stage) -> None:
        """Any example will do."""

    def write(self, x: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return x: a guess is its own values."""
        return x

    def read(self, z: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return z: a guess is its own values."""
        return z

    def cost(self, z: Array, x: Array, stats: PublicStats) -> Array:
        """Compare neighboring pixels; a table has none."""
        if x.ndim != 4:
            return jnp.zeros(())
        down, right = jnp.diff(x, axis=1), jnp.diff(x, axis=2)
        return self.weight * (jnp.mean(jnp.abs(down)) + jnp.mean(jnp.abs(right)))

    def keep(self, z: Array, stats: PublicStats) -> Array:
        """Cut values off at the range."""
        return jnp.clip(z, stats.low.min(), stats.high.max())


@dataclass(frozen=True, slots=True)
class Squashed:
    """Smooth as TotalVariation, and within the range of public examples without a cut: x = low + range (1 + sin z) / 2.

    L-BFGS, which a cut after its step would mislead, can follow this. A sine reaches the ends of the range, where many
    values lie, and a step that is too long leads to other values, not to a flat end.
    """

    weight: float = 1e-6
    believes: ClassVar[bool] = False
    cuts: ClassVar[bool] = False

    def __post_init__(self) -> None:
        TotalVariation(self.weight)

    def refuse(self, stage: Stage) -> None:
        """Any example will do."""

    def write(self, x: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return x: any number stands for a value within the range."""
        return x

    def read(self, z: Array, stats: PublicStats, stage: Stage) -> Array:
        """Squash every value into the range."""
        low, high = stats.low.min(), stats.high.max()
        return low + (high - low) * (1 + jnp.sin(z)) / 2

    def cost(self, z: Array, x: Array, stats: PublicStats) -> Array:
        """Compare neighboring pixels."""
        return TotalVariation(self.weight).cost(z, x, stats)

    def keep(self, z: Array, stats: PublicStats) -> Array:
        """Let z be anywhere."""
        return z


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Examples vary as public ones do: x = center + V diag(gains) V^T z + floor (z - V V^T z), cost ||z||^2 / 2.

    z is white, so that where the gradient says nothing the guess stays at the center, the public mean weighted by the
    posterior of the classes, and directions in which examples vary much are moved along first.
    """

    believes: ClassVar[bool] = True
    cuts: ClassVar[bool] = False

    def refuse(self, stage: Stage) -> None:
        """Any example will do."""

    def write(self, x: Array, stats: PublicStats, stage: Stage) -> Array:
        """Start near the center: guesses of a batch must differ a little, or they would move as one."""
        return 0.1 * x

    def read(self, z: Array, stats: PublicStats, stage: Stage) -> Array:
        """Color z and add the center."""
        rows = z.reshape(z.shape[0], -1)
        along = rows @ stats.spread
        colored = stats.floor * rows + (along * (stats.gains - stats.floor)) @ stats.spread.T
        return stats.center + colored.reshape(z.shape)

    def cost(self, z: Array, x: Array, stats: PublicStats) -> Array:
        """Return ||z||^2 / 2."""
        return jnp.sum(jnp.square(z)) / 2

    def keep(self, z: Array, stats: PublicStats) -> Array:
        """Let z be anywhere."""
        return z


@dataclass(frozen=True, slots=True)
class Levels:
    """Table rows: the values of a one-hot feature are softmax(log p + sharpness z), a number is mean + deviation z.

    p, mean and deviation are those of public rows, and z costs ||z||^2 / 2, so that where the gradient says nothing
    the guess is the commonest level and the mean.
    """

    sharpness: float = 1.0
    believes: ClassVar[bool] = False
    cuts: ClassVar[bool] = False

    def refuse(self, stage: Stage) -> None:
        """Refuse examples that are not described as features."""
        if not stage.columns:
            raise BadInput("leak: its examples are not table rows with known features, which this attack needs")

    def write(self, x: Array, stats: PublicStats, stage: Stage) -> Array:
        """Start nearly undecided: the first guess, scaled down."""
        return 0.1 * x

    def read(self, z: Array, stats: PublicStats, stage: Stage) -> Array:
        """Return one-hot features as softmax shares, and numbers in their scale, within the public range."""
        parts = []
        for column in stage.columns:
            part = slice(column.start, column.stop)
            if column.stop - column.start > 1:
                usual = jnp.log(jnp.maximum(stats.mean[part], 1e-4))
                parts.append(jax.nn.softmax(usual + self.sharpness * z[:, part], axis=1))
            else:
                number = stats.mean[part] + stats.deviation[part] * z[:, part]
                parts.append(jnp.clip(number, stats.low[part], stats.high[part]))
        return jnp.concatenate(parts, axis=1)

    def cost(self, z: Array, x: Array, stats: PublicStats) -> Array:
        """Return ||z||^2 / 2."""
        return jnp.sum(jnp.square(z)) / 2

    def keep(self, z: Array, stats: PublicStats) -> Array:
        """Let z be anywhere."""
        return z


PRIORS = (Anything(), Box(), TotalVariation(), Squashed(), Gaussian(), Levels())
