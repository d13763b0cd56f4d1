"""What `gradveil run` does: train a plan from options, a TOML file or a checkpoint, attack it and report."""

from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import tomli_w
import typer

from gradveil import codec, own_code, pipeline
from gradveil.calibration.plan_noise import meet
from gradveil.cli import attack_output, run_resume, run_story, run_summary
from gradveil.cli.guarantee_output import show_guarantees
from gradveil.cli.loading import load
from gradveil.cli.output import doing, emit_json, say
from gradveil.cli.round_numbers import rounds_from
from gradveil.cli.run_display import RunDisplay
from gradveil.cli.run_request import RunRequest
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.pipeline import PlannedRun, RunOutcomes
from gradveil.runs import store
from gradveil.runs.budget import Budget, expected_participations
from gradveil.runs.estimate import estimate
from gradveil.runs.presets import preset_for
from gradveil.runs.resolving import resolved
from gradveil.runs.runner import Options
from gradveil.runs.shorthand import Tweaks, divided


def execute(request: RunRequest) -> None:
    """Train a plan from its first round, resume a run, or say what a plan would take."""
    options = Options(engine=request.engine, watch=rounds_from(request.watch), resume=request.resume)
    if request.resume:
        return _resume(request, options)
    with own_code.may_import():
        fields, tweaks = divided(request.settings)
        plans = plans_from(request.plan_file, fields, tweaks, request.data_dir, request.target_epsilon)
    if request.target_epsilon is not None:
        plans = [_calibrated(plans, request)]
    pipeline.refuse_unreached(options.watch, plans[0])
    origin = _origin(plans[0], request) if len(plans) == 1 and not request.as_json else ""
    if request.dry_run:
        return _dry_run(plans[0], request.data_dir, options, request.as_json, origin)
    load = partial(_loaded, request.data_dir)
    jobs = [PlannedRun(p, load(p), f, options) for p, f in zip(plans, _folders(plans, request.out), strict=True)]
    _carry_out(jobs, request, origin)


def _calibrated(plans: list[Plan], request: RunRequest) -> Plan:
    """Return the plan with noise for the target epsilon; options that say the noise, or several plans, leave none."""
    target = request.target_epsilon or 0.0
    if len(plans) > 1:
        raise BadInput(f"target_epsilon = {target}: name a dataset or a method; the demonstration has its own noise")
    for name in ("sigma", "max_epsilon"):
        if name in request.settings:
            raise BadInput(f"{name} = {request.settings[name]}, target_epsilon = {target}: give one of the two")
    with doing("finding the noise for the target epsilon"):
        dataset = _loaded(request.data_dir, plans[0])
        plan = meet(plans[0], dataset, target)
    if not request.as_json:
        sizes = f"{min(plan.sizes)} to {plan.client_size}" if plan.client_sizes else plan.client_size
        chosen = " (the method with the best accuracy at a proven epsilon, docs/sound.md)"
        say(
            f"{plan.method.name}{'' if 'method' in request.settings else chosen} with noise for epsilon {target:g} "
            f"against {plan.threat_model}: {plan.rounds} rounds, {plan.clients} clients of {sizes} records."
        )
    return plan


def _origin(plan: Plan, request: RunRequest) -> str:
    """Return where the settings that the user did not give come from; nothing for a plan file, which gives them all."""
    if plan.tuned is not None:
        return f"Settings: {plan.tuned.found}."
    if request.plan_file is not None:
        return ""
    preset = preset_for(_loaded(request.data_dir, plan), plan.method, request.target_epsilon, plan.threat_model)
    features = "" if plan.features is None else f" {plan.features.origin}"
    return f"Settings that you did not give: {preset.origin}.{features}"


def _resume(request: RunRequest, options: Options) -> None:
    named = {f"--{name.replace('_', '-')}": value for name, value in request.settings.items() if name != "rounds"}
    run_resume.refuse_with_resume(
        {
            "PLAN.toml": request.plan_file,
            **named,
            "--dry-run": request.dry_run,
            "--target-epsilon": request.target_epsilon,
        }
    )
    folders = run_resume.folders_of(request.out)
    changes: dict[str, Any] = {"rounds": request.settings.get("rounds"), "attack": request.attack is True}
    load = partial(_loaded, request.data_dir)
    _carry_out([pipeline.resumed(folder, options, load=load, **changes) for folder in folders], request)


