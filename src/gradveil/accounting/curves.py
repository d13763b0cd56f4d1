"""Hockey-stick curves delta(epsilon) of one release, exact and vectorized over epsilon.

A release is x + N(0, z^2) where the units that a neighbor changes move x by at most their number k. How many of them
are in the lot is random, so the two output distributions are dominated by mixtures on the line:

    P = sum_k w_k N(k, z^2)        against        Q = N(0, z^2)

with k = 0 or 1 for one unit sampled at rate q, and k binomial for all records of a client at once (Choquette-Choo et
al. 2024 prove that vectors are dominated by their norms). In the direction "remove" the curve is that of P over Q,
in "add" of Q over P; "replace" exchanges the units, which moves x to either side. Several releases of which at most one
holds the unit have the curve of `allocation.py`.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp, softmax
from scipy.stats import binom

from gradveil.accounting import allocation
from gradveil.accounting.steps import Step

Array = np.ndarray[Any, Any]

REMOVE, ADD, REPLACE = "remove", "add", "replace"
_LARGEST = 300.0
"""Beyond this loss exponentials overflow; larger losses are charged as infinite."""
_FAR = 10.0
"""Standard deviations at which a normal is cut off; the 8e-24 beyond is charged as an infinite loss."""


class Curve(NamedTuple):
    """delta(epsilon) as a function of arrays, and the range of losses that holds nearly all of its mass."""

    delta: Callable[[Array], Array]
    low: float
    high: float


def curve_of(step: Step, way: str) -> Curve:
    """Return the curve of one release of a step in one direction."""
    if step.lots > 1:
        return _allocated(step, way)
    if step.q == 1:
        reach = (2.0 if way == REPLACE else 1.0) * step.units
        return _gaussian(reach / step.z)
    if way == REPLACE:
        return _exchanged(step.z, step.q) if step.units == 1 else _exchanged_units(step)
    shifts, weights = _shifts(step)
    return _mixture(step.z, shifts, weights, way)


def _allocated(step: Step, way: str) -> Curve:
    """Return the curve of releases of which at most one holds the unit; none is known for the exchange of units."""
    low, high = allocation.ends(step)
    if way == REMOVE:
        return Curve(partial(allocation.remove, step), low, high)
    if way == ADD:
        return Curve(partial(allocation.add, step), -high, -low)
    raise ValueError(f"{way}: random allocation has a curve for {REMOVE} and {ADD} only")


def _shifts(step: Step) -> tuple[Array, Array]:
    """Return how many of the changed units may be in the lot, and how probable that is."""
    if step.units == 1:
        return np.array([0.0, 1.0]), np.array([1 - step.q, step.q])
    most = step.units if step.most is None else min(step.most, step.units)
    k = np.arange(most + 1)
    weights = binom.pmf(k, step.units, step.q)
    weights[-1] = binom.sf(most - 1, step.units, step.q)
    return k[weights > 0].astype(float), weights[weights > 0]


def _gaussian(mu: float) -> Curve:
    """N(mu, 1) against N(0, 1): Phi(-e / mu + mu / 2) - exp(e) Phi(-e / mu - mu / 2)."""

    def delta(epsilons: Array) -> Array:
        return _difference(log_ndtr(-epsilons / mu + mu / 2), epsilons + log_ndtr(-epsilons / mu - mu / 2))

    return Curve(delta, mu * mu / 2 - _FAR * mu, mu * mu / 2 + _FAR * mu)


def _mixture(z: float, shifts: Array, weights: Array, way: str) -> Curve:
    """P = sum_k w_k N(k, z^2) and Q = N(0, z^2): the loss of P over Q grows with x, so level sets are half-lines."""
    loss, logs = _log_ratio(z, shifts, weights), np.log(weights)[:, None]
    low, high = loss(np.array([-_FAR * z]))[0], loss(np.array([shifts[-1] + _FAR * z]))[0]

    def upper(epsilons: Array) -> Array:
        x = _where(epsilons, z, shifts, weights)
        mass = logsumexp(log_ndtr((shifts[:, None] - x) / z) + logs, axis=0)
        return _difference(mass, epsilons + log_ndtr(-x / z))

    def lower(epsilons: Array) -> Array:
        x = _where(-epsilons, z, shifts, weights)
        mass = logsumexp(log_ndtr((x - shifts[:, None]) / z) + logs, axis=0)
        return np.where(np.isneginf(x), 0.0, _difference(log_ndtr(x / z), epsilons + mass))

    return Curve(upper, low, high) if way == REMOVE else Curve(lower, -high, -low)


def _log_ratio(z: float, shifts: Array, weights: Array) -> Callable[[Array], Array]:
    """Return ln P(x) / Q(x) = ln sum_k w_k exp((2 k x - k^2) / (2 z^2))."""

    def loss(x: Array) -> Array:
        exponents = (2 * shifts[:, None] * x - shifts[:, None] ** 2) / (2 * z * z)
        log_ratio: Array = logsumexp(exponents + np.log(weights)[:, None], axis=0)
        return log_ratio

    return loss


def _where(losses: Array, z: float, shifts: Array, weights: Array) -> Array:
    """Find x at which ln P / Q is a given loss; minus infinity where it is always larger."""
    if len(shifts) == 2:
        with np.errstate(invalid="ignore", divide="ignore"):
            small = np.log(np.expm1(np.minimum(losses, 1.0)) + weights[1])
        large = losses + np.log1p(-weights[0] * np.exp(-np.maximum(losses, 1.0)))
        x = 0.5 + z * z * (np.where(losses < 1, small, large) - math.log(weights[1]))
        return np.where(np.isnan(x), -np.inf, x)
    return _inverted(losses, z, shifts, weights)


def _inverted(losses: Array, z: float, shifts: Array, weights: Array) -> Array:
    """Invert ln P / Q, which is convex and grows with x: from a table, then by Newton's steps."""
    loss = _log_ratio(z, shifts, weights)
    table = np.linspace(-12.0 * z, shifts[-1] + 12.0 * z, 400)
    x = np.interp(losses, loss(table), table)
    for _ in range(3):
        exponents = (2 * shifts[:, None] * x - shifts[:, None] ** 2) / (2 * z * z) + np.log(weights[:, None])
        chances = softmax(exponents, axis=0)
        slope = np.maximum(shifts @ chances, 1e-300) / (z * z)
        x = np.clip(x + (losses - logsumexp(exponents, axis=0)) / slope, table[0], table[-1])
    least = math.log(weights[0]) if shifts[0] == 0 else -np.inf
    return np.where(losses <= least, -np.inf, x)


