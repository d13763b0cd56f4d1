"""The noise with which a whole plan meets a target epsilon: one factor of all its noise scales, by bisection."""

import dataclasses
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradveil.accounting.accountant import account
from gradveil.accounting.guarantee import Guarantee
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import cohort_of
from gradveil.keys import Keys
from gradveil.privacy.schedule import Schedule
from gradveil.runs.budget import Budget

LEAST, MOST, PRECISION = 2.0**-20, 2.0**20, 1e-4
_SIZES = ("sigma", "start", "end", "floor")


def louder(plan: Plan, factor: float) -> Plan:
    """Return the plan with all noise scales multiplied."""
    return replace(plan, method=replace(plan.method, noise=scaled(plan.method.noise, factor)))


def meet(
    plan: Plan,
    dataset: Dataset,
    epsilon: float,
    copies: int | None = None,
    noisier: Callable[[Plan, float], Plan] = louder,
) -> Plan:
    """Return the plan with the least noise that spends at most `epsilon` against its `threat_model`.

    All noise scales are multiplied by one factor, by `noisier`. The result has itself been accounted, and its
    `max_epsilon` is the target, so that it is not exceeded where cohorts are drawn in secret either. BadInput where no
    noise is enough.
    """
    if not 0 < epsilon < float("inf"):
        raise BadInput(f"target_epsilon = {epsilon}: must be a finite number above 0")
    if plan.method.noise.silent:
        raise BadInput(f"target_epsilon = {epsilon}: method {plan.method.name!r} draws no noise, so it meets no target")
    copy_count = Population.of(plan, dataset).copies if copies is None else copies
    times = participations(plan)

    def cost(factor: float) -> Guarantee:
        budget = Budget(replace(at(factor), max_epsilon=None), dataset, copy_count)
        return account(budget.ledger(plan.rounds, times), plan.delta, ADD_REMOVE, plan.threat_model)

    def at(factor: float) -> Plan:
        return replace(noisier(plan, factor), max_epsilon=epsilon)

    highest = cost(MOST)
    if highest.epsilon > epsilon:
        why = "" if highest.finite else f" ({highest.caveats[len(dataset.caveats)]})"
        raise BadInput(
            f"target_epsilon = {epsilon}: no amount of noise gives {plan.method.name} that epsilon against "
            f"{plan.threat_model}{why}"
        )
    return at(_least(lambda factor: cost(factor).epsilon <= epsilon))


def _least(is_met: Callable[[float], bool]) -> float:
    """Return the least factor that is enough, to PRECISION and never below it; MOST is enough."""
    low, high = 1.0, 1.0
    while not is_met(high):
        low, high = high, 2 * high
    while low == high and low > LEAST:
        low, high = (low / 2, high) if not is_met(low / 2) else (low / 2, low / 2)
    while high > low * (1 + PRECISION):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if is_met(middle) else (middle, high)
    return high


def scaled(noise: Schedule, factor: float) -> Schedule:
    """Return a noise schedule with all its scales multiplied; its shape stays."""
    fields: Any = dataclasses.fields(noise)  # type: ignore[arg-type]
    sizes = {f.name: getattr(noise, f.name) for f in fields if f.name in _SIZES}
    changed: Schedule = replace(noise, **{n: v * factor for n, v in sizes.items() if v is not None})  # type: ignore[type-var]
    return changed


def participations(plan: Plan) -> int:
    """Count the busiest client's rounds in the cohorts that a seeded run draws; a secret run may draw busier ones."""
    if plan.cohort == plan.clients:
        return plan.rounds
    roots, counts = Keys.of(plan.seed, secret=False), np.zeros(plan.clients, int)
    for t in range(plan.rounds):
        counts[cohort_of(plan, t, roots)] += 1
    return int(counts.max())
