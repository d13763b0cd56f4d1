"""What `gradveil audit` does: find what is claimed, measure it, and show both."""

import importlib
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from gradveil import own_code
from gradveil.auditing.audit_record import AUDIT, AuditRecord, AuditRow
from gradveil.auditing.audits import LEVELS, Effort, audit
from gradveil.auditing.calls import Mechanism, described
from gradveil.auditing.junit import junit, sentence
from gradveil.auditing.outside import LEVELS as OUTSIDE_LEVELS
from gradveil.auditing.outside import Outside, audit_outside
from gradveil.auditing.subject import Subject, changed_data, over_nodes, subject_of
from gradveil.cli.loading import load
from gradveil.cli.output import bar, emit_json, say, table
from gradveil.deployment.journal import JOURNAL
from gradveil.errors import BadInput, RunFailed, quoted
from gradveil.federation.plan import delta_of
from gradveil.fields import whole
from gradveil.keys import LARGEST_SEED
from gradveil.methods import METHODS
from gradveil.names import pick
from gradveil.runs import store
from gradveil.runs.resolving import resolved
from gradveil.runs.shorthand import Tweaks


def of_target(
    target: str,
    level: str,
    confidence: float,
    releases: int | None,
    victims: int,
    seed: int,
    dataset: str | None,
    data_dir: Path | None,
) -> AuditRecord:
    """Audit a method, a plan or a run at some levels; the folder of a run keeps the record."""
    levels = _levels(level, LEVELS)
    whole("seed", seed, 0, LARGEST_SEED)
    effort = Effort(confidence=confidence, canaries=victims)
    if releases is not None:
        whole("releases", releases, 1000)
        effort = replace(effort, mechanism=replace(effort.mechanism, releases=releases))
    subject = _subject(target, dataset, data_dir)
    with bar(f"auditing {subject.name}", len(levels), 0) as advance:
        record = audit(subject, levels, seed, effort, lambda name: advance(name, 0))
    if _is_run(Path(target)) and target not in METHODS:
        store.write_record(Path(target) / AUDIT, record)
    return record


def _levels(names: str, known: Sequence[str]) -> list[str]:
    return [pick("level", name.strip(), {one: one for one in known}) for name in names.split(",")]


def _is_run(path: Path) -> bool:
    return store.exists(path / store.PLAN)


def _subject(target: str, dataset: str | None, data_dir: Path | None) -> Subject:
    path = Path(target)
    loaded = partial(load, data_dir=data_dir)
    if target in METHODS:
        (plan,) = resolved({}, {"method": target, "dataset": dataset or "digits"}, Tweaks(), loaded)
        return subject_of(plan, loaded(plan.dataset), target, named=True, neighbor=changed_data(plan))
    if dataset is not None:
        raise BadInput(f"dataset = {quoted(dataset)}: goes with a method; a plan and a run name their own data")
    if _is_run(path):
        plan = store.read_plan(path)
        history = store.inspect(path, plan)
        result = store.read_result(path, history.heads[-1])
        data = loaded(plan.dataset, **plan.loading)
        subject = subject_of(plan, data, path.name, result, neighbor=changed_data(plan))
        return over_nodes(subject, history.lines) if store.exists(path / JOURNAL) else subject
    if path.suffix == ".toml":
        with own_code.may_import():
            (plan, *_) = resolved(store.read_toml(path), {}, Tweaks(), loaded)
        data = loaded(plan.dataset, **plan.loading)
        return subject_of(plan, data, path.name, neighbor=changed_data(plan))
    pick("audit", target, METHODS)
    raise BadInput(f"{quoted(target)}: must be a method, a plan file that ends in .toml, or a run folder")


def of_mechanism(
    mechanism: str,
    level: str,
    epsilon: float | None,
    noise_multiplier: float | None,
    bound: float,
    units: int,
    dimension: int,
    delta: float,
    confidence: float,
    releases: int | None,
    seed: int,
) -> AuditRecord:
    """Audit a function of somebody's own."""
    levels = _levels(level, OUTSIDE_LEVELS)
    outside = Outside(
        name=mechanism,
        mechanism=_function(mechanism),
        delta=delta_of(delta),
        epsilon=epsilon,
        noise_multiplier=noise_multiplier,
        bound=bound,
        units=units,
        dimension=dimension,
        releases=4000 if releases is None else releases,
        confidence=Effort(confidence=confidence).confidence,
    )
    return audit_outside(outside, whole("seed", seed, 0, LARGEST_SEED // 2), levels)


def _function(name: str) -> Mechanism:
    """Import the function that the user names, from the folder of today or from what is installed."""
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise BadInput(f"mechanism = {quoted(name)}: must be MODULE:FUNCTION, such as package.module:release")
    sys.path.insert(0, str(Path.cwd()))
    try:
        candidate = getattr(importlib.import_module(module), attribute)
    except (Exception, SystemExit) as error:
        raise BadInput(f"mechanism = {quoted(name)}: cannot be imported, {described(error)}") from error
    if not callable(candidate):
        raise BadInput(f"mechanism = {quoted(name)}: is not a function")
    made: Mechanism = candidate
    return made


def show(record: AuditRecord, place: Path | None, as_json: bool) -> None:
    """Print the rows and the verdict, write JUnit XML if asked for; refuted is a failure."""
    if place is not None:
        store.write(place, junit(record))
    if as_json:
        emit_json(record.plain())
    else:
        _show_rows(record)
    if record.verdict == "refuted":
        refuted = [row for row in record.rows if row.verdict == "refuted"]
        worst = max(refuted, key=lambda row: row.lower_bound)
        raise RunFailed(f"{record.subject}: refuted against {worst.threat_model}, {sentence(worst)}")


def _show_rows(record: AuditRecord) -> None:
    """Print a table for each level, with what its rows rest on."""
    say(f"audit of {record.subject}: {record.verdict}")
    for level in dict.fromkeys(row.level for row in record.rows):
        rows = [row for row in record.rows if row.level == level]
        columns = ["adversary", "one", "claimed", "at least", "ceiling", "verdict"]
        heading = f"{level} (delta {rows[0].delta:g}, {rows[0].adjacency} neighbors)"
        table(heading, columns, [_cells(row, rows[0].delta) for row in rows])
        alarms = 1 - rows[0].confidence
        say(f"{level} refutes what is true with probability at most {alarms:.2g}; {rows[0].why}.")
    if any(row.paper_claims is not None for row in record.rows):
        say("* what the paper claims; no finite epsilon is guaranteed.")


def _cells(row: AuditRow, delta: float) -> list[str]:
    whom = row.threat_model if row.delta == delta else f"{row.threat_model}, {row.delta:g}"
    claimed = "none" if row.tested is None else f"{row.tested:.3g}" + ("*" if row.claimed is None else "")
    verdict = row.verdict if row.tested is not None else "no claim"
    return [whom, row.unit, claimed, f"{row.lower_bound:.3g}", f"{row.ceiling:.3g}", verdict]
