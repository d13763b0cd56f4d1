"""What `gradveil run` does: train a plan from options, a TOML file or a checkpoint, attack it and report."""

from datetime import datetime
from pathlib import Path
from typing import Any

import tomli_w
import typer

from gradveil import codec
from gradveil.cli import attack_output, report_steps, run_progress, run_resume, run_story, run_summary
from gradveil.cli.guarantee_output import show_guarantees
from gradveil.cli.loading import load
from gradveil.cli.output import bar, doing, emit_json
from gradveil.cli.round_numbers import rounds_from
from gradveil.cli.run_request import RunRequest
from gradveil.data.dataset import Dataset
from gradveil.data.sources import locate
from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.fields import settle_given
from gradveil.leakage.attack_record import AttackRecord
from gradveil.leakage.self_attack import ROUND, VICTIMS, attack_run
from gradveil.privacy.method import Method
from gradveil.runs import demo, runner, store
from gradveil.runs.budget import Budget, expected_participations
from gradveil.runs.estimate import estimate
from gradveil.runs.presets import chosen, resolve
from gradveil.runs.run_records import RunResult
from gradveil.runs.runner import Options, Run
from gradveil.runs.shorthand import Tweaks, divided, method_named
from gradveil.surface import Surface


def execute(request: RunRequest) -> None:
    """Train a plan from its first round, resume a run, or say what a plan would take."""
    watch = rounds_from(request.watch)
    options = Options(
        engine=request.engine, watch=watch | ({ROUND} if request.attack else set()), resume=request.resume
    )
    if request.resume:
        return _resume(request, options, watch)
    given, tweaks = divided(request.settings)
    plans = plans_from(request.plan_file, given, tweaks, request.data_dir)
    run_resume.refuse_unreached(options.watch, plans[0])
    if request.dry_run:
        return _dry_run(plans[0], request.data_dir, options, request.as_json)
    folders = _folders(plans, request.out)
    runs = [_prepared(p, f, request.data_dir, options) for p, f in zip(plans, folders, strict=True)]
    _finish(runs, request.as_json, len(plans) > 1 if request.attack is None else request.attack, request.keep_truth)


def _resume(request: RunRequest, options: Options, watch: frozenset[int]) -> None:
    named = {f"--{name.replace('_', '-')}": value for name, value in request.settings.items() if name != "rounds"}
    run_resume.refuse_beside({"PLAN.toml": request.plan_file, **named, "--dry-run": request.dry_run})
    folders = run_resume.folders_of(request.out)
    attacked = len(folders) > 1 if request.attack is None else request.attack
    rounds = request.settings.get("rounds")
    runs = [run_resume.taken_up(f, request.data_dir, options, rounds, watch, request.attack is True) for f in folders]
    _finish(runs, request.as_json, attacked, request.keep_truth)


def plans_from(path: Path | None, given: dict[str, Any], tweaks: Tweaks, data_dir: Path | None) -> list[Plan]:
    """Resolve the plan, or the three plans of the demonstration if nothing says what to train."""
    from_file = _plan_file(path) if path is not None else {}
    shown = path is None and not {"dataset", "method"} & given.keys()
    name = locate(given.pop("dataset", from_file.pop("dataset", "digits")))
    method = given.pop("method", from_file.pop("method", "fed-cdp"))
    changes = codec.decode_given(Plan, from_file) | settle_given(Plan, given)
    loading = {key: changes[key] for key in ("target", "train_all") if key in changes}
    data = load(name, data_dir=data_dir, **loading)
    if not shown:
        return [resolve(name, data, tweaks.of(_method(method, data)), changes)]
    trio = [chosen(m, data) for m in demo.METHODS]
    return [resolve(name, data, m if m.noise.silent else tweaks.of(m), changes) for m in trio]


def _method(named: Any, data: Dataset) -> Method:
    """Read a method from its name, fitted to the dataset, or from the table of a plan file, as it stands there."""
    if isinstance(named, str):
        return chosen(method_named(named), data)
    method: Method = codec.decode(Method, named, "method")
    return method


