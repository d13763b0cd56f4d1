"""Sound plans at both levels, the record that comes of them, and the words for it."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest

import gradveil
from gradveil.auditing.audit_record import judged, overall
from gradveil.auditing.audits import Effort, simulated
from gradveil.auditing.junit import junit
from gradveil.auditing.mechanism_level import MechanismEffort, simulate
from gradveil.auditing.neighbors import LOUD, Neighbors
from gradveil.auditing.probe import staged
from gradveil.auditing.replay_level import ReplayEffort
from gradveil.auditing.replayer import Replayer
from gradveil.auditing.stopping import uncovered
from gradveil.auditing.subject import subject_of
from gradveil.auditing.telling import Scores, mu_told, told_apart
from gradveil.cli.main import main
from gradveil.methods import FED_ALPHA_CDP, FED_CDP, FED_SDP, FED_SDP_CLIENT
from gradveil.models.networks import Mlp
from gradveil.privacy.clip import Flat
from gradveil.privacy.schedule import Constant

SMALL = replace(FED_CDP, name="small", clip=Flat(1.0), noise=Constant(2.0))
AT_THE_SERVER = replace(FED_SDP, clip=Flat(1.0), noise=Constant(2.0))
FEW = Effort(
    replay=ReplayEffort(keys=6, climbs=1, draws=50, longest=64),
    mechanism=MechanismEffort(releases=2000, least=100, chunk=100, longest=64),
)
CONTRACT = {
    "threat_model", "unit", "delta", "claimed", "lower_bound", "ceiling", "confidence", "level", "verdict", "seconds",
    "paper_claims",
}  # fmt: skip


def test_a_sound_plan_is_consistent_at_both_levels_and_measured_closely(audited):
    record = audited(AT_THE_SERVER, ("replay", "mechanism"), effort=FEW, rounds=2)
    assert record.verdict == "consistent"
    replayed = {row.threat_model: row for row in record.rows if row.level == "replay"}
    known = replayed["central"]
    assert 0.7 * known.claimed < known.lower_bound <= known.claimed * 1.001
    assert {row.level for row in record.rows} == {"replay", "mechanism"}
    assert all(set(row) >= CONTRACT for row in json.loads(json.dumps(record.plain()))["rows"])
    assert b"<testsuite" in junit(record)


@pytest.mark.slow
def test_noise_that_follows_the_gradients_is_refuted_at_both_levels_and_the_papers_figure_is_what_is_tested(audited):
    method = replace(FED_ALPHA_CDP, clip=Flat(1.0))
    for level in ("replay", "mechanism"):
        record = audited(method, (level,), effort=FEW)
        assert record.verdict == "refuted"
        examples = [row for row in record.rows if row.unit == "example"]
        assert all(row.claimed is None and row.paper_claims > 0 for row in examples)


@pytest.mark.slow
@pytest.mark.parametrize("z", [0.5, 1.0, 1.5])
def test_the_mechanism_level_reaches_nine_tenths_of_the_true_mu_where_batches_are_known(z, digits):
    method = replace(SMALL, noise=Constant(z))
    sizes = {"clients": 1, "cohort": 1, "client_size": 4, "batch": 4, "rounds": 1, "sampling": "whole"}
    stage = staged(gradveil.plan("digits", method, model=Mlp(hidden=(4,)), **sizes), digits, 8)
    scores = simulate(Replayer(stage, 3, 0.5), Neighbors((LOUD,) * 2), "update", MechanismEffort(releases=60_000), 3)
    assert 0.9 / z < mu_told((scores["known"],), 0.95) <= 1 / z


@pytest.mark.parametrize(
    ("base", "cohorts"),
    [(FED_SDP, "poisson"), (FED_SDP_CLIENT, "fixed"), pytest.param(FED_CDP, "fixed", marks=pytest.mark.slow)],
)
def test_a_true_claim_of_clients_that_are_seldom_drawn_is_not_refuted(base, cohorts, audited):
    few = Effort(mechanism=MechanismEffort(releases=40_000, least=100))
    method = replace(base, clip=Flat(1.0), noise=Constant(2.0))
    sizes = {"clients": 40, "cohort": 2, "rounds": 12, "cohort_sampling": cohorts}
    assert audited(method, ("mechanism",), effort=few, **sizes).verdict != "refuted"


@pytest.mark.parametrize("threat", ["central", "central-visible"])
def test_a_quarter_of_the_noise_is_refuted_where_not_all_clients_are_drawn(threat, digits):
    few = Effort(mechanism=MechanismEffort(releases=80_000, least=100))
    sizes = {"clients": 4, "cohort": 2, "client_size": 8, "batch": 4, "rounds": 6, "model": Mlp(hidden=(4,))}
    claimed, true = (
        subject_of(
            gradveil.plan("digits", replace(FED_SDP, clip=Flat(1.0), noise=Constant(z)), **sizes), digits, "quarter"
        )
        for z in (2.0, 0.5)
    )
    planted = replace(true, claims=tuple(c for c in claimed.claims if c.threat_model == threat), ledger=claimed.ledger)
    replayer = Replayer(staged(planted.plan, digits, 8), 0, 0.5)
    assert overall(simulated(planted, replayer, 0, few)) == "refuted"


LOUD_PLAN = """
dataset = "digits"
clients = 1
cohort = 1
client_size = 4
batch = 4
rounds = 1
local_steps = 1
[sampling]
kind = "Whole"
[model]
kind = "Mlp"
hidden = [4]
[method]
name = "loud"
surface = "example"
draw = "sum"
clip = {kind = "Flat", c = 1.0}
sensitivity = {kind = "ClipBound"}
noise = {kind = "Constant", sigma = 1.0}
"""


@pytest.mark.slow
def test_the_command_says_nine_tenths_of_the_true_mu_at_its_usual_effort(tmp_path, capsys):
    (tmp_path / "loud.toml").write_text(LOUD_PLAN)
    assert main(["audit", str(tmp_path / "loud.toml"), "--level", "mechanism", "--json"]) == 0
    rows = {row["threat_model"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    (shown,) = re.findall(r"mu >= (\S+) of Gaussian noise", rows["type2-known"]["why"])
    assert 0.9 < float(shown) <= 1.0


@pytest.mark.slow
def test_sound_plans_are_refuted_no_more_often_than_the_confidence_allows(digits):
    few = replace(FEW, mechanism=MechanismEffort(releases=800, least=100, chunk=100))
    sizes = {"clients": 2, "cohort": 2, "client_size": 8, "batch": 4, "rounds": 1, "model": Mlp(hidden=(4,))}
    subject = subject_of(gradveil.plan("digits", SMALL, **sizes), digits, "small")
    replayer = Replayer(staged(subject.plan, digits, 8), 0, 0.5)  # compiles once for all seeds
    refuted = [overall(simulated(subject, replayer, seed, few)) for seed in range(20)].count("refuted")
    assert refuted <= 4  # P(more than 4 of 20 at 5 %) is 0.003


def test_scores_that_never_overlap_reach_the_ceiling_and_equal_ones_show_nothing():
    far = Scores(np.full(400, 5.0), np.zeros(400))
    told = told_apart((far,), 1e-5, 0.95)
    assert told.bound == told.ceiling > math.log(50)
    assert told_apart((Scores(np.zeros(400), np.zeros(400)),), 1e-5, 0.95).bound == 0


@pytest.mark.parametrize(
    ("tested", "lower", "ceiling", "verdict"),
    [
        (1.0, 2.0, 5.0, "refuted"),
        (1.0, 0.5, 5.0, "consistent"),
        (6.0, 0.5, 5.0, "no-power"),
        (None, 9.0, 9.0, "consistent"),
    ],
)
def test_a_row_is_judged_by_bound_and_ceiling(tested, lower, ceiling, verdict):
    assert judged(tested, lower, ceiling) == verdict


def test_an_audit_without_rows_claims_nothing():
    assert overall(()) == "consistent"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "audit: give"),
        (["no-such-method"], "must be one of"),
        (["fed-cdp", "--level", "wrong"], "level = "),
        (["fed-cdp", "--releases", "1"], "releases = 1"),
        (["fed-cdp", "--confidence", "2"], "confidence = 2"),
        (["fed-cdp", "--mechanism", "json:dumps"], "not both"),
        (["plan.toml", "--dataset", "digits"], "dataset = 'digits'"),
        (["--mechanism", "json:dumps", "--noise-multiplier", "1", "--level", "wrong"], "level = "),
    ],
)
def test_an_audit_that_cannot_be_made_is_one_sentence(arguments, said, capsys):
    assert main(["audit", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_audit_says_that_it_does_not_cover_rows_that_decide_when_to_stop(audited):
    few = Effort(replay=ReplayEffort(keys=2, climbs=0, draws=10, longest=8), mechanism=FEW.mechanism)
    stops = audited(AT_THE_SERVER, ("replay", "mechanism"), effort=few, rounds=1, target_accuracy=0.9)
    assert {row.level for row in stops.rows if "450 test rows" in row.why} == {"replay", "mechanism"}
    assert not any("stops" in row.why for row in audited(AT_THE_SERVER, effort=few, rounds=1).rows)


def test_rows_held_out_of_those_for_training_are_named_as_what_decides():
    data = gradveil.dataset("digits", validation=0.1)
    plan = gradveil.plan("digits", "fed-cdp", validation=0.1, target_accuracy=0.9)
    assert f"{len(data.validation)} validation rows" in uncovered(plan, data)


def test_the_help_keeps_the_shape_of_what_a_mechanism_takes(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["audit", "--help"]) == 0
    assert "f(gradients [n, d], seed)" in capsys.readouterr().out
