"""Jobs that fill cells: a training run, a search, an attack, a timing, a fact, or arithmetic; each named by a hash."""

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

from gradveil import codec
from gradveil.attacks.zoo import ATTACKS
from gradveil.federation.plan import Plan

FORMAT = 1
"""Raise it when what a record holds, or how it is computed, changes: older records are then not found any more."""


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """Train a plan to its end and keep the curve."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class TuningJob:
    """Try learning rates for some rounds on examples held out of training, then train the plan with the best."""

    plan: Plan
    rates: tuple[float, ...]
    rounds: int


@dataclass(frozen=True, slots=True)
class TimingJob:
    """Measure the seconds of a local iteration of one client, with compilation left out."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackJob:
    """Attack some clients of a plan: on a fresh network, or after `round` rounds of training if that is given.

    start, distance: other parts than the attack's own, by name (see executor.py). identify: whether the rules for
    labels and candidate identification are tried on the same gradients too.
    """

    plan: Plan
    surface: int
    attack: str = "cpl"
    iterations: int | None = None
    victims: int = 10
    start: str | None = None
    distance: str | None = None
    round: int | None = None
    identify: bool = True
    seed: int = 0


@dataclass(frozen=True, slots=True)
class GuaranteeJob:
    """Account a whole plan by a sound accountant, without training it."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class EpsilonJob:
    """Compute the epsilon of an accountant for steps of one sigma."""

    accountant: str
    sigma: float
    q: float
    steps: int
    delta: float = 1e-5


@dataclass(frozen=True, slots=True)
class ExhaustionJob:
    """Find the round in which a decaying sigma first spends more than `budget`, by the schedules behind the paper's."""

    accountant: str
    decay: str
    budget: float
    rounds: int
    q: float = 0.01
    delta: float = 1e-5


@dataclass(frozen=True, slots=True)
class SettingJob:
    """Look up a number in the preset of a dataset: local_steps, batch, rounds, client_size."""

    dataset: str
    name: str


@dataclass(frozen=True, slots=True)
class SizeJob:
    """Count what the data itself holds: training, validation, features, classes."""

    dataset: str
    name: str


Arithmetic = EpsilonJob | ExhaustionJob | SettingJob
"""Jobs that need no data and are never stored: computing them takes no longer than reading them."""
Job = TrainingJob | TuningJob | TimingJob | AttackJob | GuaranteeJob | SizeJob | Arithmetic
"""Something to be done once, whatever number of cells ask for it."""

_HASHED_AS = {
    TrainingJob: "Training", TuningJob: "Tuned", TimingJob: "Timed", AttackJob: "Attacked", GuaranteeJob: "Sound",
    EpsilonJob: "Account", ExhaustionJob: "Exhausted", SettingJob: "Setting", SizeJob: "Size",
}  # fmt: skip
_FIELDS_HASHED_AS = {AttackJob: {"identify": "beside"}, SizeJob: {"dataset": "of"}, SettingJob: {"dataset": "of"}}


def dataset_of(job: Job) -> str | None:
    """Name the dataset that a job needs, if any."""
    match job:
        case TrainingJob(plan) | TuningJob(plan) | TimingJob(plan) | AttackJob(plan=plan) | GuaranteeJob(plan):
            return plan.dataset
        case SizeJob(dataset):
            return dataset
        case EpsilonJob() | ExhaustionJob() | SettingJob():
            return None


def seeded(job: Job, seed: int) -> Job:
    """Return the same job with another seed; what draws nothing stays as it is."""
    match job:
        case TrainingJob() | TuningJob() | TimingJob():
            return replace(job, plan=replace(job.plan, seed=seed))
        case AttackJob():  # another network, other victims and other starts
            return replace(job, seed=seed, plan=replace(job.plan, seed=seed))
        case GuaranteeJob() | EpsilonJob() | ExhaustionJob() | SettingJob() | SizeJob():
            return job


def key_of(job: Job, data: str) -> str:
    """Name a job by its kind and everything that decides its result: its data by their digest, its attack by parts."""
    parts = repr(ATTACKS[job.attack].value) if isinstance(job, AttackJob) else ""
    hashed = [FORMAT, _HASHED_AS[type(job)], _hashed_fields(job), data, parts]
    text = json.dumps(hashed, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _hashed_fields(job: Job) -> dict[str, Any]:
    """Return a job's fields under the names that format 1 hashes, so that records of older versions are still found."""
    names: dict[str, str] = _FIELDS_HASHED_AS.get(type(job), {})
    return {names.get(name, name): value for name, value in codec.encode(job).items()}
