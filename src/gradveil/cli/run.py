"""`gradveil run`: train a plan from options, a TOML file or a checkpoint."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import tomli_w
import typer

from gradveil import codec
from gradveil.cli import attack_output, report, run_resume, run_summary
from gradveil.cli.choices import Tweaks, divided, method_named, rounds_from
from gradveil.cli.loading import load
from gradveil.cli.output import bar, emit_json
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
from gradveil.surface import Surface

Opt = typer.Option


def run(
    plan_file: Annotated[Path | None, typer.Argument(metavar="[PLAN.toml]", help="A plan; options change it.")] = None,
    dataset: Annotated[str | None, Opt(help="A name from `gradveil data list`, or a path to your own data.")] = None,
    target: Annotated[str | None, Opt(help="The column to predict, for a CSV file.")] = None,
    data_dir: Annotated[Path | None, Opt(help="Folder to look for datasets in first.")] = None,
    train_all: Annotated[bool, Opt("--train-all", help="MNIST: train on all 60,000 images.")] = False,
    method: Annotated[str | None, Opt(help="A name from `gradveil list methods`.")] = None,
    rounds: Annotated[int | None, Opt(help="T.")] = None,
    clients: Annotated[int | None, Opt(help="N, the clients there are.")] = None,
    cohort: Annotated[int | None, Opt(help="K, the clients of a round.")] = None,
    client_size: Annotated[int | None, Opt(help="Examples a client holds.")] = None,
    local_steps: Annotated[int | None, Opt(help="L.")] = None,
    batch: Annotated[int | None, Opt(help="B.")] = None,
    lr: Annotated[float | None, Opt(help="Learning rate of the clients.")] = None,
    clip: Annotated[str | None, Opt(help="C, or flat:C, or per-layer:C.")] = None,
    sigma: Annotated[float | None, Opt(help="Noise scale; the first one where it decays.")] = None,
    decay: Annotated[str | None, Opt(help="A name from `gradveil list decays`.")] = None,
    sigma_end: Annotated[float | None, Opt(help="Where the decay ends.")] = None,
    draw: Annotated[str | None, Opt(help="Noise for each unit, the sum, or the mean.")] = None,
    sensitivity: Annotated[str | None, Opt(help="clip-bound, l2-max, l2-max-of-mean, l2-max-as-coded.")] = None,
    sampling: Annotated[str | None, Opt(help="fixed-pass, poisson or replacement.")] = None,
    cohort_sampling: Annotated[str | None, Opt(help="fixed or poisson.")] = None,
    partition: Annotated[str | None, Opt(help="two-shards, iid or dirichlet:ALPHA.")] = None,
    noise_source: Annotated[str | None, Opt(help="seeded or secret.")] = None,
    seed: Annotated[int | None, Opt(help="Decides everything that is drawn, unless the noise is secret.")] = None,
    delta: Annotated[float | None, Opt(help="The delta of the guarantee.")] = None,
    max_epsilon: Annotated[float | None, Opt(help="Stop before a release that would exceed it.")] = None,
    accountant: Annotated[str | None, Opt(help="pld, or paper-moments (not a guarantee).")] = None,
    threat_model: Annotated[str | None, Opt(help="A name from `gradveil list threats`.")] = None,
    target_accuracy: Annotated[float | None, Opt(help="Stop when it is reached.")] = None,
    attack: Annotated[
        bool | None, Opt("--attack/--no-attack", help="Attack the run at all three surfaces afterwards.")
    ] = None,
    keep_truth: Annotated[
        bool,
        Opt("--keep-truth", help="Own data: keep true records beside what was recovered, for report --show-truth."),
    ] = False,
    watch: Annotated[str, Opt(help="Rounds whose checkpoints are kept, such as 0,1,10.")] = "",
    out: Annotated[Path | None, Opt(help="The run folder.")] = None,
    resume: Annotated[bool, Opt("--resume", help="Go on with the run in --out, or with --rounds train on.")] = False,
    dry_run: Annotated[bool, Opt("--dry-run", help="Show the plan and what it would take; train nothing.")] = False,
    engine: Annotated[str, Opt(help="vectorized or serial.")] = "vectorized",
    as_json: Annotated[bool, Opt("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Train a federated model under a protection.

    Without a plan, dataset or method: a demonstration on the digits of scikit-learn.
    """
    options = Options(engine=engine, watch=rounds_from(watch) | ({ROUND} if attack else set()), resume=resume)
    changes: dict[str, Any] = {
        "rounds": rounds, "clients": clients, "cohort": cohort, "client_size": client_size, "local_steps": local_steps,
        "batch": batch, "lr": lr, "clip": clip, "sigma": sigma, "decay": decay, "sigma_end": sigma_end, "draw": draw,
        "sensitivity": sensitivity, "sampling": sampling, "cohort_sampling": cohort_sampling, "partition": partition,
        "noise_source": noise_source, "seed": seed, "delta": delta, "target_accuracy": target_accuracy,
        "max_epsilon": max_epsilon, "accountant": accountant, "threat_model": threat_model,
        "train_all": train_all or None, "target": target, "dataset": dataset, "method": method,
    }  # fmt: skip
    settings = {name: value for name, value in changes.items() if value is not None}
    if resume:
        named = {f"--{name.replace('_', '-')}": value for name, value in settings.items() if name != "rounds"}
        run_resume.refuse_beside({"PLAN.toml": plan_file, **named, "--dry-run": dry_run})
        folders = run_resume.folders_of(out)
        attacked = len(folders) > 1 if attack is None else attack
        taken_up = [
            run_resume.taken_up(f, data_dir, options, rounds, rounds_from(watch), attack is True) for f in folders
        ]
        return _finish(taken_up, as_json, attacked, keep_truth)
    given, tweaks = divided(settings)
    plans = plans_from(plan_file, given, tweaks, data_dir)
    run_resume.refuse_unreached(options.watch, plans[0])
    if dry_run:
        return _dry_run(plans[0], data_dir, options, as_json)
    folders = _folders(plans, out)
    runs = [_prepared(p, f, data_dir, options) for p, f in zip(plans, folders, strict=True)]
    _finish(runs, as_json, len(plans) > 1 if attack is None else attack, keep_truth)


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
    return runner.prepare(plan, data, folder, options)


