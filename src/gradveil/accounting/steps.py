"""Steps of a sampled Gaussian mechanism, grouped: the common input of all accountants."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Step(NamedTuple):
    """`times` releases f(lot) + N(0, (z s)^2) with s the most that one unit changes f, its lot sampled at rate q.

    units: how many units change at once, each of them in the lot with probability q on its own; a lot holds at most
    `most` of them. lots: one of `times` is so many releases, of whose lots at most one holds the unit, each with
    probability q (random allocation); 1 otherwise.
    """

    z: float
    q: float
    times: int
    units: int = 1
    most: int | None = None
    lots: int = 1


Steps = Sequence[Step]


def grouped(sigmas: Sequence[float], q: float) -> tuple[Step, ...]:
    """Group equal noise multipliers, smallest first; the order of steps never matters to an accountant."""
    values, counts = np.unique(np.asarray(sigmas, float), return_counts=True)
    return tuple(Step(float(z), q, int(n)) for z, n in zip(values, counts, strict=True))


def rounded(steps: Steps, levels: int = 100) -> tuple[tuple[Step, ...], float]:
    """Round multipliers down, the safe direction, to at most `levels` values of equal ratio.

    Returns the steps and the cost of rounding: by which fraction sum q^2 / z^2 grew.
    """
    nonempty = tuple(step for step in steps if step.times)
    noisy = [step.z for step in nonempty if step.z > 0]
    if len({step.z for step in nonempty}) <= levels or not noisy:
        return nonempty, 0.0
    edges = np.geomspace(min(noisy), max(noisy), levels)
    edges[0] = min(noisy)
    below = np.searchsorted(edges, [step.z for step in nonempty], side="right") - 1
    coarse = merged([s._replace(z=float(edges[i]) if s.z > 0 else 0.0) for s, i in zip(nonempty, below, strict=True)])
    return coarse, rho(coarse) / rho(nonempty) - 1 if min(step.z for step in nonempty) > 0 else 0.0


def rho(steps: Steps) -> float:
    """Return sum q^2 / z^2 over all steps, infinite without noise."""
    if any(step.z <= 0 and step.q > 0 and step.times for step in steps):
        return math.inf
    return math.fsum(step.times * (step.q / step.z) ** 2 for step in steps if step.times and step.q > 0)


def merged(*parts: Steps) -> tuple[Step, ...]:
    """Put steps together, adding the counts of equal ones."""
    counts: Counter[Step] = Counter()
    for step in (s for part in parts for s in part):
        counts[step._replace(times=0)] += step.times
    return tuple(step._replace(times=n) for step, n in sorted(counts.items(), key=_order) if n)


def _order(counted: tuple[Step, int]) -> tuple[float, float, int, int]:
    step, _ = counted
    return step.z, step.q, step.units, step.lots


def repeated(steps: Steps, times: int) -> tuple[Step, ...]:
    """Return the same steps, `times` times over."""
    return tuple(step._replace(times=step.times * times) for step in steps if step.times * times)


def is_noiseless(steps: Steps) -> bool:
    """Whether some step releases a lot without noise."""
    return any(step.z <= 0 and step.q > 0 and step.times > 0 for step in steps)
