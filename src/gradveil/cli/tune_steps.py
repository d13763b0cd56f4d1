"""What `gradveil tune` does: try settings, show what was found, and write it as a plan."""

from functools import partial
from typing import Any

import tomli_w
import typer

from gradveil import codec
from gradveil.calibration.candidates import settings_of
from gradveil.calibration.trial_records import TrialRecord, records_path
from gradveil.calibration.tuning import TunedPlan, Tuning, tune
from gradveil.calibration.tuning_data import tuning_data
from gradveil.cli.guarantee_output import show_guarantees
from gradveil.cli.loading import load
from gradveil.cli.output import doing, emit_json, say, table
from gradveil.cli.tune_request import TuneRequest
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.federation.plan import Plan
from gradveil.runs import store
from gradveil.runs.budget import Budget, expected_participations
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.resolving import resolved
from gradveil.runs.shorthand import divided


def execute(request: TuneRequest) -> None:
    """Tune, write the plan, and say what it rests on."""
    asked = _asked(request)
    done = tune(asked)
    _write(request, done.plan)
    forecast = _forecast(done.plan, asked.dataset)
    shown = () if asked.hidden else done.done
    if request.as_json:
        return emit_json(_answer(request, done, shown, forecast))
    if shown:
        table("Trials", ["learning rate", "C", "rounds", "preparation", "score"], [_row(trial) for trial in shown])
    say(f"Settings: {done.plan.tuned.found}." if done.plan.tuned is not None else "")
    show_guarantees(f"Guarantees of {done.plan.method.name} after {done.plan.rounds} rounds", forecast)
    say(f"train it with: gradveil run {request.out}")


def _asked(request: TuneRequest) -> Tuning:
    fields = {
        "dataset": request.dataset, "method": request.method, "target": request.target, "schema": request.schema,
        "threat_model": request.threat_model, "delta": request.delta, "clients": request.clients,
        "noise_source": request.noise_source, "seed": request.seed,
    }  # fmt: skip
    settings, tweaks = divided({name: value for name, value in fields.items() if value is not None})
    find = partial(load, data_dir=request.data_dir)
    (plan,) = resolved({}, settings, tweaks, find, request.target_epsilon)
    dataset, records = find(plan.dataset, **plan.loading), records_path(request.out)
    if store.exists(request.out) and not store.exists(records):
        raise BadInput(f"out = {str(request.out)!r}: is there already; name a new file")
    with doing("making the data to try settings on"):
        data = tuning_data(request.on, dataset, request.seed, find)
    return Tuning(
        plan=plan,
        dataset=dataset,
        on=request.on,
        data=data,
        trials=request.trials,
        target_epsilon=request.target_epsilon,
        records=records,
        folder=request.out.with_name(f"{request.out.stem}.trials"),
        progress=lambda note: typer.echo(note, err=True),
    )


def _write(request: TuneRequest, plan: Plan) -> None:
    found = "" if plan.tuned is None else plan.tuned.found
    text = f"# Written by gradveil tune. {found}.\n\n{tomli_w.dumps(codec.encode(plan))}"
    store.write(request.out, text.encode())


def _forecast(plan: Plan, dataset: Dataset) -> list[GuaranteeRecord]:
    """Account the run of the plan, and the trials that it counts, against every adversary."""
    budget = Budget(plan, dataset, Population.of(plan, dataset).copies)
    return budget.all_guarantees(plan.rounds, expected_participations(plan))


def _answer(
    request: TuneRequest, done: TunedPlan, shown: tuple[TrialRecord, ...], forecast: list[GuaranteeRecord]
) -> dict[str, Any]:
    """Return the answer as JSON; `trials` is empty where their number is secret."""
    return {
        "out": str(request.out),
        "on": request.on,
        "settings": settings_of(done.plan),
        "found": None if done.plan.tuned is None else done.plan.tuned.found,
        "score": None if done.best is None else done.best.score,
        "trials": [codec.record(trial) for trial in shown],
        "guarantees": codec.record(tuple(forecast)),
    }


def _row(trial: TrialRecord) -> list[str]:
    given = trial.settings
    shares = ", ".join(f"{name} {share:g}" for name, share in given["preparation"].items())
    clip = "" if given["clip"] is None else f"{given['clip']:.3g}"
    return [f"{given['learning_rate']:g}", clip, str(given["rounds"]), shares, f"{trial.score:.3f}"]
