"""Committed audits and their tables."""

from pathlib import Path

import pytest

from gradveil.errors import BadInput
from gradveil.names import METHODS
from gradveil.reproduction.audited import AuditRecords, long_table, short_section

ROOT = Path(__file__).parents[2]
COMMITTED = AuditRecords(ROOT / "results" / "records")


def row(level, threat_model, lower_bound, claimed=1.0, verdict="consistent"):
    return {
        "threat_model": threat_model, "unit": "example", "delta": 1e-5, "adjacency": "add-remove", "claimed": claimed,
        "paper_claims": None, "lower_bound": lower_bound, "ceiling": 4.0, "confidence": 0.95, "level": level,
        "verdict": verdict, "why": "", "seconds": 1.0,
    }  # fmt: skip


def audit(method, rows):
    return {
        "verdict": "consistent", "rows": rows, "subject": method, "dataset": "digits", "plan_sha256": None,
        "date": "2026-01-01", "seed": 0,
    }  # fmt: skip


def test_a_guarantee_is_shown_at_the_level_that_showed_most_and_equal_adversaries_once():
    audits = [
        audit("m", [row("replay", "server", 0.9), row("replay", "central", 0.9)]),
        audit("m", [row("mechanism", "server", 0.2), row("mechanism", "central", 0.95)]),
    ]
    lines = short_section(audits).splitlines()[-2:]
    assert lines == [
        "| m | server | example | 1 | 0.9 | replay | consistent |",
        "| m | central | example | 1 | 0.95 | mechanism | consistent |",
    ]
    assert long_table(audits[:1]).splitlines()[-1] == (
        "| m | replay | server, central | example | 1 | 0.9 | 4 | consistent |"
    )


def test_a_line_that_is_no_audit_is_refused_by_its_number(tmp_path):
    records = AuditRecords(tmp_path)
    assert records.read() == []
    records.write([audit("m", [row("replay", "server", 0.9)])])
    assert records.read()[0]["subject"] == "m"
    records.path.write_text(records.path.read_text() + '{"verdict": "fine"}\n')
    with pytest.raises(BadInput, match=r"audits.jsonl', line 2: is no audit"):
        records.read()


def test_every_method_has_an_audit_and_the_page_of_audits_shows_them():
    audits = COMMITTED.read()
    assert {one["subject"] for one in audits} == set(METHODS)
    assert long_table(audits) in (ROOT / "docs" / "audit.md").read_text()
