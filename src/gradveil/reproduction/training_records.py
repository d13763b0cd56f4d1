"""What is kept of a training run: enough for every measure, and for whoever wants to check it."""

import math

from gradveil import codec
from gradveil.federation.evaluate import score
from gradveil.reproduction.works import Record
from gradveil.runs.runner import Run


def trained(run: Run) -> Record:
    """Tell of a run that came to its end."""
    accuracy, n = run.lines[-1].accuracy, len(run.dataset.test)
    return {
        "accuracy": accuracy,
        "held_out": _held_out(run),
        "accuracy_error": share_error(accuracy, n),
        "majority": run.dataset.majority_baseline(),
        "rounds": run.state.round,
        "seconds": run.seconds,
        "learning_rate": run.plan.learning_rate,
        "curve": [line.accuracy for line in run.lines],
        "sensitivity": [line.sensitivity for line in run.lines],
        "plan_sha256": codec.digest(run.plan),
        "diverged": False,
    }


def share_error(share: float, n: float) -> float:
    """Give the standard error of a share of n independent examples; never below that of one example in n."""
    return math.sqrt(max(share * (1 - share), 1 / n) / n)


def _held_out(run: Run) -> float | None:
    """Score the final model on the split held out for choices, where there is one."""
    split = run.dataset.validation
    return None if split is None else score(run.plan.model, run.state.params, split).accuracy


def diverged(run: Run) -> Record:
    """Tell of a run that ended in no number: it has no accuracy."""
    return {
        "accuracy": None,
        "held_out": None,
        "rounds": run.state.round,
        "learning_rate": run.plan.learning_rate,
        "curve": [line.accuracy for line in run.lines],
        "guarantees": [],
        "diverged": True,
    }
