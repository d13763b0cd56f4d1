"""What `gradveil tune` does: try settings, show what was found, and write it as a plan."""

from collections.abc import Callable
from functools import partial
from typing import Any

import typer

from gradveil import codec
from gradveil.calibration.candidates import settings_of
from gradveil.calibration.trial_records import TrialRecord
from gradveil.calibration.tuned_file import Search, tune_into_file
from gradveil.calibration.tuning import TunedPlan
from gradveil.cli.guarantee_output import show_guarantees
from gradveil.cli.loading import load
from gradveil.cli.output import emit_json, say, table
from gradveil.cli.tune_request import TuneRequest
from gradveil.data.dataset import Dataset
from gradveil.federation.engine import Population
from gradveil.federation.plan import Plan
from gradveil.runs.budget import Budget, expected_participations
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.resolving import resolved
from gradveil.runs.shorthand import divided


def execute(request: TuneRequest) -> None:
    """Tune, write the plan, and say what it rests on."""
    find = partial(load, data_dir=request.data_dir)
    plan = _started(request, find)
    dataset = find(plan.dataset, **plan.loading)
    done = tune_into_file(plan, dataset, _search(request, find))
    forecast = _forecast(done.plan, dataset)
    visible_trials = () if done.hidden else done.done
    if request.as_json:
        return emit_json(_answer(request, done, visible_trials, forecast))
    if visible_trials:
        table(
            "Trials",
            ["learning rate", "C", "rounds", "preparation", "score"],
            [_row(trial) for trial in visible_trials],
        )
    say(f"Settings: {done.plan.tuned.found}." if done.plan.tuned is not None else "")
    show_guarantees(f"Guarantees of {done.plan.method.name} after {done.plan.rounds} rounds", forecast)
    say(f"train it with: gradveil run {request.out}")


def _started(request: TuneRequest, find: Callable[..., Dataset]) -> Plan:
    """Return the plan that the grid is laid around."""
    fields = {
        "dataset": request.dataset, "method": request.method, "target": request.target, "schema": request.schema,
        "threat_model": request.threat_model, "delta": request.delta, "clients": request.clients,
        "noise_source": request.noise_source, "seed": request.seed,
    }  # fmt: skip
    settings, tweaks = divided({name: value for name, value in fields.items() if value is not None})
    (plan,) = resolved({}, settings, tweaks, find, request.target_epsilon)
    return plan


def _search(request: TuneRequest, find: Callable[..., Dataset]) -> Search:
    return Search(
        out=request.out,
        load=find,
        on=request.on,
        trials=request.trials,
        target_epsilon=request.target_epsilon,
        progress=lambda note: typer.echo(note, err=True),
    )


def _forecast(plan: Plan, dataset: Dataset) -> list[GuaranteeRecord]:
    """Account the run of the plan, and the trials that it counts, against every adversary."""
    budget = Budget(plan, dataset, Population.of(plan, dataset).copies)
    return budget.all_guarantees(plan.rounds, expected_participations(plan))


def _answer(
    request: TuneRequest, done: TunedPlan, visible_trials: tuple[TrialRecord, ...], forecast: list[GuaranteeRecord]
) -> dict[str, Any]:
    """Return the answer as JSON; `trials` is empty where their number is secret."""
    return {
        "out": str(request.out),
        "on": request.on,
        "settings": settings_of(done.plan),
        "found": None if done.plan.tuned is None else done.plan.tuned.found,
        "score": None if done.best is None else done.best.score,
        "trials": [codec.record(trial) for trial in visible_trials],
        "guarantees": codec.record(tuple(forecast)),
    }


def _row(trial: TrialRecord) -> list[str]:
    given = trial.settings
    shares = ", ".join(f"{name} {share:g}" for name, share in given["preparation"].items())
    clip = "" if given["clip"] is None else f"{given['clip']:.3g}"
    return [f"{given['learning_rate']:g}", clip, str(given["rounds"]), shares, f"{trial.score:.3f}"]
