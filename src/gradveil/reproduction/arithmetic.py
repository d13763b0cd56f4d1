"""Cells that need no training: epsilons by the paper's rules, rounds until a budget is spent, settings and sizes."""

import math
from bisect import bisect_right
from collections.abc import Callable
from typing import Any

import numpy as np

from gradveil.accounting.as_paper import ACCOUNTANTS
from gradveil.accounting.composition import advanced_as_coded
from gradveil.accounting.moments import running
from gradveil.accounting.steps import Step, grouped
from gradveil.data.dataset import Dataset
from gradveil.privacy.schedule import Cyclic
from gradveil.reproduction.job_cache import ValueRecord
from gradveil.reproduction.jobs import Arithmetic, EpsilonJob, ExhaustionJob, SettingJob
from gradveil.runs.presets import PRESETS

STEPS_A_ROUND = 100


def value(job: Arithmetic) -> ValueRecord:
    """Compute what a job asks for."""
    match job:
        case EpsilonJob():
            return ValueRecord(ACCOUNTANTS[job.accountant]([Step(job.sigma, job.q, job.steps)], job.delta))
        case ExhaustionJob():
            return ValueRecord(rounds_until_spent(job))
        case SettingJob(dataset, name):
            return ValueRecord(int(getattr(PRESETS[dataset], name)))


def rounds_until_spent(job: ExhaustionJob) -> int:
    """Return the first round after which more than the budget is spent, or the last one.

    The paper's rows come from schedules of the epsilon of a step, epsilon_l = c / sigma_l with
    c = sqrt(2 ln(1.25 / delta)), stretched over T rounds; its advanced row compares the spending of one formula with
    the budget of another, and so does this.
    """
    spent = _spent_by_round(job, _sigmas(job.decay, job.rounds, job.delta))
    # What is spent never falls, so that halving finds the round.
    return min(bisect_right(range(1, job.rounds + 1), job.budget, key=spent) + 1, job.rounds)


def _spent_by_round(job: ExhaustionJob, sigmas: Any) -> Callable[[int], float]:
    """Return the epsilon after a round, as a function of its number."""
    if job.accountant == "moments":
        spent = running(sigmas, job.q, job.delta)
        return lambda rounds: float(spent[STEPS_A_ROUND * rounds - 1])
    spend = advanced_as_coded if job.accountant == "advanced" else ACCOUNTANTS[job.accountant]
    return lambda rounds: spend(grouped(sigmas[: STEPS_A_ROUND * rounds], job.q), job.delta)


def _sigmas(decay: str, rounds: int, delta: float) -> Any:
    """Return sigma of every local step; for the cyclic decay there is only the printed formula, from sigma_0 = 15."""
    at = np.arange(STEPS_A_ROUND * rounds) / (STEPS_A_ROUND * rounds)
    match decay:
        case "constant":
            return np.full(len(at), 6.0)
        case "cyclic":
            return Cyclic(start=15.0).sigmas(rounds, STEPS_A_ROUND).ravel()
        case "linear":
            of_step = at + 0.3074675
        case "staircase":
            of_step = 0.1 * np.floor(10 * at + 1e-9) + 0.3574675
        case _:
            of_step = np.exp(1.664 * at - 1.1809)
    return math.sqrt(2 * math.log(1.25 / delta)) / of_step


def size(name: str, dataset: Dataset) -> ValueRecord:
    """Count what the data holds; training examples include those held out for choices."""
    held_out = 0 if dataset.validation is None else len(dataset.validation)
    match name:
        case "training":
            return ValueRecord(len(dataset.train) + held_out)
        case "validation":
            return ValueRecord(len(dataset.test))
        case "classes":
            return ValueRecord(len(dataset.classes))
        case _:
            shape = dataset.shape if dataset.shape[-1] != 1 else dataset.shape[:-1]
            return ValueRecord("*".join(map(str, shape)))
