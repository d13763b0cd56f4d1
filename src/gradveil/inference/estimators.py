"""What estimators by the conventions of scikit-learn share: their plan, and training in a temporary folder."""

from pathlib import Path
from typing import Any

from sklearn.utils import check_random_state

from gradveil import pipeline
from gradveil.calibration.plan_noise import meet
from gradveil.data.dataset import Dataset
from gradveil.data.in_memory import PREFIX
from gradveil.errors import BadInput, quoted
from gradveil.federation.plan import Plan
from gradveil.fields import scalar
from gradveil.inference.trained import Trained, in_temporary_folder, trained_of
from gradveil.keys import LARGEST_SEED
from gradveil.runs.presets import chosen, resolve
from gradveil.runs.runner import Options
from gradveil.runs.shorthand import method_named

FIT = "fit"
NAME = PREFIX + FIT
"""What the plan of an estimator calls its data."""


def fitted(estimator: Any, data: Dataset) -> Trained:
    """Train by the parameters of an estimator; the score in the result is that on the training rows."""
    plan = _plan(estimator, data)

    def carry_out(folder: Path) -> Trained:
        return trained_of(pipeline.run(plan, data, folder, Options(), report=False))

    return in_temporary_folder(carry_out)


def _plan(estimator: Any, data: Dataset) -> Plan:
    epsilon = None if estimator.epsilon is None else scalar(float, estimator.epsilon, "epsilon")
    method = method_named("non-private" if epsilon is None else estimator.method)
    changes: dict[str, Any] = {"delta": estimator.delta, "threat_model": estimator.threat_model}
    changes |= {key: value for key in ("clients", "rounds") if (value := getattr(estimator, key)) is not None}
    if estimator.random_state is not None:
        changes |= {"seed": _seed(estimator.random_state), "noise_source": "seeded"}
    plan = resolve(NAME, data, chosen(method, data, changes, epsilon), changes, epsilon)
    return plan if epsilon is None else meet(plan, data, epsilon)


def _seed(given: Any) -> int:
    """Return a seed of the plan for a random_state of scikit-learn."""
    try:
        state = check_random_state(given)
    except ValueError:
        raise BadInput(f"random_state = {quoted(given)}: a seed, a RandomState or None is expected") from None
    return int(state.randint(min(LARGEST_SEED, 2**31 - 1)))
