"""Cells that need no training: epsilons by the paper's rules, rounds until a budget is spent, settings and sizes."""

import math
from typing import Any

import numpy as np

from gradveil.accounting.as_paper import ACCOUNTANTS
from gradveil.accounting.composition import advanced_as_coded
from gradveil.accounting.steps import Step, grouped
from gradveil.data.dataset import Dataset
from gradveil.experiments.settings import PRESETS
from gradveil.experiments.tables.works import Account, Exhausted, Setting

STEPS_A_ROUND = 100


def epsilon(work: Account) -> float:
    """Account equal steps."""
    return ACCOUNTANTS[work.accountant]([Step(work.sigma, work.q, work.steps)], work.delta)


def rounds_until_spent(work: Exhausted) -> int:
    """Find the round of 100 local steps in which the budget is first exceeded.

    The paper's rows come from schedules of the epsilon of a step, epsilon_l = c / sigma_l with
    c = sqrt(2 ln(1.25 / delta)), stretched over T rounds; its advanced row compares the spending of one formula with
    the budget of another, and so does this.
    """
    sigmas = _sigmas(work.decay, work.rounds, work.delta)
    spend: Any = advanced_as_coded if work.accountant == "advanced" else ACCOUNTANTS[work.accountant]
    low, high = 0, len(sigmas)
    while low < high:
        middle = (low + high) // 2
        over = spend(grouped(sigmas[: middle + 1], work.q), work.delta) > work.budget
        low, high = (low, middle) if over else (middle + 1, high)
    return math.ceil(min(low + 1, len(sigmas)) / STEPS_A_ROUND)


def _sigmas(decay: str, rounds: int, delta: float) -> Any:
    count = STEPS_A_ROUND * rounds
    at = np.arange(count) / count
    if decay == "cyclic":  # the printed formula: one quarter cosine from 15, which no code of the authors holds
        return np.maximum(15 * 0.5 * (np.cos(np.pi * at) + 1), 1e-3)
    by_step = {
        "linear": at + 0.3074675,
        "staircase": 0.1 * np.floor(10 * at + 1e-9) + 0.3574675,
        "exponential": np.exp(1.664 * at - 1.1809),
    }[decay]
    return math.sqrt(2 * math.log(1.25 / delta)) / by_step


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
