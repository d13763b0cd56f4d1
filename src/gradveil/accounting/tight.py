"""Tight composition: privacy loss distributions on a grid, and the closed form where nothing is sampled.

A pair of output distributions is described by its hockey-stick curve delta(epsilon); on a grid of epsilons the curve
becomes a distribution of losses that never understates it (dp-accounting's connect-the-dots), and composing mechanisms
adds losses. Neighbours: "add-remove" (a unit is there or zeroed) has two directions, "replace-one" is its own mirror.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np
from dp_accounting.pld import pld_pmf
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy.optimize import brentq
from scipy.special import log_ndtr

from gradveil.accounting.steps import Step, Steps, is_noiseless, merged, repeated, rounded

Array = np.ndarray[Any, Any]
Loss = Any
"""A distribution of privacy losses, dp-accounting's PLDPmf."""

ADD_REMOVE, REPLACE_ONE = "add-remove", "replace-one"
_DIRECTIONS = {ADD_REMOVE: (AdjacencyType.REMOVE, AdjacencyType.ADD), REPLACE_ONE: (AdjacencyType.REPLACE,)}
_TAIL, _BEYOND = 1e-15, 1e-13


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Give Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2), the curve of N(mu, 1) and N(0, 1)."""
    above, below = log_ndtr(-epsilon / mu + mu / 2), epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return float(math.exp(above) * -math.expm1(min(below - above, 0.0)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Solve gaussian_delta(mu, epsilon) = delta for epsilon >= 0."""
    if mu == 0 or gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    if math.isinf(mu):
        return math.inf
    upper = mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta)) + 1
    return float(brentq(lambda e: gaussian_delta(mu, e) - delta, 0.0, upper, xtol=1e-12))


def pld(steps: Steps, delta: float, adjacency: str = ADD_REMOVE) -> float:
    """Give epsilon of sampled Gaussian steps; replace-one moves a sum twice as far as add-remove."""
    if is_noiseless(steps):
        return math.inf
    if all(step.q == 1 for step in steps) or min((step.z for step in steps), default=1.0) < _BARE:
        reach = 2.0 if adjacency == REPLACE_ONE else 1.0
        return gaussian_epsilon(reach * math.sqrt(math.fsum(step.times / step.z**2 for step in steps)), delta)
    return largest_epsilon((losses(steps, way) for way in _DIRECTIONS[adjacency]), delta)


def pld_with_visible_draws(steps: Steps, delta: float, adjacency: str = ADD_REMOVE) -> float:
    """Give epsilon where the adversary sees which lots hold the unit: q then only says how often that happens."""
    if is_noiseless(steps):
        return math.inf
    if all(step.q == 1 for step in steps):
        return pld(steps, delta, adjacency)
    coarse, _ = rounded(steps)
    interval = _interval(coarse)

    def way(direction: AdjacencyType) -> Loss | None:
        single = {step: _single(step.z, 1.0, direction, interval) for step in coarse}
        return composed(again(visible(single[s], s.q, interval), s.times) for s in coarse)

    return largest_epsilon(map(way, _DIRECTIONS[adjacency]), delta)


def pld_of_rounds(
    rounds: Sequence[Steps], copies: int, rate: float, delta: float, adjacency: str, secret: bool
) -> float:
    """Give epsilon of rounds, each of which happens to a unit with probability `rate`, independently.

    secret: whether the draw is hidden (see `hidden`) or seen (see `visible`). Each of `copies` clients is drawn anew.
    """
    if any(map(is_noiseless, rounds)):
        return math.inf
    counted = Counter(tuple(r) for r in rounds)
    if rate == 1 or min(map(_whole_z, counted), default=1.0) < _HOPELESS:
        return pld(merged(*(repeated(r, n * copies) for r, n in counted.items())), delta, adjacency)
    interval = _interval([*(step for r in counted for step in r), *(Step(_whole_z(r), 1.0, 1) for r in counted)])
    mixed = [(_mixed_round(r, rate, adjacency, secret, interval), n * copies) for r, n in counted.items()]
    ways = zip(*(losses_of for losses_of, _ in mixed), strict=True)
    times = [n for _, n in mixed]
    return largest_epsilon((composed(again(w, n) for w, n in zip(way, times, strict=True)) for way in ways), delta)


def _mixed_round(steps: Steps, rate: float, adjacency: str, secret: bool, interval: float) -> tuple[Loss, ...]:
    """Give one round's losses in every direction, mixed with its draw."""
    if all(step.q == 1 for step in steps):
        steps = (Step(_whole_z(steps), 1.0, 1),)
        if secret:
            return tuple(_single(steps[0].z, rate, way, interval) for way in _DIRECTIONS[adjacency])
    ways = [_inner(steps, way, interval) for way in _DIRECTIONS[adjacency]]
    if not secret:
        return tuple(visible(way, rate, interval) for way in ways)
    if adjacency == REPLACE_ONE:  # no curve of the absent round is known here, so nothing is hidden by its draw
        return tuple(visible(way, rate, interval) for way in ways)
    reach = max(float(way.get_epsilon_for_delta(_BEYOND)) for way in ways)
    return hidden(ways[0], ways[1], rate, interval, min(max(reach, 0.5), 100.0))


