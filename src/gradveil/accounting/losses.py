"""Distributions of privacy losses on a grid, and their composition by one Fourier transform.

A hockey-stick curve at grid points e_i is turned into a distribution of losses whose own curve goes through those
points and is linear in exp(epsilon) between them: it never understates (Doroshenko et al. 2022, "connect the dots").
Composing releases adds losses, so transforms multiply; a round that happens with probability g, and shows whether it
did, has the transform 1 - g + g times that of its releases.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from gradveil.accounting.curves import Curve

Array = np.ndarray[Any, Any]

TAIL = 1e-15
"""Probability that a composed loss lies outside the grid; it is added to delta."""
_WIDEST = 30.0
_TILTS = np.geomspace(1e-3, 1e3, 25)


class Losses(NamedTuple):
    """Loss (first + i) * interval has probability mass[i]; with probability `infinite` the loss is infinite."""

    interval: float
    first: int
    mass: Array
    infinite: float

    @property
    def values(self) -> Array:
        """The finite losses."""
        return (self.first + np.arange(len(self.mass))) * self.interval

    def delta(self, epsilons: Array) -> Array:
        """Return sum over losses above epsilon of mass (1 - exp(epsilon - loss)), plus the infinite part."""
        values = self.values
        above = np.append(np.cumsum(self.mass[::-1])[::-1], 0.0)
        # exp(epsilon - loss) is summed relative to the smallest loss above epsilon, so that nothing overflows.
        shrunk = np.append(_discounted(self.mass, self.interval), 0.0)
        at = np.searchsorted(values, epsilons, side="right")
        first = np.append(values, np.inf)[at]
        finite = above[at] - np.exp(np.minimum(epsilons - first, 0.0)) * shrunk[at]
        return np.asarray(np.maximum(finite, 0.0) + self.infinite)

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon >= 0 whose delta is at most the given one."""
        if self.infinite > delta:
            return math.inf
        grid = np.append(0.0, self.values[self.values > 0])
        within = self.delta(grid) <= delta
        if within[0]:
            return 0.0
        if not within.any():
            return math.inf
        i = int(np.argmax(within))
        left, right = grid[i - 1], grid[i]
        if right - left > _WIDEST:
            return float(right)
        a, b = self.delta(np.array([left, right]))
        fraction = (a - delta) / (a - b)  # linear in exp(epsilon) within a cell
        return float(left + math.log1p(fraction * math.expm1(right - left)))


def _discounted(mass: Array, interval: float) -> Array:
    """Return s_i = sum_{j >= i} mass_j exp(-(j - i) interval), by doubling strides instead of a loop over i."""
    summed, stride = mass.copy(), 1
    while stride < len(mass):
        factor = math.exp(-stride * interval)
        if factor < 1e-300:
            break
        summed[:-stride] = summed[:-stride] + factor * summed[stride:]
        stride *= 2
    return summed


def on_grid(curve: Curve, interval: float) -> Losses:
    """Connect the dots of a curve between its two ends."""
    first = math.floor(curve.low / interval)
    last = max(first + 1, math.ceil(curve.high / interval))
    deltas = np.clip(curve.delta(np.arange(first, last + 1) * interval), 0.0, 1.0)
    deltas = np.minimum.accumulate(deltas)
    drops = -np.diff(deltas)
    mass = np.empty(len(deltas))
    mass[1:-1] = (drops[:-1] - math.exp(-interval) * drops[1:]) / -math.expm1(-interval)
    mass[-1] = drops[-1] / -math.expm1(-interval)
    mass[1:] = np.maximum(mass[1:], 0.0)
    mass[0] = max(0.0, 1.0 - deltas[-1] - mass[1:].sum())
    return Losses(interval, first, mass, float(deltas[-1]))


class Repeated(NamedTuple):
    """A round, composed `times` times: losses with how often each occurs; it happens with probability `rate`."""

    parts: tuple[tuple[Losses, int], ...]
    rate: float = 1.0
    times: int = 1