def _plan_file(path: Path) -> dict[str, Any]:
    """Read a plan file; a folder, a pipe, a device or a file without a key is none."""
    if path.exists() and not path.is_file():
        raise BadInput(f"{str(path)!r}: is not a file; a plan is a TOML file")
    found = store.read_toml(path)
    if not found:
        raise BadInput(f"{str(path)!r}: is empty; a plan names at least one key, such as dataset or rounds")
    return found


def _folders(plans: list[Plan], out: Path | None) -> list[Path]:
    """Name the run folders: --out itself for one plan, a folder a method below it for several."""
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    if len(plans) > 1:
        top = out or Path("runs") / f"demo-{stamp}"
        return [top / plan.method.name for plan in plans]
    return [out or Path("runs") / f"{Path(plans[0].dataset).stem}-{plans[0].method.name}-{stamp}"]


def _prepared(plan: Plan, folder: Path, data_dir: Path | None, options: Options) -> Run:
    data = load(plan.dataset, data_dir=data_dir, target=plan.target, train_all=plan.train_all)
    with doing(f"preparing {plan.method.name}"):
        return runner.prepare(plan, data, folder, options)


def _finish(runs: list[Run], as_json: bool, attack: bool, keep_truth: bool) -> None:
    """Train what is left of each run and show what came out; the first run is the one that is reported.

    The demonstration, and whoever asks for it, attacks each run afterwards.
    """
    place = runs[0].folder.parent if len(runs) > 1 else runs[0].folder
    results = [_train(one, place) for one in runs]
    found = [_attack(one, keep_truth) for one in runs] if attack else []
    with doing("writing the report"):
        pages = _report([one.folder for one in runs])
    if as_json:
        told = [r.plain() | {"report": str(page)} for r, page in zip(results, pages, strict=False)]
        if attack:
            told = [r | {"attacks": codec.record(f)} for r, f in zip(told, found, strict=True)]
        return emit_json(told[0] | {"beside": told[1:]})
    if len(runs) > 1:
        return run_story.show([one.folder for one in runs], pages[-1])
    run_summary.show(runs, results)
    if attack:
        attack_output.compare(found[0])
    typer.echo(f"report: {pages[-1]}")


def _report(folders: list[Path]) -> list[Path]:
    """Write the page of every run, and for several one that compares them."""
    pages = [report_steps.write([folder], folder / report_steps.REPORT) for folder in folders]
    return pages + ([report_steps.write(folders, folders[0].parent / report_steps.REPORT)] if len(folders) > 1 else [])


def _attack(one: Run, keep_truth: bool) -> list[AttackRecord]:
    """Attack a finished run at all surfaces; the records go into its folder."""
    with bar(f"attacking {one.plan.method.name}", len(Surface) * VICTIMS, 0) as advance:
        advance("compiling", 0)
        records = []
        for scene, outcome in attack_run(one.folder, one.plan, one.dataset, lambda victim: advance("")):
            attack_output.save(outcome, scene, one.folder / "attacks", keep_truth)
            records.append(outcome.record)
    return records


def _train(one: Run, place: Path) -> RunResult:
    """Train what is left of a run; `place` is what --resume is to be given after an interrupt."""
    with run_progress.training(one.plan.method.name, one.plan.rounds, one.state.round) as tell:
        try:
            for line in runner.proceed(one):
                tell(line)
        except KeyboardInterrupt:
            typer.echo(
                f"gradveil: stopped after round {one.state.round}; continue with: gradveil run --resume --out {place}",
                err=True,
            )
            raise typer.Exit(130) from None
    return runner.conclude(one)


def _dry_run(plan: Plan, data_dir: Path | None, options: Options, as_json: bool) -> None:
    data = load(plan.dataset, data_dir=data_dir, target=plan.target, train_all=plan.train_all)
    with doing("compiling and timing one round"):
        expected = estimate(plan, data, options)
    budget = Budget(plan, data, expected.copies)
    forecast = budget.all_guarantees(plan.rounds, expected_participations(plan))
    answer = {"plan": codec.encode(plan), "estimate": codec.encode(expected), "guarantees": codec.record(forecast)}
    if as_json:
        return emit_json(answer)
    typer.echo(tomli_w.dumps(answer["plan"]))
    run_summary.show_estimate(expected)
    show_guarantees(f"Guarantees of {plan.method.name} after {plan.rounds} rounds", forecast)
