"""Random allocation for whole clients: how far all records of one client can move the sums of a pass.

In a pass each of m records joins one of n lots, at random; a lot takes at most `capacity` of them. If lot j has N_j
records of the client, its sum moves by N_j bounds at most, whatever was released before. So to those who know the
places, a pass of noise z is one Gaussian of mu = S / z with S^2 = sum_j N_j^2. By convexity the hockey-stick of the
pass is at most the mean over S of that Gaussian's. S is replaced by a bound that it exceeds with a tiny chance, which
must be taken from delta: Markov's inequality for e^(r S^2). For the first s of the lots, with a = m / n,

    E e^(r S^2) = m! / (n a)^m [y^m] (sum_k (a y)^k e^(r min(k, capacity)^2) / k!)^s e^(a y (n - s)),

since a multinomial draw is one of independent Poisson numbers that happen to sum up to m.
"""

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

Array = np.ndarray[Any, Any]
_LARGEST = 20_000
"""Records beyond which products of series take too long, and lots are taken to be as full as they can be."""
_FLOOR = 1e-290
"""Every coefficient is raised to this part of the largest, so that none is lost by underflow."""
_ROUNDING = 1e-9
"""Relative charge for floating point: all terms are positive."""


class Series(NamedTuple):
    """A power series with positive coefficients: that of y^k is values[k] e^scale."""

    values: Array
    scale: float


@lru_cache(maxsize=1024)
def farthest(records: int, lots: int, seen: int, capacity: int, chance: float) -> float:
    """Return a bound on S = sqrt(sum_j N_j^2) over the first `seen` of the lots, exceeded with at most that chance."""
    most = float(_most_squared(records, seen, capacity))
    if records > _LARGEST:
        return math.sqrt(most)

    def bound(log_rate: float) -> float:
        return _markov(records, lots, seen, capacity, chance, math.exp(log_rate))

    # Every rate gives a bound that holds, so it does not matter how well the best one is found.
    optimum = minimize_scalar(bound, bounds=(math.log(1e-6), math.log(8.0)), method="bounded", options={"xatol": 0.05})
    return math.sqrt(min(most, float(optimum.fun) * (1 + _ROUNDING)))


def _most_squared(records: int, seen: int, capacity: int) -> int:
    """Return the largest sum of squares: full lots, and what is left in another."""
    full = min(records // capacity, seen)
    left = min(records - full * capacity, capacity) if full < seen else 0
    return int(full * capacity**2 + left**2)


def _markov(records: int, lots: int, seen: int, capacity: int, chance: float, rate: float) -> float:
    """Return s with E e^(r S^2) = chance e^(r s)."""
    k, mean = np.arange(records + 1), records / lots
    poisson = k * math.log(mean) - gammaln(k + 1)
    total = _power(_scaled(poisson + rate * np.minimum(k, capacity) ** 2.0), seen, records)
    if lots > seen:
        total = _product(total, _scaled(poisson + k * math.log(lots - seen)), records)
    log_mean = math.log(total.values[records]) + total.scale + math.lgamma(records + 1) - records * math.log(records)
    return (log_mean - math.log(chance)) / rate


def _scaled(logs: Array) -> Series:
    scale = float(logs.max())
    return Series(np.exp(np.maximum(logs - scale, math.log(_FLOOR))), scale)


def _product(one: Series, other: Series, degree: int) -> Series:
    """Multiply up to y^degree, by sums of positive terms."""
    values = np.maximum(np.convolve(one.values, other.values)[: degree + 1], _FLOOR)
    largest = float(values.max())
    return Series(np.maximum(values / largest, _FLOOR), one.scale + other.scale + math.log(largest))


def _power(base: Series, times: int, degree: int) -> Series:
    """Multiply a series with itself, by squaring."""
    half = _power(base, times // 2, degree) if times > 1 else None
    if half is None:
        return base
    square = _product(half, half, degree)
    return _product(square, base, degree) if times % 2 else square
