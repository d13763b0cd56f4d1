"""The curve of random allocation: a unit is in at most one of several lots, and nobody sees in which.

Each of n lots releases its sum under noise z; the unit is in lot i with probability q, in none with 1 - n q. Whatever
vectors of norm at most 1 it contributes, and however they depend on earlier releases, both outputs are made from

    P = (1 - n q) N(0, z^2 I) + q sum_i N(e_i, z^2 I)        and        Q = N(0, z^2 I)        in n dimensions

by one and the same random map: lot by lot, scale coordinate i to the length of the vector, add the noise that is then
missing, and point it in the vector's direction. So (P, Q) dominates, in both directions (Feldman and Shenfeld 2025).
The ratio of their densities is P / Q = 1 - g + g M with g = n q and M the mean of n independent log-normals of mean 1,
and both hockey-sticks are expectations of convex functions of it under Q:

    remove: E max(0, P/Q - e^epsilon)        add: E max(0, 1 - e^epsilon P/Q).

Moving mass to both neighbors on a grid without moving its mean never makes such an expectation smaller, nor does adding
independent variables undo that. So sums of log-normals on a grid, spread after every addition, never understate.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

from gradveil.accounting.steps import Step

Array = np.ndarray[Any, Any]

_FINENESS = 0.05
"""Width of a cell over the spread of what is on the grid; it overstates epsilon by about 0.2 %."""
_END = 9.4
"""Standard deviations at which a log-normal is cut off on either side; 3e-21 lies beyond."""
_DROPPED = 1e-20
"""Bounds what is cut off at each end of a grid, as probability under Q and under P; it is charged as infinite."""
_ROUNDING = 1e-9
"""Relative charge for floating point: all sums have positive terms, the spreading loses 1 / cell of 2^-52."""


class Means(NamedTuple):
    """The mean of some log-normals: under Q it is exp((first + i) cell) with probability mass[i]."""

    cell: float
    first: int
    mass: Array

    @property
    def values(self) -> Array:
        """The points of the grid."""
        return np.asarray(np.exp((self.first + np.arange(len(self.mass))) * self.cell))


class Prices(NamedTuple):
    """E max(0, M - x) and E max(0, x - M) at grid points x, linear between them; `lost` bounds what was cut off."""

    at: Array
    above: Array
    below: Array
    lost: float


def remove(step: Step, epsilons: Array) -> Array:
    """Return E max(0, 1 - g + g M - e^epsilon) for every epsilon."""
    prices, chance = _prices(step.z, step.lots), _chance(step)
    x = _mean_at(epsilons, chance)
    inside = chance * np.interp(x, prices.at, prices.above, right=0.0)
    delta = np.where(x > prices.at[0], inside, -np.expm1(np.minimum(epsilons, 0.0)))
    return np.asarray(delta * (1 + _ROUNDING) + prices.lost)


def add(step: Step, epsilons: Array) -> Array:
    """Return E max(0, 1 - e^epsilon (1 - g + g M)) for every epsilon."""
    prices, chance = _prices(step.z, step.lots), _chance(step)
    x = _mean_at(-epsilons, chance)
    inside = np.interp(x, prices.at, prices.below) + np.maximum(x - prices.at[-1], 0.0)
    return np.asarray(np.exp(epsilons) * chance * inside * (1 + _ROUNDING) + prices.lost)


def ends(step: Step) -> tuple[float, float]:
    """Return the least and the largest ln P / Q on the grid."""
    at, chance = _prices(step.z, step.lots).at, _chance(step)
    low, high = (math.log(1 - chance + chance * float(x)) for x in (at[0], at[-1]))
    return low, high


def _chance(step: Step) -> float:
    """Return g, the probability that some lot holds the unit, rounded up: n times 1 / n must be 1."""
    return min(1.0, step.q * step.lots * (1 + 1e-12))


def _mean_at(losses: Array, chance: float) -> Array:
    """Solve 1 - g + g x = e^loss for x, without cancellation both near 0 and far below."""
    near, far = np.maximum(losses, -1.0), np.minimum(losses, -1.0)
    return np.where(losses > -1, 1 + np.expm1(near) / chance, (np.exp(far) - (1 - chance)) / chance)


@lru_cache(maxsize=512)
def _prices(z: float, lots: int) -> Prices:
    """Sum prices up from the ends, where they are small, so that nothing cancels."""
    mean = mean_of(z, lots)
    x, gaps = mean.values, np.diff(mean.values)
    tails, heads = np.cumsum(mean.mass[::-1])[::-1], np.cumsum(mean.mass)
    above = np.append(np.cumsum((gaps * tails[1:])[::-1])[::-1], 0.0)
    below = np.append(0.0, np.cumsum(gaps * heads[:-1]))
    # Two ends are cut at each of the 2 lots - 1 nodes of the tree of sums, each end with both kinds of mass.
    return Prices(x, above, below, 8 * lots * _DROPPED)


def mean_of(z: float, lots: int) -> Means:
    """Return the mean of `lots` log-normals by doubling: 100 = 64 + 32 + 4."""
    power, count = _one(z), 1
    total: Means | None = None
    done = 0
    while True:
        if lots & count:
            total = power if total is None else _added(total, done, power, count, z)
            done += count
        if count * 2 > lots:
            break
        power, count = _added(power, count, power, count, z), 2 * count
    if total is None:
        raise ValueError(f"lots = {lots}: must be at least 1")
    return total


def _cell(z: float, count: int) -> float:
    """Return the width of a cell for the mean of `count` log-normals: a part of its spread, or of one logarithm's."""
    spread = math.sqrt(math.expm1(min(z**-2, 700.0)) / count)
    return _FINENESS * min(1 / z, spread)


