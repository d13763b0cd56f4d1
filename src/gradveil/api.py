"""The package as a library: load data, make a plan, train it, attack it, report it, use the model."""

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from gradveil import codec, own_code, pipeline
from gradveil.attacks.attack import Attack, mountable
from gradveil.attacks.score import RULES
from gradveil.attacks.zoo import ATTACKS, INFERENCES
from gradveil.auditing import audits
from gradveil.auditing.audit_record import AuditRecord
from gradveil.auditing.audits import LEVELS, USUAL, Effort
from gradveil.auditing.subject import Subject, changed_data, over_nodes, subject_of
from gradveil.calibration.plan_noise import meet
from gradveil.calibration.tuned_file import TRIALS, Search, tune_into_file
from gradveil.calibration.tuning_data import PRIVATE, SYNTHETIC
from gradveil.data.dataset import Dataset
from gradveil.deployment.journal import JOURNAL
from gradveil.errors import BadInput, machine_errors, quoted
from gradveil.federation.leaks import Tap
from gradveil.federation.plan import Plan
from gradveil.federation.plan_data import data_for
from gradveil.fields import choose, scalar, whole
from gradveil.inference.round_events import round_events
from gradveil.inference.trained import Trained, in_temporary_folder, read_trained, trained_of
from gradveil.keys import LARGEST_SEED
from gradveil.leakage import attack_run, scenes
from gradveil.leakage.attack_record import AttackRecord
from gradveil.methods import METHODS
from gradveil.models.adapters import adapted
from gradveil.models.networks import Model
from gradveil.names import pick
from gradveil.privacy.method import Method
from gradveil.reports import evidence
from gradveil.runs import store
from gradveil.runs.given_data import load_named, located, path_of
from gradveil.runs.presets import chosen, resolve
from gradveil.runs.run_records import RoundLine, RunResult
from gradveil.runs.runner import Options
from gradveil.runs.shorthand import divided, method_named, refuse_unknown
from gradveil.surface import Surface


@machine_errors()
def dataset(name: str | Path, **options: Any) -> Dataset:
    """Load a dataset by name or path; options as `gradveil.data.sources.load`."""
    return load_named(name, options)


@machine_errors()
def plan(
    name: str | Path | Dataset,
    method: Method | str = "fed-cdp",
    *,
    target_epsilon: float | None = None,
    **changes: Any,
) -> Plan:
    """Make a plan for a dataset (a name, a path, or data in memory): its preset, with your changes to fields of Plan.

    The short names of the command line are understood too: lr, clip, sigma, decay, sigma_end, draw, sensitivity.
    target_epsilon: scales all noise so that the plan spends at most that, against its `threat_model`.

    >>> plan("digits", "non-private", rounds=3).rounds
    3
    >>> plan("digits", sigma=2, clip="flat:0.5").method.clip
    Flat(c=0.5)
    """
    target = None if target_epsilon is None else scalar(float, target_epsilon, "target_epsilon")
    made, data = _started(name, method, target, changes)
    return made if target is None else meet(made, data, target)


def _started(
    name: str | Path | Dataset, method: Method | str, target: float | None, changes: dict[str, Any]
) -> tuple[Plan, Dataset]:
    """Return the preset's plan with the user's changes, its noise not yet scaled to a target, and its data."""
    if not isinstance(method, Method | str):
        raise BadInput(f"method = {quoted(method)}: a name or a Method is expected")
    refuse_unknown(changes)
    with own_code.may_import():
        given, tweaks = divided(changes)
    location, data, given = located(name, given)
    started = method_named(method) if isinstance(method, str) else method
    with own_code.may_import():
        protection = tweaks.of(chosen(started, data, given, target))
    return resolve(location, data, protection, given, target), data


@machine_errors()
def tune(
    name: str | Path,
    method: Method | str = "fed-sum",
    *,
    target_epsilon: float = 1.0,
    on: str = SYNTHETIC,
    trials: int = TRIALS,
    out: str | Path | None = None,
    **changes: Any,
) -> Plan:
    """Try settings as `gradveil tune` does and return the plan with the best; `tuned.found` says where it is from.

    on: `synthetic`, `public:NAME`, or `private`, which every epsilon of the plan then counts. out: the plan file to
    write, with the trials beside it: the same call goes on after a kill. It is needed for trials on private records,
    which must not be drawn twice. changes: to any field of Plan, as for `plan`.
    """
    if out is None and on == PRIVATE:
        raise BadInput("out: trials on private records are kept in a file, so that none is drawn twice; name one")
    target = scalar(float, target_epsilon, "target_epsilon")
    made, data = _started(name, method, target, changes)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tuned.toml" if out is None else path_of("out", out)
        search = Search(out=file, load=dataset, on=scalar(str, on, "on"), trials=trials, target_epsilon=target)
        return tune_into_file(made, data, search).plan


