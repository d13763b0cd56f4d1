"""What a plan would cost, said while one types it: epsilon from the accountant, time from a few steps of training."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gradveil import codec
from gradveil.data.dataset import Dataset
from gradveil.engines.cache import drop_programs_if_many
from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.federation.plan import Plan
from gradveil.privacy.schedule import Constant
from gradveil.reports.words import WHOM, reason, unbroken
from gradveil.runs.budget import Budget, expected_participations
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.estimate import RoundCost, measured
from gradveil.runs.runner import Options
from gradveil.web.own_data import OwnData
from gradveil.web.run_form import form_values, planned

FEW_CLIENTS, FEW_STEPS = 8, 4
"""What is trained to measure the time of a round."""
MOST_KEPT = 64
MOST_ROUNDS, MOST_CLIENTS, MOST_DRAWS = 10_000, 1_000_000, 20_000_000
"""Of plans that are forecast."""
_MEASURED: dict[str, RoundCost] = {}
_LOCK = threading.Lock()


def epsilon(form: Mapping[str, str], data: OwnData) -> dict[str, Any]:
    """Return the settings of a plan, and a sentence that says what all its rounds would spend."""
    plan, dataset = _small_enough(planned(form, data))
    budget = Budget(replace(plan, max_epsilon=None), dataset, Population.of(plan, dataset).copies)
    busiest = plan.rounds if plan.cohort == plan.clients else expected_participations(plan)
    spent = GuaranteeRecord.of(budget.spent(plan.rounds, busiest))
    return {"settings": form_values(plan), "epsilon": spent.epsilon, "says": _says(spent, plan)}


def _small_enough(asked: tuple[Plan, Dataset]) -> tuple[Plan, Dataset]:
    """Refuse what would keep the server busy for long: it answers while one types."""
    plan, _ = asked
    if plan.rounds > MOST_ROUNDS or plan.clients > MOST_CLIENTS or plan.rounds * plan.clients > MOST_DRAWS:
        raise BadInput(
            f"rounds = {plan.rounds}, clients = {plan.clients}: too many to say at once what they cost; `gradveil run "
            "--dry-run` says it"
        )
    return asked


def _says(spent: GuaranteeRecord, plan: Plan) -> str:
    whom = WHOM.get(spent.threat_model, spent.threat_model)
    if spent.epsilon is None:
        return f"This plan has no finite epsilon against {whom}: {reason(spent)}"
    costs = f"epsilon {spent.epsilon:.3g} against {whom}, for one {spent.unit} at delta {unbroken(f'{spent.delta:g}')}"
    if plan.max_epsilon is not None and spent.epsilon > plan.max_epsilon:
        return f"All {plan.rounds} rounds would cost {costs}; the run stops before it exceeds {plan.max_epsilon:g}."
    return f"This plan costs {costs}."


def duration(form: Mapping[str, str], data: OwnData) -> dict[str, Any]:
    """Return how long a plan would take on this machine; None for one that first computes features of its data."""
    plan, dataset = _small_enough(planned(form, data))
    if plan.features is not None:
        return {"seconds": None, "says": "The time is not estimated: features of the data come first."}
    seconds = _seconds(plan, dataset)
    return {"seconds": seconds, "says": f"It takes {in_words(seconds)} of training on this machine."}


def in_words(seconds: float) -> str:
    """Say a duration as people do."""
    if seconds < 60:
        return "less than a minute"
    minutes = round(seconds / 60)
    return (
        f"about {minutes} minute{'s' if minutes > 1 else ''}" if minutes < 90 else f"about {seconds / 3600:.0f} hours"
    )


def _seconds(plan: Plan, dataset: Dataset) -> float:
    """Scale the time of a few steps up; what is not changed in between is measured once."""
    few = _trimmed(plan)
    key = codec.digest(few)
    with _LOCK:
        if key not in _MEASURED:
            drop_programs_if_many()
            _MEASURED[key] = measured(few, dataset, Options())
            for old in list(_MEASURED)[:-MOST_KEPT]:
                del _MEASURED[old]
        return _MEASURED[key].seconds(plan, few.local_steps)


def _trimmed(plan: Plan) -> Plan:
    """Return a plan of a few clients and steps that cost as much each as those of the plan."""
    clients = plan.clients if plan.client_sizes else min(plan.cohort, FEW_CLIENTS)
    method = plan.method if plan.method.noise.silent else replace(plan.method, noise=Constant(1.0))
    same = {
        "method": method,
        "learning_rate": 0.1,
        "delta": 1e-5,
        "seed": 0,
        "max_epsilon": None,
        "target_accuracy": None,
        "target_rmse": None,
        "threat_model": "server",
    }  # what takes no time
    few = {"clients": clients, "cohort": clients, "rounds": len(plan.preparation) + 1, "minimum_cohort": None}
    try:
        return replace(plan, **same, **few, local_steps=min(plan.local_steps, FEW_STEPS))  # type: ignore[arg-type]
    except BadInput:  # a plan whose parts fit only each other
        return plan
