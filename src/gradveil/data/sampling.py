"""How batches of examples and cohorts of clients are sampled."""

from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import bdtrc

from gradveil.errors import BadInput
from gradveil.tree import Array


class BatchIndices(NamedTuple):
    """Positions in the client's shard, the first `real` of which count; the rest is padding."""

    positions: Array
    real: Array


def flips(key: Array, count: int, rate: float) -> Array:
    """Flip coins that show heads with probability `rate`, rounded down to a multiple of 2^-32, bool [count].

    Rounded down, since a guarantee counts on the rate: a uniform of 23 bits would exceed 1e-6 by 7 %.
    """
    if rate >= 1:
        return jnp.ones(count, bool)
    heads: Array = jax.random.bits(key, (count,), jnp.uint32) < jnp.uint32(int(rate * 2**32))
    return heads


def places(key: Array, count: int, period: int) -> Array:
    """Draw numbers below `period`, at most 2^16, int [count]: 64 random bits modulo `period`.

    A number is then too probable by a factor of at most 1 + period / 2^64; 32 bits would leave 1 + period / 2^32.
    """
    high, low = jax.random.bits(key, (2, count), jnp.uint32) % jnp.uint32(period)
    drawn: Array = (high * jnp.uint32(2**32 % period) + low) % jnp.uint32(period)
    return drawn.astype(jnp.int32)


class Sampling(Protocol):
    """A rule that fills the batch of a local step."""

    name: ClassVar[str]
    """Its name on the command line and in the accountants."""
    fixed_size: ClassVar[bool]
    """Whether every batch has exactly B examples."""

    def period(self, size: int, batch: int) -> int:
        """Return how many successive steps share one draw, and so one key."""

    def capacities(self, size: int, batch: int) -> tuple[int, ...]:
        """Return the batch sizes to compile for, ascending; larger batches are truncated to the last one."""

    def pick(self, key: Array, step: Array, size: int, batch: int) -> BatchIndices:
        """Choose positions 0..size-1 for one step; as many slots as the last capacity."""

    def check(self, size: int, batch: int) -> None:
        """Refuse a batch that the rule cannot fill."""


@dataclass(frozen=True, slots=True)
class FixedPass:
    """The shard in its fixed order, B at a time, the same every round, as the authors' code.

    Step l uses positions l B .. l B + B - 1 (modulo the shard's size). Nothing is random, so privacy is not amplified.
    """

    name: ClassVar[str] = "fixed-pass"
    fixed_size: ClassVar[bool] = True

    def period(self, size: int, batch: int) -> int:
        """Return 1."""
        return 1

    def capacities(self, size: int, batch: int) -> tuple[int, ...]:
        """Return B."""
        return (batch,)

    def pick(self, key: Array, step: Array, size: int, batch: int) -> BatchIndices:
        """Return the next B positions."""
        return BatchIndices((step * batch + jnp.arange(batch)) % size, jnp.asarray(batch))

    def check(self, size: int, batch: int) -> None:
        """Refuse a batch larger than the shard: it would hold a record twice."""
        if batch > size:
            raise BadInput(f"batch = {batch}: a fixed pass needs at most the client's {size} examples")


@dataclass(frozen=True, slots=True)
class Poisson:
    """Each example joins the batch with probability q = B / size, independently: what amplification theorems assume.

    Batches vary in size; sums are divided by the expected B. A batch above the last capacity is truncated to it, which
    happens in one step with probability below `OVERFLOW`; a guarantee must add that to delta.
    """

    name: ClassVar[str] = "poisson"
    fixed_size: ClassVar[bool] = False

    def period(self, size: int, batch: int) -> int:
        """Return 1."""
        return 1

    def capacities(self, size: int, batch: float) -> tuple[int, ...]:
        """Return the pair with the least expected number of slots: one for most batches, one for practically all."""
        beyond = bdtrc(np.arange(size + 1), size, batch / size)  # P(more than k examples join)
        return _pair(beyond, min(size, int(np.argmax(beyond <= OVERFLOW)) + 1))

    def pick(self, key: Array, step: Array, size: int, batch: int) -> BatchIndices:
        """Flip one coin per example and return those that join, in order."""
        return _listed(flips(key, size, batch / size), self.capacities(size, batch)[-1])

    def check(self, size: int, batch: int) -> None:
        """Refuse a batch larger than the shard: its rate would be above 1."""
        if batch > size:
            raise BadInput(f"batch = {batch}: Poisson sampling needs at most the client's {size} examples")