@machine_errors()
def train(
    plan: Plan,
    out: str | Path | None = None,
    resume: bool = False,
    engine: str = "vectorized",
    *,
    data: Dataset | None = None,
    attack: bool = False,
    report: bool = False,
    on_round: Callable[[RoundLine], None] | None = None,
    progress: bool = False,
) -> Trained:
    """Train a plan in a run folder (a temporary one by default) and return the model.

    data: what the plan was made for, where it is in memory; otherwise it is loaded by its name.

    resume: continue the run in the folder; only `rounds` may differ in the plan.
    engine: `vectorized`, or `serial`, the slow reference. attack: attack the run at all three surfaces afterwards.
    report: write report.html and the privacy card into the folder. on_round: called with the line of metrics of every
    round when it is on disk; what it raises ends the run, which can be resumed. progress: show a bar, in notebooks too.
    """
    if not isinstance(plan, Plan):
        raise BadInput(f"plan = {quoted(plan)}: a Plan is expected, such as gradveil.plan returns")
    if report and out is None:
        raise BadInput("report: name the folder that the page goes to, with out")
    if data is not None:
        _data_of(plan, data)
    if on_round is not None and not callable(on_round):
        raise BadInput(f"on_round = {quoted(on_round)}: a function of a round's line is expected")
    options, kept = Options(resume=resume, engine=engine), None if out is None else path_of("out", out)

    def carry_out(folder: Path) -> Trained:
        plan_data = _data_of(plan, data)
        return trained_of(pipeline.run(plan, plan_data, folder, options, attack=attack, report=report, progress=events))

    with round_events(plan.rounds, on_round, progress) as events:
        return carry_out(kept) if kept is not None else in_temporary_folder(carry_out)


@machine_errors()
def report(*runs: str | Path, out: str | Path | None = None, show_truth: bool = False) -> Path:
    """Write one page about run folders, side by side if there are several, and the privacy card of each.

    out: the page; report.html in the run folder, or for several here, unless given. show_truth: show true records of
    your own data, if the attacks kept them. Gives the path of the page.
    """
    if not runs:
        raise BadInput("runs: name at least one run folder")
    folders = [folder for run in runs for folder in evidence.folders_in(path_of("runs", run))]
    usual = (path_of("runs", runs[0]) if len(runs) == 1 else Path()) / pipeline.REPORT
    return pipeline.report(folders, usual if out is None else path_of("out", out), show_truth)


@machine_errors()
def attack(
    target: Plan | str | Path,
    surface: Surface | int = Surface.EXAMPLE,
    attack: Attack | str = "cpl",
    victims: int | None = None,
    *,
    view: str = "released",
    rounds: tuple[int, ...] | None = None,
    readings: int = 1,
    rule: str = "default",
    seed: int = 0,
    data: Dataset | None = None,
) -> AttackRecord:
    """Attack a run folder (what was trained, after some rounds), or a plan as it stands with its network untrained.

    victims: how many clients, ten unless given, or all where there are fewer. `plain()` of the record is what
    `gradveil attack --json` prints. A plan in the paper's setting comes from `gradveil.leakage.scenes.as_paper`; an
    attack is a name or a value of `gradveil.attacks.zoo`. data: what was trained on, where it is in memory.
    """
    pick("rule", rule, RULES)
    mounted = _mounted(attack)
    whole("seed", seed, 0, LARGEST_SEED)
    plan = target if isinstance(target, Plan) else store.read_plan(path_of("target", target))
    plan_data = _data_of(plan, data, None if isinstance(target, Plan) else path_of("target", target))
    tap = Tap.at(plan, choose(Surface, surface, "surface"), view)
    if isinstance(target, Plan):
        scene = scenes.fresh(plan, plan_data, tap, whole("readings", readings, most=scenes.MOST_READINGS))
    else:
        scene = scenes.of_run(path_of("target", target), plan, plan_data, tap, scenes.round_numbers(rounds))
    return attack_run.attack(scene, mounted, scenes.counted(scene, victims), rule, seed).record


