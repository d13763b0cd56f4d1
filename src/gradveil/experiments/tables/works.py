"""What fills cells: a training run, a tuned run, an attack, a timing, a fact, or arithmetic; each named by its hash."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gradveil import codec
from gradveil.attacks.zoo import ATTACKS
from gradveil.federation.plan import Plan

Record = dict[str, Any]
FORMAT = 1
"""Raise it when what a record holds, or how it is computed, changes: older records are then not found any more."""


class Work(Protocol):
    """Something to be done once, whatever number of cells ask for it."""

    @property
    def dataset(self) -> str | None:
        """Name the dataset that it needs, if any."""

    def seeded(self, seed: int) -> "Work":
        """Give the same work with another seed; arithmetic stays as it is."""


class _OfPlan:
    """A work whose data and seed are those of its plan."""

    __slots__ = ()
    plan: Plan

    @property
    def dataset(self) -> str | None:
        """Name the plan's dataset."""
        return self.plan.dataset

    def seeded(self, seed: int) -> Any:
        """Change the plan's seed."""
        return replace(self, plan=replace(self.plan, seed=seed))  # type: ignore[type-var]


@dataclass(frozen=True, slots=True)
class Training(_OfPlan):
    """Train a plan to its end and keep the curve."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Tuned(_OfPlan):
    """Try learning rates for some rounds on examples held out of training, then train the plan with the best."""

    plan: Plan
    rates: tuple[float, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class Timed(_OfPlan):
    """Measure the seconds of a local iteration of one client, with compilation left out."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked(_OfPlan):
    """Attack some clients of a plan: on a fresh network, or after `round` rounds of training if that is given.

    start, distance: other parts than the attack's own, by name (see workshop.py).
    """

    plan: Plan
    surface: int
    view: str = "released"
    attack: str = "cpl"
    iterations: int | None = None
    victims: int = 10
    rule: str = "default"
    start: str | None = None
    distance: str | None = None
    round: int | None = None
    beside: bool = True
    seed: int = 0

    def seeded(self, seed: int) -> Any:
        """Change the network, the victims and the starts."""
        return replace(self, seed=seed, plan=replace(self.plan, seed=seed))


@dataclass(frozen=True, slots=True)
class Sound(_OfPlan):
    """Account a whole plan soundly without training it."""

    plan: Plan

    def seeded(self, seed: int) -> Any:
        """Stay as it is."""
        return self


class _Arithmetic:
    """A work that needs no data and no seed."""

    __slots__ = ()

    @property
    def dataset(self) -> str | None:
        """Need none."""
        return None

    def seeded(self, seed: int) -> Any:
        """Stay as it is."""
        return self


@dataclass(frozen=True, slots=True)
class Account(_Arithmetic):
    """Give the epsilon of an accountant for steps of one sigma."""

    accountant: str
    sigma: float
    q: float
    steps: int
    delta: float = 1e-5


@dataclass(frozen=True, slots=True)
class Exhausted(_Arithmetic):
    """Give the round in which a decaying sigma first spends more than `budget`, by the schedules behind the paper's."""

    accountant: str
    decay: str
    budget: float
    rounds: int
    q: float = 0.01
    delta: float = 1e-5


@dataclass(frozen=True, slots=True)
class Setting(_Arithmetic):
    """Give a number that the settings of a dataset hold: local_steps, batch, rounds, client_size."""

    of: str
    name: str


@dataclass(frozen=True, slots=True)
class Size:
    """Give a number that the data itself holds: training, validation, features, classes."""

    of: str
    name: str

    @property
    def dataset(self) -> str | None:
        """Need the data."""
        return self.of

    def seeded(self, seed: int) -> "Size":
        """Stay as it is."""
        return self


def key_of(work: Work, data: str) -> str:
    """Name a work by its kind and everything that decides its result: its data by their digest, its attack by parts."""
    parts = repr(ATTACKS[work.attack].value) if isinstance(work, Attacked) else ""
    what = [FORMAT, type(work).__name__, codec.encode(work), data, parts]
    text = json.dumps(what, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]
