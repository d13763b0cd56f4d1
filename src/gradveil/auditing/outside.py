"""Mechanisms of others: any function of units [n, d] and a seed that returns a release, with what is claimed of it."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from gradveil.accounting.tight import ADD_REMOVE, gaussian_epsilon
from gradveil.auditing.audit_record import AuditRecord, AuditRow, overall
from gradveil.auditing.bounds import MOST_EPSILON, epsilon_of_mu, noise_limit
from gradveil.auditing.judging import row_of
from gradveil.auditing.probe import Host
from gradveil.auditing.replay_level import FALSE_ALARMS
from gradveil.auditing.subject import LOUD_DELTA, EpsilonClaim
from gradveil.auditing.telling import Scores, told_apart
from gradveil.errors import BadInput

Mechanism = Callable[[Host, int], Any]
LOUD, FAINT = 1e4, 0.05


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

    def release(self, units: Host, seed: int) -> Host:
        """Call the mechanism; returns its release as one vector."""
        return np.asarray(self.mechanism(units, seed), np.float64).ravel()


def audit_outside(outside: Outside, seed: int = 0) -> AuditRecord:
    """Audit somebody's mechanism: with the same seeds for two neighbors, then by many releases of the worst pair.

    Neighbors differ in one unit, which is there or not; others are absent, faint, loud and along it, or against it.
    """
    pairs = _pairs(outside, seed)
    _refuse_unless_vectors(outside, pairs[0], seed)
    rows = [_replayed(outside, pairs, seed)]
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


Lots = tuple[Host, Host]


def _pairs(outside: Outside, seed: int) -> list[Lots]:
    """Return lots with and without the unit, [n, d] and [n - 1, d]."""
    random, n, d = np.random.default_rng(seed), outside.units, outside.dimension
    unit, toward = random.normal(size=d), random.normal(size=d)
    unit, toward = unit / np.linalg.norm(unit), toward / np.linalg.norm(toward)
    around = [np.zeros((n - 1, d)), *(np.tile(norm * toward, (n - 1, 1)) for norm in (FAINT, 3.0))]
    moves = [LOUD * unit, unit, LOUD * toward, -LOUD * toward]
    lots = [(others * outside.bound, move * outside.bound) for others in around for move in moves]
    return [(np.vstack([others, move]), others) for others, move in lots]


def _refuse_unless_vectors(outside: Outside, pair: Lots, seed: int) -> None:
    shapes = [outside.release(lot, seed).shape for lot in pair]
    if shapes[0] != shapes[1] or shapes[0] == (0,):
        raise BadInput(f"mechanism = {outside.name}: releases have {shapes[0]} and {shapes[1]} numbers, and must agree")


def _replayed(outside: Outside, pairs: list[Lots], seed: int) -> AuditRow:
    """Compare the pairs with the same seeds: where the same seed gives the same noise, it cancels."""
    began = time.perf_counter()
    seeds = range(seed, seed + 200)
    strongest = max((_replayed_pair(outside, pair, seeds) for pair in pairs), key=lambda one: one[0])
    seconds = time.perf_counter() - began
    claim = outside.claim(outside.delta)
    return row_of(claim, "replay", strongest[0], MOST_EPSILON, 1 - FALSE_ALARMS, strongest[1], seconds)


def _replayed_pair(outside: Outside, pair: Lots, seeds: range) -> tuple[float, str]:
    present, absent = (np.array([outside.release(lot, s) for s in seeds]) for lot in pair)
    if np.isfinite(absent).all() and not np.isfinite(present).all():
        return MOST_EPSILON, "the release with the unit is not finite"
    moved = present - absent
    noise = (absent[0::2] - absent[1::2]) / math.sqrt(2)
    limit = noise_limit(noise, 1 - FALSE_ALARMS / 100)
    mean = moved.mean(axis=0)
    if np.abs(moved - mean).max() > 1e-3 * max(limit, 1e-12):
        return 0.0, "the noise differs between neighbors of one seed, so only the second level can judge it"
    if limit == 0:
        return (MOST_EPSILON, "nothing is random") if np.abs(mean).max() > 0 else (0.0, "nothing is released")
    return epsilon_of_mu(float(np.linalg.norm(mean)) / limit, outside.delta), "the same seeds, with and without a unit"


def _samples(outside: Outside, pair: Lots, seeds: range) -> tuple[Host, Host]:
    """Draw releases of both lots, with seeds that differ."""
    present = np.array([outside.release(pair[0], s) for s in seeds])
    absent = np.array([outside.release(pair[1], s + len(seeds)) for s in seeds])
    return _plain(present), _plain(absent)


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
