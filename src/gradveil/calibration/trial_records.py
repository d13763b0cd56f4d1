"""The file of a tuning: which settings were drawn, and the score of every trial that is done.

It is rewritten whole after each trial, so that a tuning that was killed goes on where it stood: trials on private
records are never drawn again. Only its owner may read it, since no guarantee covers the scores of trials that lost.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.runs import store


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRecord:
    """One trial: which candidate, its settings and the digest of its plan, its score (noised on private records)."""

    candidate: int
    settings: dict[str, Any]
    plan_sha256: str
    score: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningRecord:
    """A tuning under way: the digest of what was asked for, the candidates drawn, the trials that are done."""

    asked: str
    picks: tuple[int, ...]
    done: tuple[TrialRecord, ...] = ()

    def add(self, trial: TrialRecord) -> "TuningRecord":
        """Return it with one more trial."""
        return replace(self, done=(*self.done, trial))

    @property
    def best(self) -> TrialRecord | None:
        """The trial with the highest score, the first of equal ones; None if there is none."""
        return max(self.done, key=lambda trial: trial.score, default=None)


def records_path(out: Path) -> Path:
    """Return the file beside the plan that the tuning writes."""
    return out.with_name(f"{out.stem}.trials.json")


def write_tuning(path: Path, record: TuningRecord) -> None:
    """Write the file, whole or not at all."""
    store.write_sealed(path, codec.record(record), owner_only=True)


def read_tuning(path: Path, asked: str) -> TuningRecord | None:
    """Read the file of the same tuning, None if there is none; another tuning's is refused, since its trials count."""
    if not store.exists(path):
        return None
    record: TuningRecord = store.read_record(path, TuningRecord)
    if record.asked != asked:
        raise BadInput(
            f"{str(path)!r}: holds the trials of another tuning; name another --out. If those were on private records, "
            "they are spent, and no plan of the new tuning counts them"
        )
    return record


def digest_of(parts: Sequence[Any]) -> str:
    """Return the SHA-256 of what was asked for."""
    return codec.digest(tuple(json.dumps(part, sort_keys=True) for part in parts))
