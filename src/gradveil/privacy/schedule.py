"""Noise scales over time: sigma_t for every round and local step, decided on the host before training.

With u the index of a round (t = 0..T-1) or of a local step (t L + l) and U the number of them, the paper's
policies are functions of u. A decay takes either the paper's rate gamma, or `end`, the value at u = U (one past the
last release), as in the authors' code (15 - 10.15 t / T).
"""

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

import numpy as np

from gradveil.errors import BadInput
from gradveil.fields import real, settle, whole

Array = np.ndarray[Any, Any]


class Per(Enum):
    """What a schedule counts: the paper's text counts rounds, the authors' code local steps."""

    ROUND = "round"
    STEP = "step"


class Schedule(Protocol):
    """A rule (T, L) -> sigma[T, L] in float64; engines and accountants use the same array."""

    def sigmas(self, rounds: int, steps: int) -> Array:
        """Return the noise scale of every round and local step."""

    @property
    def silent(self) -> bool:
        """Whether no noise is drawn at all."""


@dataclass(frozen=True, slots=True)
class Constant:
    """sigma_u = sigma; 0 means no noise."""

    sigma: float

    def __post_init__(self) -> None:
        settle(self)
        if not 0 <= self.sigma < float("inf"):
            raise BadInput(f"sigma = {self.sigma}: a noise scale is a finite number, at least 0")
        if self.sigma:
            real("sigma", self.sigma)

    @property
    def silent(self) -> bool:
        """True for sigma = 0."""
        return self.sigma == 0

    def sigmas(self, rounds: int, steps: int) -> Array:
        """Return sigma everywhere."""
        return np.full((rounds, steps), self.sigma)


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """sigma_u = start (1 - gamma u)."""

    start: float
    end: float | None = None
    gamma: float | None = None
    per: Per = Per.ROUND

    def __post_init__(self) -> None:
        settle(self)
        _check(self.start, self.end, self.gamma)

    @property
    def silent(self) -> bool:
        """A decay always draws noise."""
        return False

    def sigmas(self, rounds: int, steps: int) -> Array:
        """Return the straight line; BadInput if it would fall to 0 or below."""
        u, total = _index(rounds, steps, self.per)
        gamma = self.gamma if self.end is None else (1 - self.end / self.start) / total
        return _above_zero(self.start * (1 - _rate_or_zero(gamma) * u), "gamma", gamma)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staircase:
    """sigma_u = start (1 - gamma floor(u / every)); `every` counts rounds, by default a tenth of them (10 of 100).

    With `end`, gamma is chosen so that floor(T / every) stairs lead down to it.
    """

    start: float
    end: float | None = None
    gamma: float | None = None
    every: int | None = None
    per: Per = Per.ROUND

    def __post_init__(self) -> None:
        settle(self)
        _check(self.start, self.end, self.gamma)
        if self.every is not None:
            whole("every", self.every)

    @property
    def silent(self) -> bool:
        """A decay always draws noise."""
        return False

    def sigmas(self, rounds: int, steps: int) -> Array:
        """Return the stairs; BadInput if they would fall to 0 or below."""
        u, _ = _index(rounds, steps, self.per)
        every = self.every or max(rounds // 10, 1)
        stair = np.floor(u / (every * (steps if self.per is Per.STEP else 1)))
        stairs = max(rounds // every, 1)
        gamma = self.gamma if self.end is None else (1 - self.end / self.start) / stairs
        return _above_zero(self.start * (1 - _rate_or_zero(gamma) * stair), "gamma", gamma)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """sigma_u = start exp(-gamma u)."""

    start: float
    end: float | None = None
    gamma: float | None = None
    per: Per = Per.ROUND

    def __post_init__(self) -> None:
        settle(self)
        _check(self.start, self.end, self.gamma)

    @property
    def silent(self) -> bool:
        """A decay always draws noise."""
        return False

    def sigmas(self, rounds: int, steps: int) -> Array:
        """Return the exponential."""
        u, total = _index(rounds, steps, self.per)
        gamma = self.gamma if self.end is None else math.log(self.start / self.end) / total
        return self.start * np.exp(-_rate_or_zero(gamma) * u)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cyclic:
    """sigma_u = max(floor, start / 2 (cos(pi mod(u, P) / P) + 1)) with P = ceil(U / cycles), as printed.

    The printed formula falls to almost 0 at the end of every cycle (0.0037 for start 15 and P = 100), which
    leaves the last releases almost without noise; `floor` is a lower limit. With floor = 0 it is the paper's formula.
    """

    start: float
    floor: float = 0.0
    cycles: int = 1
    per: Per = Per.ROUND

    def __post_init__(self) -> None:
        settle(self)
        _check(self.start, None, 0.0)
        if not 0 <= self.floor <= self.start:
            raise BadInput(f"floor = {self.floor}: must lie between 0 and start = {self.start}")
        whole("cycles", self.cycles)

    @property
    def silent(self) -> bool:
        """A decay always draws noise."""
        return False

    def sigmas(self, rounds: int, steps: int) -> Array:
        """Return the cosine, never below the floor."""
        u, total = _index(rounds, steps, self.per)
        period = math.ceil(total / self.cycles)
        return np.maximum(self.floor, self.start / 2 * (np.cos(np.pi * np.mod(u, period) / period) + 1))


SCHEDULES = (Constant, Linear, Staircase, Exponential, Cyclic)


def _check(start: float, end: float | None, gamma: float | None) -> None:
    if not 0 < start < float("inf"):
        raise BadInput(f"start = {start}: a decaying noise scale starts at a finite number above 0")
    real("start", start)
    if (end is None) == (gamma is None):
        raise BadInput(f"end = {end}, gamma = {gamma}: give exactly one of the two")
    if end is not None and not 0 < end <= start:
        raise BadInput(f"end = {end}: must be above 0 and at most start = {start}")
    if end is not None:
        real("end", end)
    if gamma is not None and not 0 <= gamma < float("inf"):
        raise BadInput(f"gamma = {gamma}: a decay rate is at least 0")


def _index(rounds: int, steps: int, per: Per) -> tuple[Array, int]:
    """Return u as float64 [T, L] and U."""
    t, step = np.meshgrid(np.arange(rounds), np.arange(steps), indexing="ij")
    return (t.astype(float), rounds) if per is Per.ROUND else ((t * steps + step).astype(float), rounds * steps)


def _rate_or_zero(gamma: float | None) -> float:
    return 0.0 if gamma is None else gamma


def _above_zero(sigmas: Array, name: str, value: float | None) -> Array:
    if sigmas.size and sigmas.min() <= 0:
        raise BadInput(f"{name} = {value}: the noise scale would fall to {sigmas.min():.3g} before the last round")
    return sigmas