def compose(rounds: Sequence[Repeated]) -> Losses:
    """Compose rounds whose losses are all on one grid.

    Mass outside the window is charged as an infinite loss, and so is the largest rounding error: a power of a
    transform has an error of 2^-52 times its exponent.
    """
    singles = {id(loss): loss for item in rounds for loss, _ in item.parts}
    interval = next(iter(singles.values())).interval
    low, high = _window(rounds, singles)
    first = math.floor(low / interval)
    length = next_fast_len(math.ceil(high / interval) - first + 1, real=True)
    transforms = {name: rfft(_wrapped(loss, length)) for name, loss in singles.items()}
    product = np.ones(length // 2 + 1, complex)
    for item in rounds:
        inner = np.ones_like(product)
        for loss, count in item.parts:
            inner *= _power(transforms[id(loss)], count)
        product *= _power(1 - item.rate + item.rate * inner if item.rate < 1 else inner, item.times)
    mass = np.maximum(np.roll(irfft(product, length), -(first % length)), 0.0)
    rounding = 4 * 2.0**-52 * math.fsum(item.times * count for item in rounds for _, count in item.parts)
    return Losses(interval, first, mass, min(1.0, _infinite(rounds) + 2 * TAIL + rounding))


def _power(base: Array, exponent: int) -> Array:
    """Raise to a whole power by squaring, which is many times faster than numpy's complex power."""
    result = base if exponent & 1 else None
    while exponent := exponent >> 1:
        base = base * base
        if exponent & 1:
            result = base if result is None else result * base
    return np.ones_like(base) if result is None else result


def _infinite(rounds: Sequence[Repeated]) -> float:
    """Return the probability that some release has an infinite loss."""
    logs = (item.times * math.log1p(-item.rate * -math.expm1(_log_finite(item))) for item in rounds)
    return -math.expm1(math.fsum(logs))


def _log_finite(item: Repeated) -> float:
    """Return the logarithm of the probability that no release of a round has an infinite loss."""
    return math.fsum(count * math.log1p(-min(loss.infinite, 1 - 1e-16)) for loss, count in item.parts)


def _wrapped(loss: Losses, length: int) -> Array:
    """Lay a distribution around a circle of grid points, loss 0 at index 0."""
    at = (loss.first + np.arange(len(loss.mass))) % length
    return np.bincount(at, weights=loss.mass, minlength=length)


def _window(rounds: Sequence[Repeated], singles: dict[int, Losses]) -> tuple[float, float]:
    """Bound the composed loss by Chernoff: P(loss > t) <= exp(K(s) - s t) for every s > 0, K the log-moments."""
    spread = math.sqrt(math.fsum(i.times * i.rate * n * _square(loss) for i in rounds for loss, n in i.parts))
    tilts = _TILTS / max(spread, 1e-12)
    above, below = (_log_moments(rounds, singles, way * tilts) for way in (1.0, -1.0))
    high = float(np.min((above - math.log(TAIL)) / tilts))
    low = float(np.max((math.log(TAIL) - below) / tilts))
    largest = math.fsum(i.times * n * max(loss.values[-1], 0.0) for i in rounds for loss, n in i.parts)
    smallest = math.fsum(i.times * n * min(loss.values[0], 0.0) for i in rounds for loss, n in i.parts)
    return max(low, smallest), min(high, largest)


def _square(loss: Losses) -> float:
    """Return the mean square of a loss."""
    return float(loss.mass @ loss.values**2)


def _log_moments(rounds: Sequence[Repeated], singles: dict[int, Losses], tilts: Array) -> Array:
    """Return ln E exp(s loss) of the composed finite losses for every s."""
    single = {name: _log_moment(loss, tilts) for name, loss in singles.items()}
    total = np.zeros(len(tilts))
    for item in rounds:
        inner = np.sum([count * single[id(loss)] for loss, count in item.parts], axis=0)
        happens = np.logaddexp(math.log1p(-item.rate), math.log(item.rate) + inner) if item.rate < 1 else inner
        total = total + item.times * happens
    return total


def _log_moment(loss: Losses, tilts: Array) -> Array:
    positive = loss.mass > 0
    exponents = np.multiply.outer(tilts, loss.values[positive])
    largest = exponents.max(axis=1, keepdims=True)
    moments: Array = np.log(np.exp(exponents - largest) @ loss.mass[positive]) + largest[:, 0]
    return moments
