"""Audit every method on digits and write the table of docs/audit.md: `python -m tools.audit_table [LEVEL,...] [N]`.

N: rounds of a client that the level `mechanism` simulates, 400,000 if it is not given.
Records are kept in a folder and not computed again, so that a killed run goes on where it stood.
"""

import json
import sys
from pathlib import Path
from typing import Any

import gradveil
from gradveil.names import METHODS

PAGE = Path(__file__).parents[1] / "docs" / "audit.md"
RECORDS = Path("artifacts") / "audits"
BEGIN, END = "<!-- table: python -m tools.audit_table -->", "<!-- end of table -->"
HEAD = "| method | level | adversary | one | claimed | measured, at least | ceiling | verdict |\n" + "|---" * 8 + "|"


def main(levels: tuple[str, ...], releases: int | None) -> None:
    """Audit what is missing, level by level, then write the table into the page."""
    for level in levels:
        for method in METHODS:
            _record(method, level, releases)
    lines = [HEAD]
    for method in METHODS:
        for level in levels:
            lines += [_line(method, row) for row in _strongest(_record(method, level, releases)["rows"])]
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}", encoding="utf-8")


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


def _line(method: str, row: dict[str, Any]) -> str:
    claimed = "none" if row["claimed"] is None else f"{row['claimed']:.3g}"
    claimed = f"none; the paper: {row['paper_claims']:.3g}" if row["paper_claims"] is not None else claimed
    verdict = row["verdict"] if claimed != "none" else "nothing claimed"
    figures = [f"{row[name]:.3g}" for name in ("lower_bound", "ceiling")]
    return f"| {' | '.join([method, row['level'], row['threat_model'], row['unit'], claimed, *figures, verdict])} |"


if __name__ == "__main__":
    named = tuple(sys.argv[1].split(",")) if len(sys.argv) > 1 else ("replay", "mechanism")
    main(named, int(sys.argv[2]) if len(sys.argv) > 2 else None)
