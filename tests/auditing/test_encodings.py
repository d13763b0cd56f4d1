"""Statistics of private rows: one record moves the encoding of all others, which the level `replay` must see."""

from dataclasses import replace

import numpy as np
import pytest

import gradveil
from gradveil.auditing import audits
from gradveil.auditing.audits import Effort
from gradveil.auditing.replay_level import ReplayEffort
from gradveil.auditing.subject import subject_of
from gradveil.data import standardizing, user_encoding
from gradveil.data.outlier import load_with_outlier
from gradveil.methods import FED_CDP, METHODS
from gradveil.models.networks import Mlp
from gradveil.privacy.clip import Flat
from gradveil.privacy.schedule import Constant

FEW = Effort(replay=ReplayEffort(keys=10, climbs=0, draws=50, longest=32))
SIZES = {"clients": 2, "cohort": 2, "client_size": 20, "batch": 10, "rounds": 2, "model": Mlp(hidden=(4,))}


def write(path, columns=1, letters=True):
    x = np.random.default_rng(0).normal(size=(40, columns)).round(4)
    rows = [",".join([str(i % 2), *map(str, row), *"ab"[i % 2] * letters]) for i, row in enumerate(x)]
    names = ["y", *(f"x{k}" for k in range(columns)), *["letter"] * letters]
    path.write_text("\n".join([",".join(names), *rows]) + "\n")


def test_an_outlier_moves_the_other_rows_of_a_table_that_its_own_rows_scale(tmp_path):
    write(tmp_path / "table.csv")
    own = gradveil.dataset(tmp_path / "table.csv", target="y")
    changed = load_with_outlier(str(tmp_path / "table.csv"), "y")
    assert np.array_equal(own.train.y, changed.train.y)
    far = np.sqrt(len(own.train) - 1)  # one value far from equal ones
    assert abs(changed.train.x[0, 0]) == pytest.approx(far, rel=1e-3)
    assert np.ptp(changed.train.x[1:, 0]) < 1e-3 < np.ptp(own.train.x[1:, 0])
    assert np.array_equal(own.train.x[:, 1:], changed.train.x[:, 1:])  # a letter is no number


def test_public_constants_have_nothing_to_replay_and_cancer_has():
    assert load_with_outlier("digits", None) is None
    own, changed = gradveil.dataset("cancer"), load_with_outlier("cancer", None)
    assert np.abs(own.train.x[1:] - changed.train.x[1:]).max() > 1


def audited(path, neighbor):
    plan = gradveil.plan(path, replace(FED_CDP, name="small", clip=Flat(1.0), noise=Constant(2.0)), target="y", **SIZES)
    data = gradveil.dataset(path, target="y")
    return audits.audit(subject_of(plan, data, "table", neighbor=neighbor), ("replay",), 0, FEW)


@pytest.mark.slow
def test_scaling_by_private_rows_is_refuted_and_scaling_by_constants_is_not(tmp_path, monkeypatch):
    path = tmp_path / "table.csv"
    write(path, columns=6, letters=False)
    record = audited(path, load_with_outlier(str(path), "y"))
    assert record.verdict == "refuted"
    assert all("scaled" in row.why for row in record.rows if row.verdict == "refuted")
    monkeypatch.setattr(user_encoding, "moments", lambda rows: (np.zeros(1), np.full(1, 3.0)))
    assert audited(path, load_with_outlier(str(path), "y")).verdict == "consistent"
    monkeypatch.setattr(user_encoding, "moments", standardizing.moments)
    assert audited(path, None).verdict == "consistent"


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if m.value.sensitivity.data_dependent])
def test_a_method_without_a_guarantee_has_the_papers_claim_to_test(name, digits):
    subject = subject_of(gradveil.plan("digits", name), digits, name, named=True)
    claims = [claim for claim in subject.claims if claim.unit == "example"]
    assert len(claims) > 3
    assert all((claim.epsilon, claim.paper) == (None, 0.823) for claim in claims)


def test_a_plan_of_such_a_method_has_what_the_papers_rules_give(digits):
    plan = gradveil.plan("digits", "fed-alpha-cdp-sigma", rounds=2)
    papers = [claim.paper for claim in subject_of(plan, digits, "plan").claims if claim.unit == "example"]
    assert None not in papers
