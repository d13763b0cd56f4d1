"""Audits of every method under version control, and their tables as Markdown: claimed epsilon beside measured bound."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradveil.auditing.audit_record import AuditRecord
from gradveil.codec import decode
from gradveil.errors import BadInput
from gradveil.runs import store

NAME = "audits.jsonl"
HEADS = ("method", "level", "adversary", "one", "claimed", "measured, at least", "ceiling", "verdict")
SHORT_HEADS = ("method", "adversary", "one", "claimed", "measured, at least", "level", "verdict")
SHORT = """## Is the claimed epsilon true?

A measured lower bound beside every claim on digits, the largest of the levels; [audit.md](audit.md) says what levels
and verdicts mean."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditRecords:
    """The file `audits.jsonl` of a folder: one audit a line, as `gradveil audit --json` prints it."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / NAME

    def read(self) -> list[Row]:
        """Return all audits in the order of their file, none where there is no file."""
        if not store.exists(self.path):
            return []
        lines = store.read(self.path).decode(errors="replace").splitlines()
        return [self._audit(number, line) for number, line in enumerate(lines, 1)]

    def _audit(self, number: int, line: str) -> Row:
        try:
            audit: Row = store.parsed(line, "audit")
            decode(AuditRecord, audit)
        except BadInput as error:
            raise BadInput(f"{str(self.path)!r}, line {number}: is no audit ({error})") from None
        return audit

    def write(self, audits: Iterable[Row]) -> None:
        """Write all audits, whole or not at all."""
        store.write(self.path, "".join(f"{json.dumps(audit, allow_nan=False)}\n" for audit in audits).encode())


def long_table(audits: Sequence[Row]) -> str:
    """Return a line for each guarantee at each level."""
    lines = [_cells(audit["subject"], row) for audit in audits for row in _strongest(audit["rows"])]
    return _table(HEADS, lines)


def short_section(audits: Sequence[Row]) -> str:
    """Return the section of a page with one line for each guarantee, that of the level that showed most."""
    of_methods: dict[str, list[Row]] = {}
    for audit in audits:
        of_methods.setdefault(audit["subject"], []).extend(audit["rows"])
    lines = [_short(_cells(method, row)) for method, rows in of_methods.items() for row in _of_all_levels(rows)]
    return f"{SHORT}\n\n{_table(SHORT_HEADS, lines)}"


def _strongest(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that test something, adversaries with the same figures only once; all of one if none does."""
    tested = [row for row in rows if row["claimed"] is not None or row["paper_claims"] is not None]
    groups: dict[Any, Row] = {}
    for row in tested or rows[3:4]:
        key = (row["level"], row["unit"], row["delta"], row["claimed"], f"{row['lower_bound']:.3g}")
        adversaries = [groups[key]["threat_model"]] if key in groups else []
        groups[key] = {**groups.get(key, row), "threat_model": ", ".join([*adversaries, row["threat_model"]])}
    return list(groups.values())


def _of_all_levels(rows: Sequence[Row]) -> list[Row]:
    """Return the row with the largest lower bound of each adversary, those with the same figures only once."""
    best: dict[tuple[str, float], Row] = {}
    for row in sorted(rows, key=lambda row: float(row["lower_bound"]), reverse=True):
        best.setdefault((row["threat_model"], row["delta"]), row)
    return _strongest([row for row in rows if any(row is one for one in best.values())])


def _cells(method: str, row: Row) -> list[str]:
    claimed = "none" if row["claimed"] is None else f"{row['claimed']:.3g}"
    claimed = f"none; the paper: {row['paper_claims']:.3g}" if row["paper_claims"] is not None else claimed
    verdict = row["verdict"] if claimed != "none" else "nothing claimed"
    figures = [f"{row[name]:.3g}" for name in ("lower_bound", "ceiling")]
    return [method, row["level"], row["threat_model"], row["unit"], claimed, *figures, verdict]


def _short(cells: Sequence[str]) -> list[str]:
    method, level, adversary, one, claimed, measured, _, verdict = cells
    return [method, adversary, one, claimed, measured, level, verdict]


def _table(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---"] * len(heads)
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))