def _finish(runs: list[Run], as_json: bool, attack: bool, keep_truth: bool) -> None:
    """Train what is left of each run and show what came out; the first run is the one that is reported.

    The demonstration, and whoever asks for it, attacks each run afterwards.
    """
    place = runs[0].folder.parent if len(runs) > 1 else runs[0].folder
    results = [_train(one, place) for one in runs]
    found = [_attack(one, keep_truth) for one in runs] if attack else []
    pages = _report([one.folder for one in runs])
    if as_json:
        told = [r.plain() | {"report": str(page)} for r, page in zip(results, pages, strict=False)]
        if attack:
            told = [r | {"attacks": [one.plain() for one in f]} for r, f in zip(told, found, strict=True)]
        return emit_json(told[0] | {"beside": told[1:]})
    run_summary.show(runs, results)
    if attack:
        attack_output.compare([record for records in found for record in records])
    typer.echo(f"report: {pages[-1]}")


def _report(folders: list[Path]) -> list[Path]:
    """Write the page of every run, and for several one that compares them."""
    pages = [report.write([folder], folder / report.REPORT) for folder in folders]
    return pages + ([report.write(folders, folders[0].parent / report.REPORT)] if len(folders) > 1 else [])


def _attack(one: Run, keep_truth: bool) -> list[AttackRecord]:
    """Attack a finished run at all surfaces; the records go into its folder."""
    with bar(f"attack on {one.plan.method.name}", len(Surface) * VICTIMS, 0) as advance:
        records = []
        for scene, outcome in attack_run(one.folder, one.plan, one.dataset, lambda victim: advance("")):
            attack_output.save(outcome, scene, one.folder / "attacks", keep_truth)
            records.append(outcome.record)
    return records


def _train(one: Run, place: Path) -> RunResult:
    """Train what is left of a run; `place` is what --resume is to be given after an interrupt."""
    with bar(one.plan.method.name, one.plan.rounds, one.state.round) as advance:
        try:
            for line in runner.proceed(one):
                advance(run_summary.note(line))
        except KeyboardInterrupt:
            typer.echo(
                f"gradveil: stopped after round {one.state.round}; go on with: gradveil run --resume --out {place}",
                err=True,
            )
            raise typer.Exit(130) from None
    return runner.conclude(one)


def _dry_run(plan: Plan, data_dir: Path | None, options: Options, as_json: bool) -> None:
    data = load(plan.dataset, data_dir=data_dir, target=plan.target, train_all=plan.train_all)
    expected = estimate(plan, data, options)
    budget = Budget(plan, data, expected.copies)
    forecast = budget.all_guarantees(plan.rounds, expected_participations(plan))
    answer = {
        "plan": codec.encode(plan),
        "estimate": codec.encode(expected),
        "guarantees": [held.plain() for held in forecast],
    }
    if as_json:
        return emit_json(answer)
    typer.echo(tomli_w.dumps(answer["plan"]))
    run_summary.show_estimate(expected)
    run_summary.show_guarantees(f"{plan.method.name}, after all {plan.rounds} rounds", forecast)
