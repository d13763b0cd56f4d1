"""The paper's own epsilons, recomputed by its own rules; never a guarantee."""

import math
from collections.abc import Callable
from typing import Any

from gradveil.accounting.composition import advanced_standard, base
from gradveil.accounting.concentrated import zcdp
from gradveil.accounting.moments import moments, rdp
from gradveil.accounting.release import TRIAL, Ledger
from gradveil.accounting.steps import Step, Steps, grouped
from gradveil.accounting.tight import pld

Accountant = Callable[[Steps, float], float]

PAPER: dict[str, Accountant] = {"base": base, "advanced": advanced_standard, "zcdp": zcdp, "moments": moments}
ACCOUNTANTS: dict[str, Accountant] = {**PAPER, "rdp": rdp, "pld": pld}

LABEL = "by the paper's accounting; not a guarantee"
USED = "q = B / |D_i|, the rate behind the paper's printed figures"
FORMULA = "q = B K / |D|, the paper's own formula"
CLIENTS = "q = K / N and one step more than rounds, as the paper's tables count them"
PER_CLIENT = "one round of one client, the sum over its local steps; as a maximum over clients it needs disjoint data"


def plain_event(steps: Steps, delta: float) -> dict[str, float | None]:
    """Return the epsilon of every accountant; null stands for infinity."""
    return {name: _number(accountant(steps, delta)) for name, accountant in ACCOUNTANTS.items()}


def as_the_paper_accounts(ledger: Ledger, delta: float, records: int) -> dict[str, Any]:
    """Account the sums of a ledger as the paper does, first with the rate that it used, then with its formula.

    Trials are left out, since the paper does not count how settings were found.
    """
    sums = [release for release in ledger.sums if release.stage != TRIAL]
    if not sums or any(s <= 0 for r in sums for s in r.sigmas):
        return {}
    first = sums[0]
    sigmas = [sigma for release in sums for sigma in release.sigmas]
    if first.unit == "client":
        steps = grouped([*sigmas, sigmas[-1]], first.cohort_rate)
        return {**_row(steps, delta, CLIENTS), "label": LABEL, "rows": [_row(steps, delta, CLIENTS)]}
    used = grouped(sigmas, first.example_rate)
    formula = grouped(sigmas, min(1.0, first.expected * first.cohort / records))
    rows = [
        _row(used, delta, USED),
        _row(formula, delta, FORMULA),
        _per_client(first.sigmas, first.example_rate, delta),
    ]
    return {**rows[0], "label": LABEL, "rows": rows}


def _row(steps: tuple[Step, ...], delta: float, meaning: str) -> dict[str, Any]:
    values = {name: _number(accountant(steps, delta)) for name, accountant in PAPER.items()}
    count = sum(step.times for step in steps)
    return {**values, "delta": delta, "q": steps[0].q, "steps": count, "meaning": meaning}


def _per_client(sigmas: tuple[float, ...], rate: float, delta: float) -> dict[str, Any]:
    steps = grouped(sigmas, rate)
    return {"base": _number(base(steps, delta)), "delta": delta, "q": rate, "steps": len(sigmas), "meaning": PER_CLIENT}


def _number(epsilon: float) -> float | None:
    return epsilon if math.isfinite(epsilon) else None
