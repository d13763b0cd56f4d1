"""From pairs of releases with the same keys to the noise multiplier that the code really has.

With the same keys two neighbors get the same noise, so the difference of their releases is the difference of their
sums; and a release less the same one without noise is its noise. Both are exact to rounding.
"""

import math
from dataclasses import dataclass

import numpy as np

from gradveil.auditing.bounds import noise_limit
from gradveil.auditing.probe import Host

ROUNDING = 1e-4
"""Relative differences up to this one are taken for rounding; a law of 32-bit sums of a few thousand numbers."""


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Releases of both neighbors with the same keys, rows [n, d]: with noise and without.

    more: further draws of the noise of the last coordinates, rows [., k]; k may be 0.
    """

    present: Host
    absent: Host
    present_mean: Host
    absent_mean: Host
    more: Host

    @property
    def noise(self) -> Host:
        """The noise on the release without the unit."""
        return self.absent - self.absent_mean

    @property
    def noise_with_unit(self) -> Host:
        """The noise on the release with the unit."""
        return self.present - self.present_mean

    @property
    def change(self) -> Host:
        """How far the unit moves the sum."""
        return self.present_mean - self.absent_mean


@dataclass(frozen=True, slots=True)
class Measured:
    """What a view shows of a unit.

    mus: of each release, ||change / noise|| with the noise at its upper limit; 0 where the unit has no effect, infinite
    where nothing hides it. larger, smaller: standard deviations of the noise of the two neighbors where they differ
    most; equal where the noise does not depend on the unit. coordinates: of a release.
    """

    mus: tuple[float, ...]
    larger: float
    smaller: float
    coordinates: int

    @property
    def mu(self) -> float:
        """The largest mu of a release."""
        return max(self.mus, default=0.0)

    @property
    def follows_data(self) -> bool:
        """Whether the size of the noise depends on the unit."""
        return self.larger > self.smaller * (1 + 10 * ROUNDING)


def measure(pair: Pair, layers: Host, scale: Host, confidence: float) -> Measured:
    """Measure a pair; layers: the layer of each coordinate, scale: units of each coordinate, [d]."""
    if not all(np.isfinite(part).all() for part in (pair.absent, pair.absent_mean)):
        return Measured((math.inf,), 1.0, 1.0, pair.absent.shape[1])
    mus, names = [], np.unique(layers)
    noise, change = pair.noise / scale, pair.change / scale
    drawn = [noise[:, layers == m].ravel() for m in names]
    drawn[-1] = np.concatenate([drawn[-1], pair.more.ravel()])
    limits = [noise_limit(one, 1 - (1 - confidence) / len(names)) for one in drawn]
    for row, rest in zip(change, pair.absent_mean / scale, strict=True):
        norms = [[float(np.linalg.norm(x[layers == m])) for x in (row, rest)] for m in names]
        parts = [_ratio(moved, s, ROUNDING * still) for (moved, still), s in zip(norms, limits, strict=True)]
        mus.append(math.hypot(*parts))
    larger, smaller = _scales(noise, pair.noise_with_unit / scale)
    return Measured(tuple(mus), larger, smaller, pair.absent.shape[1])


def _ratio(moved: float, noise: float, least: float) -> float:
    """Return change over noise; what could be rounding counts as no change."""
    if not math.isfinite(moved):
        return math.inf
    if moved <= max(least, ROUNDING * noise, 1e-12):
        return 0.0
    return moved / noise if noise > 0 else math.inf


def _scales(absent: Host, present: Host) -> tuple[float, float]:
    """Return the standard deviations of the two neighbors' noise in the release where they differ most."""
    if not np.isfinite(present).all():
        return 1.0, 1.0
    stds = np.sqrt(np.mean(np.square([absent, present]), axis=2))
    larger, smaller = stds.max(axis=0), stds.min(axis=0)
    at = int(np.argmax(np.where(larger > 0, larger / np.maximum(smaller, 1e-30), 0)))
    return float(larger[at]), float(smaller[at])


def correlation(first: Host, second: Host, false_alarms: float) -> float:
    """Return |r| of two noise vectors that should be independent; 0 where chance explains it."""
    n = first.size
    norms = float(np.linalg.norm(first)) * float(np.linalg.norm(second))
    if n < 8 or norms == 0:
        return 0.0
    r = abs(float(np.vdot(first, second))) / norms
    return r if r > math.sqrt(2 * math.log(2 / false_alarms) / n) else 0.0