@machine_errors()
def audit(
    target: Plan | Method | str | Path,
    levels: tuple[str, ...] = USUAL,
    *,
    confidence: float = 0.95,
    releases: int | None = None,
    victims: int = 400,
    seed: int = 0,
    data: Dataset | None = None,
) -> AuditRecord:
    """Measure a lower bound on every epsilon that is claimed of a method (on digits), a plan or a run folder.

    levels: `replay`, `mechanism`, `one-run`, `black-box`. releases: rounds of a client that the second simulates.
    victims: canaries of the last two. data: what a plan or run is for, where it is in memory. The verdict of the record
    is refuted, consistent or no-power; `plain()` is what `gradveil audit --json` prints.
    """
    for level in levels:
        pick("levels", level, {name: name for name in LEVELS})
    whole("seed", seed, 0, LARGEST_SEED)
    effort = Effort(confidence=scalar(float, confidence, "confidence"), canaries=victims)
    if releases is not None:
        effort = replace(effort, mechanism=replace(effort.mechanism, releases=whole("releases", releases, 1000)))
    return audits.audit(_subject(target, data), levels, seed, effort)


def _subject(target: Plan | Method | str | Path, data: Dataset | None) -> Subject:
    if isinstance(target, Plan):
        return _claimed(target, _data_of(target, data), target.method.name)
    if isinstance(target, Method) or (isinstance(target, str) and target in METHODS):
        made = plan("digits" if data is None else data, target)
        return _claimed(made, _data_of(made, data), made.method.name, named=True)
    folder = path_of("target", target)
    made = store.read_plan(folder)
    history = store.inspect(folder, made)
    result = store.read_result(folder, history.heads[-1])
    claimed = _claimed(made, _data_of(made, data, folder), folder.name, result)
    return over_nodes(claimed, history.lines) if store.exists(folder / JOURNAL) else claimed


def _data_of(plan: Plan, data: Dataset | None, folder: Path | None = None) -> Dataset:
    """Return the data of a plan: those given, which must be the ones that it names and a run was trained on, or loaded.

    folder: of the run, if there is one.
    """
    if data is None:
        return pipeline.loaded(plan)
    if not isinstance(data, Dataset) or data.name != plan.dataset:
        raise BadInput(f"data = {quoted(data)}: the plan is for {plan.dataset!r}")
    if folder is not None:
        store.accept(folder, plan, data_for(plan, data))
    return data


def _mounted(attack: object) -> Attack:
    """Return the attack of a name, of `package.module:Name`, or the value itself."""
    if own_code.is_name(attack):
        with own_code.may_import():
            return mountable(codec.own_part(str(attack), "attack", {}))
    if isinstance(attack, str):
        named: Attack = pick("attack", attack, ATTACKS | INFERENCES).value
        return named
    return mountable(attack)


@machine_errors()
def model(value: Any) -> Model:
    """Return what a user has as a model of ours, for `plan(..., model=...)`, which does so itself.

    value: a module of flax.linen; a module or class of equinox or torch; a function that makes one; or a pair
    (init, apply) with init(key, shape, classes) -> params and apply(params, x) -> logits of one example. A layer that
    keeps state, such as batch norm, is refused when training starts, by its name.
    """
    made = adapted(value)
    if isinstance(made, type) or not all(callable(getattr(made, name, None)) for name in ("init", "apply")):
        raise BadInput(
            f"model = {quoted(value)}: must be a module of flax.linen, equinox or torch, (init, apply), or a value "
            "with these two"
        )
    return cast(Model, made)


def _claimed(made: Plan, data: Dataset, name: str, result: RunResult | None = None, named: bool = False) -> Subject:
    return subject_of(made, data, name, result, named, changed_data(made))


@machine_errors()
def load(folder: str | Path, model: Any = None) -> Trained:
    """Return the model of a finished run; BadInput if its parameters are not those of its result.

    model: the network itself, for a run whose folder cannot name it, as one that was made in a notebook.
    """
    return read_trained(path_of("folder", folder), model)
