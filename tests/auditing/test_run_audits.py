"""An audit of a run: its folder keeps the record, and page and card show the lower bound beside the upper one."""

import json

import jsonschema
import pytest

import gradveil
from gradveil.auditing.audit_record import AUDIT, AuditRecord
from gradveil.cli.main import main
from gradveil.deployment.journal import JOURNAL
from gradveil.errors import BadInput
from gradveil.models.networks import Mlp
from gradveil.reports import card, evidence
from gradveil.reports.page import page
from gradveil.runs import store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audited") / "run"
    sizes = {"clients": 2, "cohort": 2, "client_size": 8, "batch": 4, "rounds": 2, "model": Mlp(hidden=(4,))}
    gradveil.train(gradveil.plan("digits", "fed-cdp", sigma=2, **sizes), folder)
    return folder


def test_a_run_that_was_not_audited_says_so(run):
    found = evidence.gather(run)
    assert "not audited" in page([found])
    assert all(g["audit"] is None for g in card.card(found)["guarantees"])


def test_an_audited_run_shows_the_lower_bound_with_level_power_and_date(run, capsys):
    assert main(["audit", str(run), "--level", "replay", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    kept = store.read_record(run / AUDIT, AuditRecord)
    assert kept.plain() == printed
    claims = {
        g.threat_model: g.epsilon
        for g in store.read_result(run, store.inspect(run, store.read_plan(run)).heads[-1]).guarantees
    }
    assert {row.threat_model: row.claimed for row in kept.rows} == claims
    found = evidence.gather(run)
    made = card.card(found)
    jsonschema.validate(made, card.schema())
    server = next(g for g in made["guarantees"] if g["threat_model"] == "server")
    assert 0 < server["audit"]["lower_bound"] <= server["epsilon"]
    assert server["audit"]["level"] == "replay"
    assert server["audit"]["date"] == kept.date
    for text in (page([found]), card.markdown(made)):
        assert f"{server['audit']['lower_bound']:.3g}" in text
        assert "could have been shown" in text


def test_a_record_that_was_edited_is_refused(run):
    text = (run / AUDIT).read_text()
    (run / AUDIT).write_text(text.replace('"seed": 0', '"seed": 1'))
    with pytest.raises(BadInput):
        evidence.gather(run)
    (run / AUDIT).write_text(text)


def test_a_run_that_its_budget_ended_is_measured_by_the_rounds_that_it_trained(tmp_path):
    sizes = {"clients": 2, "cohort": 2, "client_size": 8, "batch": 4, "rounds": 400, "model": Mlp(hidden=(4,))}
    plan = gradveil.plan("digits", "fed-sdp", sigma=4, max_epsilon=3.0, threat_model="central", **sizes)
    gradveil.train(plan, tmp_path / "run")
    record = gradveil.audit(tmp_path / "run", ("replay", "mechanism"), releases=4000)
    assert record.verdict == "consistent"
    measured = {row.level: row for row in record.rows if row.threat_model == "central"}
    assert 0.8 * measured["replay"].claimed < measured["replay"].lower_bound <= measured["replay"].claimed


@pytest.mark.parametrize("level", ["one-run", "black-box"])
def test_a_run_over_nodes_takes_no_canaries_and_says_so_in_one_sentence(level, run, capsys):
    (run / JOURNAL).touch()
    try:
        assert main(["audit", str(run), "--level", f"replay,{level}"]) == 2
        with pytest.raises(BadInput, match="canaries"):
            gradveil.audit(run, (level,))
    finally:
        (run / JOURNAL).unlink()
    said = capsys.readouterr().err
    assert f"level = {level}" in said
    assert "canaries" in said
