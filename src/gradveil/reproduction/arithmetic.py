"""Cells that need no training: epsilons by the paper's rules, rounds until a budget is spent, settings and sizes."""

import math
from typing import Any

import numpy as np

from gradveil.accounting.as_paper import ACCOUNTANTS
from gradveil.accounting.composition import advanced_as_coded
from gradveil.accounting.moments import running
from gradveil.accounting.steps import Step, grouped
from gradveil.data.dataset import Dataset
from gradveil.privacy.schedule import Cyclic
from gradveil.reproduction.works import Account, Exhausted, Setting
from gradveil.runs.presets import PRESETS

STEPS_A_ROUND = 100


def epsilon(work: Account) -> float:
    """Account equal steps."""
    return ACCOUNTANTS[work.accountant]([Step(work.sigma, work.q, work.steps)], work.delta)


def rounds_until_spent(work: Exhausted) -> int:
    """Find the first round after which more than the budget is spent, or the last one.

    The paper's rows come from schedules of the epsilon of a step, epsilon_l = c / sigma_l with
    c = sqrt(2 ln(1.25 / delta)), stretched over T rounds; its advanced row compares the spending of one formula with
    the budget of another, and so does this.
    """
    sigmas = _sigmas(work.decay, work.rounds, work.delta)
    over = _spent_by_round(work, sigmas) > work.budget
    return int(np.argmax(over)) + 1 if over.any() else work.rounds


def _spent_by_round(work: Exhausted, sigmas: Any) -> Any:
    """Account after every round."""
    ends = np.arange(STEPS_A_ROUND, len(sigmas) + 1, STEPS_A_ROUND)
    if work.accountant == "moments":
        return running(sigmas, work.q, work.delta)[ends - 1]
    spend = advanced_as_coded if work.accountant == "advanced" else ACCOUNTANTS[work.accountant]
    return np.array([spend(grouped(sigmas[:end], work.q), work.delta) for end in ends])


def _sigmas(decay: str, rounds: int, delta: float) -> Any:
    """Give sigma of every local step; only the printed formula tells of the cyclic one, from sigma_0 = 15."""
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


def setting(work: Setting) -> int:
    """Look a number up in the preset of a dataset."""
    return int(getattr(PRESETS[work.of], work.name))


def size(name: str, dataset: Dataset) -> int | str:
    """Count what the data holds; training examples include those held out for choices."""
    held_out = 0 if dataset.validation is None else len(dataset.validation)
    match name:
        case "training":
            return len(dataset.train) + held_out
        case "validation":
            return len(dataset.test)
        case "classes":
            return len(dataset.classes)
        case _:
            shape = dataset.shape if dataset.shape[-1] != 1 else dataset.shape[:-1]
            return "*".join(map(str, shape))
