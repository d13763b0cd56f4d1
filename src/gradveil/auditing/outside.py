"""Mechanisms of others: any function of units [n, d] and a seed that returns a release, with what is claimed of it."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np

from gradveil.accounting.tight import ADD_REMOVE, gaussian_epsilon
from gradveil.auditing.audit_record import AuditRecord, AuditRow, overall
from gradveil.auditing.bounds import (
    MOST_EPSILON,
    Guesses,
    ceiling_of_guesses,
    epsilon_of_guesses,
    epsilon_of_mu,
    noise_limit,
)
from gradveil.auditing.calls import Called, Lots, Mechanism
from gradveil.auditing.judging import row_of
from gradveil.auditing.probe import Host
from gradveil.auditing.replay_level import FALSE_ALARMS
from gradveil.auditing.subject import LOUD_DELTA, EpsilonClaim
from gradveil.auditing.telling import Scores, told_apart
from gradveil.errors import BadInput

LOUD, FAINT = 1e4, 0.05
REPLAYED = 200
"""Seeds with which each pair is replayed."""
NOT_GAUSSIAN = (
    "an epsilon does not say which noise is claimed, so the same seeds show only whether there is any; the level "
    "mechanism judges how much"
)
LEVELS = ("replay", "mechanism")
"""Those that a function can be audited at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """A mechanism and its claim: epsilon at delta, or a noise multiplier z, by which epsilon is that of mu = 1 / z.

    units, dimension: of the lots that it is called with. bound: what it clips units to. releases: calls with the unit,
    and as many without.
    """

    name: str
    mechanism: Mechanism
    delta: float = 1e-5
    epsilon: float | None = None
    noise_multiplier: float | None = None
    bound: float = 1.0
    units: int = 16
    dimension: int = 32
    releases: int = 4000
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise BadInput("claimed_epsilon, noise_multiplier: give one of the two, which is what is tested")
        for name in ("epsilon", "noise_multiplier", "bound"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise BadInput(f"{name} = {value}: must be a finite number above 0")
        for name, least in (("units", 2), ("dimension", 2), ("releases", 200)):
            if getattr(self, name) < least:
                raise BadInput(f"{name} = {getattr(self, name)}: must be at least {least}")

    def claim(self, delta: float) -> EpsilonClaim:
        """Return the claim at a delta."""
        epsilon = self.epsilon
        if self.noise_multiplier is not None:
            epsilon = gaussian_epsilon(1 / self.noise_multiplier, delta)
        return EpsilonClaim("release", "record", delta, ADD_REMOVE, epsilon, None)

    @property
    def called(self) -> Called:
        """The function with its name."""
        return Called(self.name, self.mechanism)


def audit_outside(outside: Outside, seed: int = 0, levels: Sequence[str] = LEVELS) -> AuditRecord:
    """Audit somebody's mechanism: with the same seeds for two neighbors, then by many releases of the worst pair.

    Neighbors differ in one unit, which is there or not; others are absent, faint, loud and along it, or against it.
    """
    pairs = _pairs(outside, seed)
    rows = [_replayed(outside, pairs, seed)] if "replay" in levels else []
    if "mechanism" in levels:
        rows += _mechanism_rows(outside, max(pairs, key=lambda pair: _pilot(outside, pair, seed)), seed)
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    return AuditRecord(
        verdict=overall(rows),
        rows=tuple(rows),
        subject=outside.name,
        dataset=None,
        plan_sha256=None,
        date=date,
        seed=seed,
    )


def _pairs(outside: Outside, seed: int) -> list[Lots]:
    """Return lots with and without the unit, [n, d] and [n - 1, d]."""
    random, n, d = np.random.default_rng(seed), outside.units, outside.dimension
    unit, toward = random.normal(size=d), random.normal(size=d)
    unit, toward = unit / np.linalg.norm(unit), toward / np.linalg.norm(toward)
    around = [np.zeros((n - 1, d)), *(np.tile(norm * toward, (n - 1, 1)) for norm in (FAINT, 3.0))]
    moves = [LOUD * unit, unit, LOUD * toward, -LOUD * toward]
    lots = [(others * outside.bound, move * outside.bound) for others in around for move in moves]
    return [Lots(np.vstack([others, move]), others) for others, move in lots]


def _replayed(outside: Outside, pairs: list[Lots], seed: int) -> AuditRow:
    """Compare the pairs with the same seeds."""
    began, seeds = time.perf_counter(), range(seed, seed + REPLAYED)
    each = 1 - FALSE_ALARMS / (2 * len(pairs))
    judge, ceiling = _under_gaussian_noise, MOST_EPSILON
    if outside.noise_multiplier is None:
        judge, ceiling = _under_any_noise, ceiling_of_guesses(REPLAYED, REPLAYED, outside.delta, each)
    found = (judge(outside.called.releases(pair, seeds), outside.delta, each) for pair in pairs)
    lower, why = max(found, key=lambda one: one[0])
    seconds = time.perf_counter() - began
    return row_of(outside.claim(outside.delta), "replay", lower, ceiling, 1 - FALSE_ALARMS, why, seconds)


def _under_gaussian_noise(releases: Lots, delta: float, confidence: float) -> tuple[float, str]:
    """Return the bound where noise is claimed to be Gaussian: where the same seed gives the same noise, it cancels."""
    present, absent = releases
    if not np.isfinite(present).all():
        return MOST_EPSILON, "the release with the unit is not finite"
    moved = present - absent
    limit = noise_limit((absent[0::2] - absent[1::2]) / math.sqrt(2), confidence)
    mean = moved.mean(axis=0)
    if np.abs(moved - mean).max() > 1e-3 * max(limit, 1e-12):
        return 0.0, "the noise differs between neighbors of one seed, so only the second level can judge it"
    if limit == 0:
        return (MOST_EPSILON, "nothing is random") if np.abs(mean).max() > 0 else (0.0, "nothing is released")
    return epsilon_of_mu(float(np.linalg.norm(mean)) / limit, delta), "the same seeds, with and without a unit"


def _under_any_noise(releases: Lots, delta: float, confidence: float) -> tuple[float, str]:
    """Return the bound that holds whatever the noise is: of releases that are not finite, and of one that returns.

    What returns is the first release with the unit, and the others are counted.
    """
    odd = Lots(*(np.isfinite(x).sum(axis=1) < x.shape[1] for x in releases))
    same = Lots(*(np.equal(x[1:], releases.present[0]).all(axis=1) for x in releases))
    bounds = (
        (0.0, NOT_GAUSSIAN),
        (_counted(odd, delta, confidence), "the release with the unit is not finite"),
        (_counted(same, delta, confidence), "the release with the unit is always the same, so nothing is random"),
    )
    return max(bounds, key=lambda one: one[0])


def _counted(happened: Lots, delta: float, confidence: float) -> float:
    """Return the bound of how often something happened with the unit, and without it."""
    counts = [(int(one.sum()), len(one)) for one in happened]
    return epsilon_of_guesses(Guesses(*counts[0], *counts[1]), delta, confidence)


def _samples(outside: Outside, pair: Lots, seeds: range) -> tuple[Host, Host]:
    """Draw releases of both lots, with seeds that differ."""
    present, absent = outside.called.releases(pair, seeds, later=len(seeds))
    return _plain(present), absent


def _plain(releases: Host) -> Host:
    """Return releases as numbers that can be compared, also those that are none."""
    return np.nan_to_num(releases, nan=1e30, posinf=1e30, neginf=-1e30)


def _pilot(outside: Outside, pair: Lots, seed: int) -> float:
    """Return how well a few releases tell a pair apart."""
    present, absent = _samples(outside, pair, range(seed + 10**6, seed + 10**6 + 100))
    spread = np.sqrt((present.var(axis=0) + absent.var(axis=0)) / 2)
    shift = float(np.linalg.norm((present.mean(axis=0) - absent.mean(axis=0)) / np.maximum(spread, 1e-12)))
    sizes = [float(np.mean(np.square(x - x.mean(axis=0)))) for x in (present, absent)]
    return shift + abs(math.log(max(sizes[0], 1e-30) / max(sizes[1], 1e-30))) * math.sqrt(present.shape[1])


def _mechanism_rows(outside: Outside, pair: Lots, seed: int) -> list[AuditRow]:
    """Tell releases of one pair apart: along the direction that a held-back part shows, and by their size."""
    began, quarter = time.perf_counter(), outside.releases // 4
    present, absent = _samples(outside, pair, range(seed + 2 * 10**6, seed + 2 * 10**6 + outside.releases))
    direction = _direction(present[:quarter], absent[:quarter])
    center = absent[:quarter].mean(axis=0)
    along = Scores(present @ direction, absent @ direction)
    size = Scores(*(np.square(x - center).sum(axis=1) for x in (present, absent)))
    seconds, each = time.perf_counter() - began, 1 - (1 - outside.confidence) / 2
    rows, why = [], f"{outside.releases} releases with the unit and {outside.releases} without"
    for delta in (outside.delta, *((LOUD_DELTA,) if outside.noise_multiplier is not None else ())):
        bounds = told_apart((along, size), delta, each)
        rows.append(
            row_of(outside.claim(delta), "mechanism", bounds.bound, bounds.ceiling, outside.confidence, why, seconds)
        )
    return rows


def _direction(present: Host, absent: Host) -> Host:
    """Return Fisher's direction, (covariance + a little)^-1 (difference of means)."""
    noise = np.vstack([present - present.mean(axis=0), absent - absent.mean(axis=0)])
    covariance = np.atleast_2d(np.cov(noise, rowvar=False))
    ridge = 1e-6 * max(float(np.trace(covariance)) / len(covariance), 1e-30)
    solved: Host = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), present.mean(0) - absent.mean(0))
    return solved