def _loaded(data_dir: Path | None, plan: Plan) -> Dataset:
    return load(plan.dataset, data_dir=data_dir, **plan.loading)


def plans_from(
    path: Path | None, fields: dict[str, Any], tweaks: Tweaks, data_dir: Path | None, target: float | None = None
) -> list[Plan]:
    """Resolve the plan, or the three plans of the demonstration if nothing says what to train."""
    table = _plan_file(path) if path is not None else {}
    return resolved(table, fields, tweaks, partial(load, data_dir=data_dir), target)


def _plan_file(path: Path) -> dict[str, Any]:
    """Read a plan file; a folder, a pipe, a device or a file without a key is none."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{str(path)!r}: is not a file; a plan is a TOML file")
    table = store.read_toml(path)
    if not table:
        raise BadInput(f"{str(path)!r}: is empty; a plan names at least one key, such as dataset or rounds")
    return table


def _folders(plans: list[Plan], out: Path | None) -> list[Path]:
    """Name the run folders: --out itself for one plan, a folder a method below it for several."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    if len(plans) > 1:
        top = out or Path("runs") / f"demo-{stamp}"
        return [top / plan.method.name for plan in plans]
    return [out or Path("runs") / f"{Path(plans[0].dataset).stem}-{plans[0].method.name}-{stamp}"]


def _carry_out(jobs: list[PlannedRun], request: RunRequest, origin: str = "") -> None:
    """Train, attack and report; the demonstration, and whoever asks for it, attacks each run afterwards.

    origin: where settings come from, said only once nothing was refused.
    """
    attack = len(jobs) > 1 if request.attack is None else request.attack
    folder = jobs[0].folder.parent if len(jobs) > 1 else jobs[0].folder
    with RunDisplay() as display:
        try:
            done = pipeline.run_all(jobs, attack=attack, keep_truth=request.keep_truth, progress=display)
        except KeyboardInterrupt:
            if display.rounds_done is None:
                raise
            typer.echo(
                f"gradveil: stopped after round {display.rounds_done}; continue with: gradveil run --resume --out "
                f"{folder}",
                err=True,
            )
            raise typer.Exit(130) from None
    if origin:
        say(origin)
    _show(done, attack, request.as_json)


def _show(done: RunOutcomes, attack: bool, as_json: bool) -> None:
    """Show what came out; the first run is the one that is reported."""
    if as_json:
        records = [outcome.result.plain() | {"report": str(outcome.page)} for outcome in done.each]
        if attack:
            records = [
                record | {"attacks": codec.record(outcome.attacks)}
                for record, outcome in zip(records, done.each, strict=True)
            ]
        return emit_json(records[0] | {"beside": records[1:]})
    if len(done.each) > 1 and done.page is not None:
        return run_story.show([outcome.run.folder for outcome in done.each], done.page)
    run_summary.show([outcome.run for outcome in done.each], [outcome.result for outcome in done.each])
    if attack:
        attack_output.compare(done.each[0].attacks)
    typer.echo(f"report: {done.page}")


def _dry_run(plan: Plan, data_dir: Path | None, options: Options, as_json: bool, origin: str) -> None:
    data = load(plan.dataset, data_dir=data_dir, **plan.loading)
    with doing("compiling and timing one round"):
        expected = estimate(plan, data, options)
    budget = Budget(plan, data, expected.copies)
    forecast = budget.all_guarantees(plan.rounds, expected_participations(plan))
    answer = {"plan": codec.encode(plan), "estimate": codec.encode(expected), "guarantees": codec.record(forecast)}
    if as_json:
        return emit_json(answer)
    if origin:
        say(origin)
    typer.echo(tomli_w.dumps(answer["plan"]))
    run_summary.show_estimate(expected)
    show_guarantees(f"Guarantees of {plan.method.name} after {plan.rounds} rounds", forecast)
