"""Records under version control: JSON lines by dataset, so that full-size results gather and anyone can show them."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import Any

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.reproduction.jobs import AttackJob, Job, TrainingJob, TuningJob
from gradveil.runs import store

DECIDING = (
    "accounting", "attacks", "data", "engines", "federation", "leakage", "models", "privacy", "runs",
    "keys.py", "methods.py", "normals.py", "surface.py", "tree.py",
)  # fmt: skip
"""The parts of the package that decide what a job gives."""
PACKAGE = Path(str(files("gradveil")))
KEPT_OF_VICTIMS = ("success", "rmse", "rmse_unclamped", "iterations", "gain")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedRecord:
    """One job that was run at full size, with what decided its result.

    key: name of the job, by everything that was set and the data's digest. about: the job in words. record: what the
    cells read. code_sha256: digest of the sources in DECIDING, by which a record of other code is known.
    """

    key: str
    about: str
    data_sha256: str
    code_sha256: str
    made: str
    versions: dict[str, str]
    record: dict[str, Any]


@dataclass(slots=True)
class CommittedRecords:
    """A folder with one file a dataset, NAME.jsonl, its lines sorted by key; read once."""

    folder: Path
    _read: dict[str, dict[str, CommittedRecord]] = field(default_factory=dict)

    def all(self, dataset: str) -> dict[str, CommittedRecord]:
        """Return the records of a dataset by key."""
        if dataset not in self._read:
            self._read[dataset] = {record.key: record for record in self._lines(self._path(dataset))}
        return self._read[dataset]

    def stored(self, dataset: str, key: str) -> dict[str, Any] | None:
        """Return what is recorded of a job, if anything."""
        entry = self.all(dataset).get(key)
        return None if entry is None else entry.record

    def data_digest(self, dataset: str) -> str | None:
        """Return the digest of the data of the records, by which their keys are found where the data is missing."""
        digests = {record.data_sha256 for record in self.all(dataset).values()}
        return digests.pop() if len(digests) == 1 else None

    def add(self, dataset: str, job: Job, key: str, data_sha256: str, stored: dict[str, Any]) -> None:
        """Add the record of a job to its file, which is rewritten whole or not at all."""
        self.all(dataset)[key] = CommittedRecord(
            key=key,
            about=about(job),
            data_sha256=data_sha256,
            code_sha256=code_digest(),
            made=date.today().isoformat(),
            versions=store.environment().packages,
            record=_small(job, stored),
        )
        records = sorted(self.all(dataset).values(), key=lambda record: (record.about, record.key))
        lines = [json.dumps(codec.record(record), allow_nan=False) for record in records]
        store.write(self._path(dataset), "".join(f"{line}\n" for line in lines).encode())

    def _path(self, dataset: str) -> Path:
        return self.folder / f"{dataset}.jsonl"

    def _lines(self, path: Path) -> list[CommittedRecord]:
        if not store.exists(path):
            return []
        lines = store.read(path).decode(errors="replace").splitlines()
        return [_decoded(path, number, line) for number, line in enumerate(lines, 1)]


def recorded_facts(committed: CommittedRecords, datasets: Iterable[str]) -> dict[str, str]:
    """Say how many records there are, of which code and versions, and when the newest was made."""
    records = [record for dataset in datasets for record in committed.all(dataset).values()]
    codes = Counter(record.code_sha256 for record in records)
    versions = sorted({f"{name} {number}" for record in records for name, number in record.versions.items()})
    return {
        "records": f"{len(records)} jobs, the newest of {max((r.made for r in records), default='never')}",
        "code": ", ".join(f"{digest} ({n} records)" for digest, n in codes.most_common()),
        "versions": ", ".join(versions),
    }


def _decoded(path: Path, number: int, line: str) -> CommittedRecord:
    try:
        record: CommittedRecord = codec.decode(CommittedRecord, store.parsed(line, "record"))
    except BadInput as error:
        rule = "delete this line, and its job is run again"
        raise BadInput(f"{str(path)!r}, line {number}: is no record ({error}); {rule}") from None
    return record


def about(job: Job) -> str:
    """Say in a few words which job a record is of; the key alone tells all of it."""
    match job:
        case TrainingJob(plan) | TuningJob(plan):
            size = f"N={plan.clients} K={plan.cohort} L={plan.local_steps} B={plan.batch} T={plan.rounds}"
            return f"{type(job).__name__} {plan.method.name} {size} rate={plan.learning_rate:g} seed={plan.seed}"
        case AttackJob(plan=plan):
            where = f"surface={job.surface} B={plan.batch} victims={job.victims}"
            return f"AttackJob {job.attack} {plan.method.name} {where} seed={job.seed}"
        case _:
            return type(job).__name__


def _small(job: Job, stored: dict[str, Any]) -> dict[str, Any]:
    """Leave out what no cell reads: of an attack all but each victim's figures, which of ten, and the verdict."""
    if not isinstance(job, AttackJob):
        return stored
    victims = [{name: victim[name] for name in KEPT_OF_VICTIMS} for victim in stored["per_victim"]]
    ten = [entry for entry in stored["candidates"] if entry["n"] == 10]
    return {"per_victim": victims, "candidates": ten, "verdict": stored.get("verdict")}


def code_digest(package: Path = PACKAGE) -> str:
    """Return the SHA-256 of the sources that decide results, 16 hexadecimal digits of it."""
    named = [package / part for part in DECIDING]
    sources = sorted(file for part in named for file in ([part] if part.suffix else part.rglob("*.py")))
    digest = hashlib.sha256()
    for file in sources:
        digest.update(f"{file.relative_to(package).as_posix()}\n".encode() + file.read_bytes())
    return digest.hexdigest()[:16]