_BARE = 0.05
"""Below this multiplier sampling is given no credit: the grid would be huge and the loss is beyond use anyway."""
_HOPELESS = 0.14
"""A round with a smaller multiplier loses so much that counting it as certain changes no decision, and is fast."""


def _whole_z(steps: Steps) -> float:
    """Give the multiplier of a round's unsampled steps taken as one Gaussian; infinite where all are sampled."""
    mu2 = math.fsum(step.times / step.z**2 for step in steps if step.q == 1)
    return 1 / math.sqrt(mu2) if mu2 else math.inf


def _inner(steps: Steps, way: AdjacencyType, interval: float) -> Loss:
    coarse, _ = rounded(steps)
    return composed(again(_single(s.z, s.q, way, interval), s.times) for s in coarse)


def largest_epsilon(ways: Iterable[Loss | None], delta: float) -> float:
    """Give the epsilon that holds in every direction; None stands for nothing released."""
    return max((max(0.0, float(way.get_epsilon_for_delta(delta))) for way in ways if way is not None), default=0.0)


def losses(steps: Steps, way: AdjacencyType) -> Loss | None:
    """Give the losses of all steps in one direction; None if there are none."""
    there = [step for step in steps if step.q > 0]
    return _inner(there, way, _interval(there)) if there else None


def again(loss: Loss, times: int) -> Loss:
    """Compose a loss with itself; once is itself, which composing would only work hard to find."""
    return loss if times == 1 else loss.self_compose(times)


def composed(parts: Iterable[Loss | None]) -> Loss | None:
    """Compose loss distributions, dropping tails of 1e-15 to keep them short (added to delta)."""
    there = [part for part in parts if part is not None]
    return reduce(lambda a, b: pld_pmf.compose_pmfs(a, b, _TAIL), there) if there else None


def _interval(steps: Steps) -> float:
    """Choose the grid: finer for large multipliers, whose single losses are small."""
    smallest = min((step.z for step in steps), default=1.0)
    return 1e-4 if smallest >= 0.4 else 1e-3 if smallest >= 0.1 else 1e-2


@lru_cache(maxsize=512)
def _single(z: float, q: float, way: AdjacencyType, interval: float) -> Loss:
    mechanism = GaussianPrivacyLoss(z, sampling_prob=q, adjacency_type=way)
    bounds = mechanism.connect_dots_bounds()
    return on_grid(mechanism.get_delta_for_epsilon, bounds.epsilon_lower, bounds.epsilon_upper, interval)


def on_grid(curve: Callable[[Array], Array], low: float, high: float, interval: float) -> Loss:
    """Turn a hockey-stick curve into losses on a grid between two epsilons, never understating it."""
    first, last = math.floor(low / interval), math.ceil(high / interval)
    deltas = np.clip(np.asarray(curve(np.arange(first, last + 1) * interval)), 0.0, 1.0)
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, first, last, np.minimum.accumulate(deltas))


def hidden(remove: Loss, add: Loss, rate: float, interval: float, reach: float) -> tuple[Loss, Loss]:
    """Mix losses of a round with a draw that nobody sees: the round happens with probability `rate`.

    P' = (1 - rate) Q + rate P against Q and back, on epsilons between -reach and reach. It presumes that a round which
    did not happen looks like Q, the round without the unit.
    """
    if rate == 1:
        return remove, add

    def removal(epsilons: Array) -> Array:
        inner = 1 + np.expm1(epsilons) / rate
        known = rate * _curve(remove, np.log(np.maximum(inner, 1e-300)))
        return np.where(inner > 0, known, -np.expm1(epsilons))

    def addition(epsilons: Array) -> Array:
        weight = 1 - np.exp(epsilons) * (1 - rate)
        safe = np.maximum(weight, 1e-300)
        return np.where(weight > 0, weight * _curve(add, epsilons + math.log(rate) - np.log(safe)), 0.0)

    return on_grid(removal, -reach, reach, interval), on_grid(addition, -reach, reach, interval)


def visible(loss: Loss, rate: float, interval: float) -> Loss:
    """Mix losses of a round with a draw that the adversary sees: with probability 1 - rate nothing is lost."""
    nothing = pld_pmf.create_pmf({0: 1.0}, interval, 0.0, True)
    return loss.compute_mixture(nothing, rate) if rate < 1 else loss


def _curve(loss: Loss, epsilons: Array) -> Array:
    """Evaluate the hockey-stick curve at any epsilons, in ascending order as dp-accounting wants them."""
    order = np.argsort(epsilons)
    values = np.empty_like(epsilons)
    values[order] = np.asarray(loss.get_delta_for_epsilon(epsilons[order]))
    return values
