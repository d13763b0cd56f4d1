"""A run folder: how it is laid out, what it says of its data and its machine, and how its plan gets other rounds.

It holds plan.toml and plans.json, data.json (what was trained on, without a record), encoding.json (how new examples
are read), environment.json, metrics.jsonl (one line a round), checkpoints/ (latest.npz and the watched rounds),
params.npz and result.json.
"""

import hmac
import os
import platform
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import tomli_w

from gradveil import codec, own_code
from gradveil.__about__ import __version__
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput, quoted
from gradveil.federation.plan import Plan
from gradveil.runs.run_records import Earlier
from gradveil.runs.store import files
from gradveil.runs.store.checkpoint import CHECKPOINTS, inspect
from gradveil.runs.store.encoding import encoding_of, write_encoding
from gradveil.runs.store.folder_records import (
    DataRecord,
    EnvironmentRecord,
    SplitSizes,
    WatchedRounds,
    read_record,
    write_record,
)
from gradveil.runs.store.history import DATA, PLAN, plan_digest, read_data, write_earlier
from gradveil.runs.store.lock import locked
from gradveil.runs.store.result import RESULT

ENVIRONMENT, WATCH, DATA_KEY = "environment.json", "watch.json", ".data-key"


def create(
    folder: Path, plan: Plan, dataset: Dataset, watch: frozenset[int] = frozenset(), source: Dataset | None = None
) -> None:
    """Lay out a new run folder; nothing of it is left if that fails.

    dataset: as the model reads it. source: the same before any features, unless it is the same.
    """
    folder = Path(os.path.abspath(folder))
    with files.refusing(folder, "written"):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise BadInput(f"out = {str(folder)!r}: exists and is not a run folder; name a new one")
        partial = folder.with_name(f".{folder.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        try:
            _fill(partial, plan, dataset, watch, source or dataset)
            os.rename(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _fill(folder: Path, plan: Plan, dataset: Dataset, watch: frozenset[int], source: Dataset) -> None:
    (folder / CHECKPOINTS).mkdir(parents=True)
    key = os.urandom(32)
    if dataset.own:
        files.write(folder / DATA_KEY, key, owner_only=True)
    write_record(folder / ENVIRONMENT, environment())
    data = _describe(dataset, key, plan)
    write_record(folder / DATA, data)
    write_encoding(folder, encoding_of(source, data))
    write_record(folder / WATCH, WatchedRounds(tuple(sorted(watch))))
    _write_plan(folder, plan)


def _write_plan(folder: Path, plan: Plan) -> None:
    files.write(folder / PLAN, tomli_w.dumps(codec.encode(plan)).encode())


def _describe(dataset: Dataset, key: bytes, plan: Plan) -> DataRecord:
    """Return the record of the data, without anything private.

    Whoever knows all rows but one could try guesses against a plain digest, so of a user's own data it has a key that
    only the folder's owner can read.
    """
    splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    return DataRecord(
        name=dataset.name,
        own=dataset.own,
        sha256=None if dataset.own else dataset.digest(),
        keyed_digest=_keyed(dataset, key) if dataset.own else None,
        shape=dataset.shape,
        classes=dataset.classes,
        examples=SplitSizes(**{name: 0 if split is None else len(split) for name, split in splits.items()}),
        notes=tuple(dataset.notes),
        plan=plan_digest(plan),
    )


def _keyed(dataset: Dataset, key: bytes) -> str:
    return hmac.new(key, dataset.digest().encode(), "sha256").hexdigest()


def accept(folder: Path, plan: Plan, dataset: Dataset) -> None:
    """Accept a folder whose run has this plan and this data, or the plan with other rounds; refuse any other.

    Other rounds become the plan in force, if the run has not done more already.
    """
    table = files.read_toml(folder / PLAN)
    stored_plan = replace(plan, rounds=table["rounds"]) if isinstance(table.get("rounds"), int) else plan
    if table != codec.encode(stored_plan):
        raise BadInput(f"out = {str(folder)!r}: holds a run of another plan; name a new folder")
    _refuse_other_data(folder, dataset)
    inspect(folder, stored_plan)
    if stored_plan != plan:
        with locked(folder):
            _change_rounds(folder, stored_plan, plan)


def _refuse_other_data(folder: Path, dataset: Dataset) -> None:
    record = read_data(folder)
    recorded, actual = record.sha256, dataset.digest()
    if dataset.own:
        recorded, actual = record.keyed_digest, _keyed(dataset, files.read(folder / DATA_KEY))
    if recorded != actual:
        raise BadInput(f"out = {str(folder)!r}: its run was trained on other data named {dataset.name!r}")


def _change_rounds(folder: Path, stored_plan: Plan, plan: Plan) -> None:
    """Put a plan with other rounds in force; killed between the two writes, the folder still holds the old one."""
    history = inspect(folder, stored_plan)
    done = len(history.lines)
    if plan.rounds < done:
        raise BadInput(f"rounds = {plan.rounds}: must be at least {done}, the rounds that the run has done")
    last = history.lines[-1] if done else None
    reached = None if last is None else stored_plan.reached(last.stop_accuracy, last.stop_rmse)
    if reached is not None:
        name = reached.replace("-", "_")
        raise BadInput(f"rounds = {plan.rounds}: the run is over, since it reached {name} after {done} rounds")
    with files.refusing(folder, "written"):
        (folder / RESULT).unlink(missing_ok=True)  # it is about another number of rounds; a new one is made at the end
    earlier = history.earlier
    if not earlier or earlier[-1].until < done:
        write_earlier(folder, (*earlier, Earlier(done, stored_plan.rounds)))
    _write_plan(folder, plan)


def environment() -> EnvironmentRecord:
    """Tell what a result depends on besides the plan: versions and devices; nothing that names a person or host."""
    packages = ("jax", "jaxlib", "numpy", "scipy", "scikit-learn", "dp-accounting")
    return EnvironmentRecord(
        python=platform.python_version(),
        system=platform.system(),
        machine=platform.machine(),
        packages={"gradveil": __version__} | {name: version(name) for name in packages},
        devices=tuple(str(device) for device in jax.local_devices()),
        xla_flags=os.environ.get("XLA_FLAGS", ""),
    )


def add_watched(folder: Path, rounds: frozenset[int]) -> None:
    """Remember rounds whose checkpoints are to be kept, beside those remembered before."""
    before = watched(folder)
    if not rounds <= before:
        write_record(folder / WATCH, WatchedRounds(tuple(sorted(before | rounds))))


def watched(folder: Path) -> frozenset[int]:
    """Return the rounds whose checkpoints are to be kept."""
    path = folder / WATCH
    return frozenset(read_record(path, WatchedRounds).rounds) if files.exists(path) else frozenset()


def read_environment(folder: Path) -> EnvironmentRecord:
    """Read what a run was trained with."""
    return read_record(folder / ENVIRONMENT, EnvironmentRecord)


def read_plan(folder: Path) -> Plan:
    """Read the plan of a run folder; BadInput if it is none."""
    _refuse_without_plan(folder)
    return plan_from(folder / PLAN)


def _refuse_without_plan(folder: Path) -> None:
    if not files.exists(folder / PLAN):
        raise BadInput(f"{str(folder)!r}: is not a run folder")


def plan_from(path: Path) -> Plan:
    """Read a plan from a TOML file, strictly; parts of the user's own are imported by their names."""
    table = files.read_toml(path)
    with own_code.may_import():
        plan: Plan = codec.decode(Plan, table)
    return plan


def plan_with_model(folder: Path, model: Any) -> Plan:
    """Read the plan of a run folder whose model only its user can make; BadInput if it is not this one."""
    _refuse_without_plan(folder)
    table = files.read_toml(folder / PLAN)
    with own_code.may_import():
        plan = replace(codec.decode(Plan, {key: item for key, item in table.items() if key != "model"}), model=model)
    if codec.encode(plan)["model"] != table.get("model"):
        raise BadInput(
            f"model = {quoted(model)}: is not the model of the run in {str(folder)!r}, or its source changed"
        )
    return plan