def _one(z: float) -> Means:
    """Return exp(x / z^2 - 1 / (2 z^2)) with x ~ N(0, z^2); probability and mean of a cell are differences of Phi."""
    cell, end = _cell(z, 1), (_END + 0.5 / z) / z
    first, last = math.floor(-end / cell), math.ceil(end / cell)
    edges = np.arange(first, last + 1) * cell * z + 0.5 / z  # x / z at the edges of cells
    return _spread(_between(edges), _between(edges - 1 / z), cell, first)


def _between(edges: Array) -> Array:
    """Return the standard normal's mass of every cell, from the nearer tail."""
    a, b = edges[:-1], edges[1:]
    return np.where(a > 0, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))


def _added(one: Means, m: int, other: Means, n: int, z: float) -> Means:
    """Return the mean of m + n from the means of m and of n others."""
    cell = _cell(z, m + n)
    values = (m * one.values[:, None] + n * other.values) / (m + n)
    chances = (one.mass[:, None] * other.mass).ravel()
    values = values.ravel()
    at = np.floor(np.log(values) / cell).astype(np.int64)
    first = int(at.min())
    at -= first
    return _spread(np.bincount(at, chances), np.bincount(at, chances * values), cell, first)


def _spread(chances: Array, moments: Array, cell: float, first: int) -> Means:
    """Move the mass of every cell to its two ends without moving its mean, and cut off the far ends of the grid.

    Mass that is cut off is taken as 0; see `Prices.lost`.
    """
    low = np.exp((first + np.arange(len(chances))) * cell)
    upward = np.clip((moments - low * chances) / (low * math.expm1(cell)), 0.0, chances)
    mass = np.append(chances - upward, 0.0) + np.append(0.0, upward)
    weight = np.maximum(mass, mass * np.append(low, low[-1] * math.exp(cell)))
    kept = np.flatnonzero((np.cumsum(weight) > _DROPPED) & (np.cumsum(weight[::-1])[::-1] > _DROPPED))
    return Means(cell, first + int(kept[0]), mass[kept[0] : kept[-1] + 1])