def _exchanged(z: float, q: float) -> Curve:
    """(1 - q) N(0) + q N(1) against (1 - q) N(0) + q N(-1): a quadratic in exp(x / z^2)."""
    a = q * math.exp(-0.5 / z**2)

    def delta(epsilons: Array) -> Array:
        b = (1 - q) * np.expm1(epsilons)
        root = np.sqrt(b * b + 4 * a * a * np.exp(epsilons))
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            # The positive root of a t^2 - b t - a e^epsilon, written without cancellation for either sign of b.
            t = np.where(b > 0, (b + root) / (2 * a), 2 * a * np.exp(epsilons) / (root - b))
            x = z * z * np.log(t)
        log_p = np.logaddexp(math.log1p(-q) + log_ndtr(-x / z), math.log(q) + log_ndtr((1 - x) / z))
        log_q = np.logaddexp(math.log1p(-q) + log_ndtr(-x / z), math.log(q) + log_ndtr((-1 - x) / z))
        return _difference(log_p, epsilons + log_q)

    far = 1 + _FAR * z
    ends = [(2 * far * s - 1) / (2 * z * z) for s in (1, -1)]
    high = float(np.diff(np.logaddexp(math.log1p(-q), math.log(q) + np.array(ends[::-1])))[0])
    return Curve(delta, -min(high, _LARGEST), min(high, _LARGEST))


def _exchanged_units(step: Step) -> Curve:
    """Replace all units at once, where the adversary sees how many are in the lot: sum_k w_k delta(2 k / z)."""
    shifts, weights = _shifts(step)
    parts = [(w, _gaussian(2 * k / step.z)) for k, w in zip(shifts, weights, strict=True) if k > 0 and w > 0]

    def delta(epsilons: Array) -> Array:
        never = weights[0] * np.maximum(0.0, -np.expm1(epsilons))
        return np.asarray(never + sum(w * part.delta(epsilons) for w, part in parts))

    return Curve(delta, min(p.low for _, p in parts), max(p.high for _, p in parts))


def _difference(above: Array, below: Array) -> Array:
    """Return exp(above) - exp(below), at least 0, without overflow; 0 where both vanish."""
    gap = np.subtract(below, above, out=np.zeros_like(above), where=np.isfinite(above))
    return np.exp(above) * -np.expm1(np.minimum(gap, 0.0))
