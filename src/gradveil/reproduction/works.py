"""What fills cells: a training run, a tuned run, an attack, a timing, a fact, or arithmetic; each named by its hash."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from gradveil import codec
from gradveil.attacks.zoo import ATTACKS
from gradveil.federation.plan import Plan

Record = dict[str, Any]
FORMAT = 1
"""Raise it when what a record holds, or how it is computed, changes: older records are then not found any more."""


@dataclass(frozen=True, slots=True)
class Training:
    """Train a plan to its end and keep the curve."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Tuned:
    """Try learning rates for some rounds on examples held out of training, then train the plan with the best."""

    plan: Plan
    rates: tuple[float, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class Timed:
    """Measure the seconds of a local iteration of one client, with compilation left out."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Attacked:
    """Attack some clients of a plan: on a fresh network, or after `round` rounds of training if that is given.

    start, distance: other parts than the attack's own, by name (see workshop.py).
    """

    plan: Plan
    surface: int
    attack: str = "cpl"
    iterations: int | None = None
    victims: int = 10
    start: str | None = None
    distance: str | None = None
    round: int | None = None
    beside: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Sound:
    """Account a whole plan soundly without training it."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class Account:
    """Give the epsilon of an accountant for steps of one sigma."""

    accountant: str
    sigma: float
    q: float
    steps: int
    delta: float = 1e-5


@dataclass(frozen=True, slots=True)
class Exhausted:
    """Give the round in which a decaying sigma first spends more than `budget`, by the schedules behind the paper's."""

    accountant: str
    decay: str
    budget: float
    rounds: int
    q: float = 0.01
    delta: float = 1e-5


@dataclass(frozen=True, slots=True)
class Setting:
    """Give a number that the settings of a dataset hold: local_steps, batch, rounds, client_size."""

    of: str
    name: str


@dataclass(frozen=True, slots=True)
class Size:
    """Give a number that the data itself holds: training, validation, features, classes."""

    of: str
    name: str


Work = Training | Tuned | Timed | Attacked | Sound | Account | Exhausted | Setting | Size
"""Something to be done once, whatever number of cells ask for it."""


def dataset_of(work: Work) -> str | None:
    """Name the dataset that a work needs, if any."""
    match work:
        case Training(plan) | Tuned(plan) | Timed(plan) | Attacked(plan=plan) | Sound(plan):
            return plan.dataset
        case Size():
            return work.of
        case Account() | Exhausted() | Setting():
            return None


def seeded(work: Work, seed: int) -> Work:
    """Give the same work with another seed; what is only reckoned stays as it is."""
    match work:
        case Training() | Tuned() | Timed():
            return replace(work, plan=replace(work.plan, seed=seed))
        case Attacked():  # another network, other victims and other starts
            return replace(work, seed=seed, plan=replace(work.plan, seed=seed))
        case Sound() | Account() | Exhausted() | Setting() | Size():
            return work


def key_of(work: Work, data: str) -> str:
    """Name a work by its kind and everything that decides its result: its data by their digest, its attack by parts."""
    parts = repr(ATTACKS[work.attack].value) if isinstance(work, Attacked) else ""
    what = [FORMAT, type(work).__name__, codec.encode(work), data, parts]
    text = json.dumps(what, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]
