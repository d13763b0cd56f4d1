"""The settings that tuning tries: a small grid around a plan, the plan itself first."""

from dataclasses import replace
from itertools import product
from typing import Any

from gradveil.federation.plan import Plan
from gradveil.models.regression import SoftmaxRegression
from gradveil.privacy.method import Method
from gradveil.runs.shorthand import Tweaks

RATES = (1.0, 0.25, 0.5, 2.0, 4.0)
"""Factors of the learning rate."""
CLIPS = (1.0, 1 / 3, 3.0)
"""Factors of C."""
STEPS = (1, 2)
"""Factors of the rounds of gradients, where a round is one step."""


def candidates(plan: Plan) -> tuple[Plan, ...]:
    """Return all plans of the grid, without the noise that each of them needs; they differ in no client's data.

    Rate and C for every method with a bound; for one step a round also twice the steps, and a model with a noised
    second moment also without it.
    """
    rates = [plan.learning_rate * factor for factor in RATES]
    grid = product(_models(plan), STEPS if plan.local_steps == 1 else (1,), _methods(plan.method), rates)
    return tuple(
        replace(plan, model=model, rounds=_rounds(plan, model, steps), method=method, learning_rate=rate)
        for model, steps, method, rate in grid
    )


def _models(plan: Plan) -> tuple[Any, ...]:
    model = plan.model
    if isinstance(model, SoftmaxRegression) and model.mean is not None and model.moment is not None:
        return model, replace(model, moment=None)
    return (model,)


def _rounds(plan: Plan, model: Any, steps: int) -> int:
    return len(getattr(model, "preparation", ())) + steps * (plan.rounds - len(plan.preparation))


def _methods(method: Method) -> tuple[Method, ...]:
    """Return the method with each C, itself alone if it has none."""
    bound = _bound(method)
    if bound is None:
        return (method,)
    return tuple(method if factor == 1 else Tweaks(clip=float(f"{bound * factor:.4g}")).of(method) for factor in CLIPS)


def _bound(method: Method) -> float | None:
    return next((getattr(method.clip, name) for name in ("c", "radius", "high") if hasattr(method.clip, name)), None)


def settings_of(plan: Plan) -> dict[str, Any]:
    """Return what a candidate may differ in, for people and records."""
    return {
        "learning_rate": plan.learning_rate,
        "clip": _bound(plan.method),
        "rounds": plan.rounds,
        "preparation": {stage.name: stage.share for stage in plan.preparation},
    }
