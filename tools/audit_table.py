"""Audit every method on digits and write the tables of docs: `python -m tools.audit_table [LEVEL,...] [N]`.

docs/audit.md gets a line for each guarantee at each level, docs/results.md one for each guarantee.
N: rounds of a client that the level `mechanism` simulates, 400,000 if it is not given.
Records are kept in a folder and not computed again, so that a killed run goes on where it stood.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gradveil
from gradveil.names import METHODS

DOCS = Path(__file__).parents[1] / "docs"
RECORDS = Path("artifacts") / "audits"
BEGIN, END = "<!-- table: python -m tools.audit_table -->", "<!-- end of table -->"
HEAD = "| method | level | adversary | one | claimed | measured, at least | ceiling | verdict |\n" + "|---" * 8 + "|"

SHORT_HEAD = "| method | adversary | one | claimed | measured, at least | level | verdict |\n" + "|---" * 7 + "|"
SHORT = """## Is the claimed epsilon true?

A measured lower bound beside every claim on digits, the largest of the levels; [audit.md](audit.md) says what levels
and verdicts mean."""


def main(levels: tuple[str, ...], releases: int | None) -> None:
    """Audit what is missing, level by level, then write the table into the page."""
    for level in levels:
        for method in METHODS:
            _record(method, level, releases)
    rows = {(m, one): _record(m, one, releases)["rows"] for m in METHODS for one in levels}
    lines = [_line(method, row) for (method, _), found in rows.items() for row in _strongest(found)]
    _write(DOCS / "audit.md", "\n".join([HEAD, *lines]))
    by_method = {m: [row for one in levels for row in rows[m, one]] for m in METHODS}
    short = [_short_line(method, row) for method, found in by_method.items() for row in _of_all_levels(found)]
    _write(DOCS / "results.md", "\n".join([SHORT, "", SHORT_HEAD, *short]))


def _write(page: Path, table: str) -> None:
    """Put a table between the marks of a page; before its first section where it has none."""
    text = page.read_text(encoding="utf-8")
    if BEGIN not in text:
        text = text.replace("\n## ", f"\n{BEGIN}\n{END}\n\n## ", 1)
    before, _, rest = text.partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def _record(method: str, level: str, releases: int | None) -> dict[str, Any]:
    place = RECORDS / f"{method}-{level}.json"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(json.dumps(gradveil.audit(method, (level,), releases=releases).plain()), encoding="utf-8")
    found: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
    return found


def _strongest(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that test something, adversaries with the same figures only once; all of one if none does."""
    tested = [row for row in rows if row["claimed"] is not None or row["paper_claims"] is not None]
    groups: dict[Any, dict[str, Any]] = {}
    for row in tested or rows[3:4]:
        key = (row["unit"], row["delta"], row["claimed"], f"{row['lower_bound']:.3g}")
        if key in groups:
            groups[key]["threat_model"] += f", {row['threat_model']}"
        else:
            groups[key] = dict(row)
    return list(groups.values())


def _of_all_levels(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the row with the largest lower bound of each adversary, those with the same figures only once."""
    best: dict[tuple[str, float], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: float(row["lower_bound"]), reverse=True):
        best.setdefault((row["threat_model"], row["delta"]), row)
    return _strongest([row for row in rows if any(row is one for one in best.values())])


def _short_line(method: str, row: dict[str, Any]) -> str:
    cells = [cell.strip() for cell in _line(method, row).strip("|").split("|")]
    name, level, adversary, one, claimed, measured, _, verdict = cells
    return f"| {' | '.join([name, adversary, one, claimed, measured, level, verdict])} |"


def _line(method: str, row: dict[str, Any]) -> str:
    claimed = "none" if row["claimed"] is None else f"{row['claimed']:.3g}"
    claimed = f"none; the paper: {row['paper_claims']:.3g}" if row["paper_claims"] is not None else claimed
    verdict = row["verdict"] if claimed != "none" else "nothing claimed"
    figures = [f"{row[name]:.3g}" for name in ("lower_bound", "ceiling")]
    return f"| {' | '.join([method, row['level'], row['threat_model'], row['unit'], claimed, *figures, verdict])} |"


if __name__ == "__main__":
    named = tuple(sys.argv[1].split(",")) if len(sys.argv) > 1 else ("replay", "mechanism")
    main(named, int(sys.argv[2]) if len(sys.argv) > 2 else None)