@dataclass(frozen=True, slots=True)
class Allocation:
    """In every pass of ceil(size / B) steps each example joins one batch, drawn uniformly: a pass in random places.

    A participation of fewer steps is a pass cut short, and leaves some examples out; one of more steps begins another
    pass, drawn anew. Sums are divided by B, which is the expected size of a batch where B divides the shard. A batch
    above the last capacity is truncated to it. That the *other* examples fill any one batch has probability below
    `OVERFLOW`; a guarantee must add that to delta for every batch.
    """

    name: ClassVar[str] = "allocation"
    fixed_size: ClassVar[bool] = False

    def period(self, size: int, batch: int) -> int:
        """Return the steps of a pass."""
        return -(-size // batch)

    def capacities(self, size: int, batch: int) -> tuple[int, ...]:
        """Return a small and a large capacity, as for Poisson batches."""
        beyond = bdtrc(np.arange(size + 1), size, 1 / self.period(size, batch))
        others = bdtrc(np.arange(size) - 1.0, size - 1, 1 / self.period(size, batch))  # P(k others or more)
        return _pair(beyond, min([size, *np.flatnonzero(others <= OVERFLOW)]))

    def pick(self, key: Array, step: Array, size: int, batch: int) -> BatchIndices:
        """Draw the place of every example in the pass and return those whose turn it is, in order."""
        period = self.period(size, batch)
        return _listed(places(key, size, period) == step % period, self.capacities(size, batch)[-1])

    def check(self, size: int, batch: int) -> None:
        """Refuse a batch larger than the shard, and passes so long that places would not be drawn uniformly."""
        if batch > size:
            raise BadInput(f"batch = {batch}: allocation needs at most the client's {size} examples")
        if self.period(size, batch) > LONGEST_PASS:
            raise BadInput(f"batch = {batch}: a pass over {size} examples must have at most {LONGEST_PASS} batches")


def _pair(beyond: np.ndarray[Any, Any], last: int) -> tuple[int, ...]:
    """Return the last capacity, below it the one with the least expected number of slots."""
    small = np.arange(1, last + 1)
    expected = small + beyond[1 : last + 1] * (last - small)
    first = int(small[np.argmin(expected)])
    return (first, int(last)) if first < last else (int(last),)


def _listed(joins: Array, slots: int) -> BatchIndices:
    """Return the positions of the examples that join, in order, at most as many as there are slots."""
    return BatchIndices(jnp.nonzero(joins, size=slots, fill_value=0)[0], jnp.minimum(jnp.sum(joins), slots))


@dataclass(frozen=True, slots=True)
class WithReplacement:
    """B positions drawn uniformly with replacement, as the paper's text says; a record may occur twice."""

    name: ClassVar[str] = "replacement"
    fixed_size: ClassVar[bool] = True

    def period(self, size: int, batch: int) -> int:
        """Return 1."""
        return 1

    def capacities(self, size: int, batch: int) -> tuple[int, ...]:
        """Return B."""
        return (batch,)

    def pick(self, key: Array, step: Array, size: int, batch: int) -> BatchIndices:
        """Draw B positions."""
        return BatchIndices(jax.random.randint(key, (batch,), 0, size), jnp.asarray(batch))

    def check(self, size: int, batch: int) -> None:
        """Accept any batch."""


@dataclass(frozen=True, slots=True)
class Whole:
    """All examples of the client in every step: nothing is random, so privacy is not amplified."""

    name: ClassVar[str] = "whole"
    fixed_size: ClassVar[bool] = True

    def period(self, size: int, batch: int) -> int:
        """Return 1."""
        return 1

    def capacities(self, size: int, batch: int) -> tuple[int, ...]:
        """Return B."""
        return (batch,)

    def pick(self, key: Array, step: Array, size: int, batch: int) -> BatchIndices:
        """Return all positions."""
        return BatchIndices(jnp.arange(batch), jnp.asarray(batch))

    def check(self, size: int, batch: int) -> None:
        """Refuse a batch that is not the whole shard."""
        if batch != size:
            raise BadInput(f"batch = {batch}: whole batches hold all of the client's {size} examples")


OVERFLOW = 1e-15
LONGEST_PASS = 2**16
"""Beyond it `places` would overflow."""
SAMPLINGS = (FixedPass, Poisson, Allocation, WithReplacement, Whole)


class CohortSampling(Enum):
    """How the clients of a round are drawn: exactly K of N, or each with probability K / N."""

    FIXED = "fixed"
    POISSON = "poisson"

    def draw(self, key: Array, clients: int, cohort: int) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        """Return the client numbers of a round, ascending."""
        if self is CohortSampling.FIXED:
            chosen = np.asarray(jax.random.permutation(key, clients)[:cohort])
        else:
            chosen = np.flatnonzero(np.asarray(flips(key, clients, cohort / clients)))
        return np.sort(chosen).astype(np.int32)
