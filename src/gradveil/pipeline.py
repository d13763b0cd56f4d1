"""Train, attack, report: the one way from a plan to a page, for the command line, the library and the live page."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gradveil.data import in_files, sources
from gradveil.data.dataset import Dataset
from gradveil.engines.cache import drop_programs_if_many, resident
from gradveil.errors import BadInput
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.leakage import scenes, self_attack
from gradveil.leakage.attack_record import AttackRecord
from gradveil.reports import attack_files, card, evidence
from gradveil.reports.page import page
from gradveil.runs import recording, runner, store
from gradveil.runs.progress import (
    Accounting,
    Attacking,
    Extracting,
    Loading,
    Preparing,
    Progress,
    Reporting,
    RoundDone,
    Training,
    silent,
)
from gradveil.runs.run_records import RunResult
from gradveil.runs.runner import Options, Run
from gradveil.surface import Surface

MOST_BYTES, ROOM = 1 << 30, 1 << 28
"""Memory beyond which the programs of an attack that is over are dropped, since the next surface needs others. A
process that holds nearly as much when the attacks begin may grow by ROOM: else it would drop them every time."""
REPORT, ATTACKS, FEDERATION = "report.html", "attacks", "federation.json"


@dataclass(frozen=True, slots=True, eq=False)
class PlannedRun:
    """A plan, its data, the folder that its run goes to, and how it is carried out."""

    plan: Plan
    dataset: Dataset
    folder: Path
    options: Options = field(default_factory=Options)


@dataclass(frozen=True, slots=True, eq=False)
class RunOutcome:
    """What came of one planned run: the run that is over, its result, its attacks and its page, as far as asked for."""

    run: Run
    result: RunResult
    attacks: tuple[AttackRecord, ...]
    page: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class RunOutcomes:
    """What came of all planned runs, and the page of them all."""

    each: tuple[RunOutcome, ...]
    page: Path | None


def run(
    plan: Plan,
    dataset: Dataset,
    folder: Path,
    options: Options,
    *,
    attack: bool = False,
    report: bool = True,
    keep_truth: bool = False,
    progress: Progress = silent,
) -> RunOutcome:
    """Train a plan or resume it, then attack what was trained and write its page, as asked for."""
    planned_run = PlannedRun(plan, dataset, folder, options)
    return run_all([planned_run], attack=attack, report=report, keep_truth=keep_truth, progress=progress).each[0]


def run_all(
    planned: Sequence[PlannedRun],
    *,
    attack: bool = False,
    report: bool = True,
    keep_truth: bool = False,
    progress: Progress = silent,
) -> RunOutcomes:
    """Carry out several planned runs, all prepared before the first is trained, so that a refusal comes at once.

    attack: at all three surfaces; the records go into the run folders. keep_truth: of a user's own data, keep true
    records beside what was recovered. report: a page for each run, and for several one that compares them.
    """
    runs = [_prepared(planned_run, attack, progress) for planned_run in planned]
    results = [_trained(one, progress) for one in runs]
    attacks = [_attacked(one, keep_truth, progress) if attack else () for one in runs]
    pages = _reported([one.folder for one in runs], progress) if report else [None] * len(runs)
    each = zip(runs, results, attacks, pages, strict=False)  # the last page of several is that of them all
    return RunOutcomes(tuple(RunOutcome(*parts) for parts in each), pages[-1])


def _prepared(planned_run: PlannedRun, attack: bool, progress: Progress) -> Run:
    if attack:
        scenes.refuse_numbers(planned_run.dataset)
    if planned_run.plan.test is not None:
        in_files.refuse_trained_on("test", planned_run.plan.dataset, planned_run.plan.test)
    progress(Preparing(planned_run.plan.method.name))
    watch = planned_run.options.watch | ({self_attack.attacked_round(planned_run.plan)} if attack else set())
    return runner.prepare(
        planned_run.plan,
        planned_run.dataset,
        planned_run.folder,
        replace(planned_run.options, watch=watch),
        lambda share: progress(Extracting(planned_run.plan.dataset, share)),
    )


def _trained(one: Run, progress: Progress) -> RunResult:
    progress(Training(one.plan.method.name, one.plan.rounds, one.state.round))
    for line in runner.proceed(one):
        progress(RoundDone(line))
    progress(Accounting(one.plan.method.name))
    return runner.conclude(one)


def _attacked(one: Run, keep_truth: bool, progress: Progress) -> tuple[AttackRecord, ...]:
    most_bytes, records = max(MOST_BYTES, resident() + ROOM), []
    for surface in Surface:
        records.append(_attacked_at(one, surface, keep_truth, progress))
        drop_programs_if_many(most_bytes=most_bytes)
    return tuple(records)


def _attacked_at(one: Run, surface: Surface, keep_truth: bool, progress: Progress) -> AttackRecord:
    def tell(done: int) -> None:
        progress(Attacking(one.plan.method.name, surface, done))

    tell(0)
    count = itertools.count(1)
    scene, outcome = self_attack.attack_surface(
        one.folder, one.plan, one.dataset, surface, lambda victim: tell(next(count))
    )
    attack_files.save(outcome, scene, one.folder / ATTACKS, keep_truth)
    return outcome.record


def _reported(folders: Sequence[Path], progress: Progress) -> list[Path | None]:
    progress(Reporting())
    pages = [report([folder], folder / REPORT) for folder in folders]
    return [*pages, *([report(folders, folders[0].parent / REPORT)] if len(folders) > 1 else [])]


def report(folders: Sequence[Path], place: Path, show_truth: bool = False) -> Path:
    """Write the page of some runs, and the privacy card of each."""
    gathered = [evidence.gather(folder) for folder in folders]
    if place.is_dir():
        raise BadInput(f"out = {str(place)!r}: is a folder; name a file such as report.html")
    for one in gathered:
        if show_truth and one.own and not any(item.exhibit for item in one.attacks):
            raise BadInput(f"show_truth: {str(one.folder)!r} holds no true record; attack it with --keep-truth first")
        card.write(one)
    hidden = any(one.own for one in gathered) and show_truth
    store.write(place, page(gathered, show_truth).encode(), owner_only=hidden)
    return place


def resumed(
    folder: Path,
    options: Options,
    *,
    rounds: int | None = None,
    attack: bool = False,
    load: Callable[[Plan], Dataset],
) -> PlannedRun:
    """Take up the run of a folder, with another number of rounds if one is given.

    options.watch: rounds that the user names, of which those that are past must have been kept. attack: whether the
    run is to be attacked at its end, which must be possible.
    """
    if store.exists(folder / FEDERATION):
        raise BadInput(f"out = {str(folder)!r}: is run by nodes; continue it with `gradveil federate server --resume`")
    plan = store.read_plan(folder)
    wanted = plan if rounds is None else replace(plan, rounds=rounds)
    refuse_unreached(options.watch, wanted)
    done = len(store.inspect(folder, plan).lines)
    missed = sorted(t for t in options.watch if t < done and not store.exists(store.watched_path(folder, t)))
    if missed:
        raise BadInput(f"watch = {missed[0]}: the run has done {done} rounds and kept no checkpoint of that one")
    if attack and plan.noise_source is NoiseSource.SECRET and done and not recording.recorded_rounds(folder):
        raise BadInput("--attack: the noise of this run is secret and its first round was not recorded")
    return PlannedRun(wanted, load(plan), folder, replace(options, resume=True))


def refuse_unreached(watch: frozenset[int], plan: Plan) -> None:
    """Refuse to keep the checkpoint of a round that the plan does not reach."""
    last = max(watch, default=0)
    if last > plan.rounds:
        raise BadInput(f"watch = {last}: must be at most rounds = {plan.rounds}")


def loaded(plan: Plan, progress: Progress = silent) -> Dataset:
    """Load the data of a plan."""
    progress(Loading(plan.dataset))
    return sources.load(plan.dataset, **plan.loading)
