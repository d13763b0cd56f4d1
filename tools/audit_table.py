"""Audit every method on digits and keep the records: `python -m tools.audit_table [LEVEL,...] [N]`.

results/records/audits.jsonl gets a line for each method and level that has none yet, so a killed run goes on where it
stood; `--again` makes all of them anew. docs/audit.md gets their table; `gradveil table all --docs docs` writes
docs/results.md. N: rounds of a client that the level `mechanism` simulates, 400,000 if it is not given.
"""

import sys
from pathlib import Path
from typing import Any

import gradveil
from gradveil.names import METHODS
from gradveil.reproduction.audited import AuditRecords, long_table

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- table: python -m tools.audit_table -->", "<!-- end of table -->"


def main(levels: tuple[str, ...], releases: int | None, again: bool) -> None:
    """Audit what is missing, method by method, then write the table into the page."""
    records = AuditRecords(ROOT / "results" / "records")
    known = {} if again else {_place(audit): audit for audit in records.read()}
    for place in [(method, level) for method in METHODS for level in levels]:
        if place not in known:
            audit = gradveil.audit(place[0], (place[1],), releases=releases).plain()
            known |= {place: audit} if audit["rows"] else {}  # a level that tests nothing of a method has no row
            records.write(known[place] for place in _ordered(known, levels))
    _write(ROOT / "docs" / "audit.md", long_table(records.read()))


def _place(audit: dict[str, Any]) -> tuple[str, str]:
    return audit["subject"], audit["rows"][0]["level"]


def _ordered(known: dict[tuple[str, str], Any], levels: tuple[str, ...]) -> list[tuple[str, str]]:
    methods = list(METHODS)
    return sorted(known, key=lambda place: (methods.index(place[0]), levels.index(place[1])))


def _write(page: Path, table: str) -> None:
    """Put a table between the marks of a page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    page.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word != "--again"]
    named = tuple(words[0].split(",")) if words else ("replay", "mechanism")
    main(named, int(words[1]) if len(words) > 1 else None, "--again" in sys.argv)
