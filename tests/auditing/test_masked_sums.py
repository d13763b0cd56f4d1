"""The audit of secure sums: what it measures of the real protocol, and that it finds too little noise."""

from dataclasses import replace

import pytest
from scipy.stats import norm

from gradveil.aggregation import answering, noise
from gradveil.aggregation.answering import Contribution
from gradveil.auditing import masked_sums
from gradveil.auditing.audits import Effort, audit
from gradveil.auditing.masked_sums import simulated
from gradveil.auditing.mechanism_level import MechanismEffort
from gradveil.auditing.subject import subject_of
from gradveil.data.sources import load
from gradveil.errors import BadInput
from gradveil.federation.secure_sum import SecureSum
from gradveil.methods import FED_SUM
from gradveil.models.regression import SoftmaxRegression
from gradveil.privacy.schedule import Constant
from gradveil.runs.presets import resolve

EFFORT = Effort(mechanism=MechanismEffort(releases=24_000, least=100))


@pytest.fixture(scope="module")
def plan():
    data = load("digits")
    changes = {"clients": 4, "rounds": 2, "model": SoftmaxRegression(), "secure_sum": SecureSum(nodes=4)}
    return resolve("digits", data, replace(FED_SUM, noise=Constant(1.0)), changes)


def test_the_scores_are_those_of_gaussians_under_the_noise_that_is_left(plan):
    found = simulated(plan, 1, 1, 4000, seed=3)
    # mu = 1 / z of all honest nodes; sqrt(3 / 4) of it under the noise of all four, sqrt(3) under that of one.
    for view, mu in (("aggregate", 1.0), ("model", 0.75**0.5), ("alone", 3**0.5)):
        scores, _ = found[view]
        spread = scores.absent.std()
        assert (scores.present.mean() - scores.absent.mean()) / spread == pytest.approx(mu, abs=0.08)
        auc = (scores.present[:, None] > scores.absent[None, :500]).mean()
        assert auc == pytest.approx(norm.cdf(mu / 2**0.5), abs=0.03)


def test_a_true_claim_is_not_refuted_and_half_the_noise_is(plan, monkeypatch):
    subject = subject_of(plan, load("digits"), "sums")
    true = audit(subject, ("replay", "mechanism"), 1, EFFORT)
    assert true.verdict == "consistent"
    assert {row.threat_model for row in true.rows} >= {"aggregate", "central-visible", "alone"}
    assert {row.level for row in true.rows} == {"mechanism"}

    def half(deviation, size, take):
        return noise.discrete_gaussian(deviation / 2, size, take)

    for module in (answering, masked_sums):
        monkeypatch.setattr(module, "discrete_gaussian", half)
    assert audit(subject, ("mechanism",), 1, EFFORT).verdict == "refuted"


def test_a_node_that_adds_no_clip_is_found(plan, monkeypatch):
    subject = subject_of(plan, load("digits"), "sums")
    monkeypatch.setattr(masked_sums.ring, "bounded_sum", lambda vectors, bound: vectors.sum(axis=0) / 2e3)
    assert audit(subject, ("mechanism",), 1, EFFORT).verdict == "refuted"


def test_noise_that_follows_the_unit_is_found_though_the_sum_does_not_move(plan, monkeypatch):
    method = replace(FED_SUM, noise=Constant(20.0))
    subject = subject_of(replace(plan, rounds=8, method=method), load("digits"), "sums")
    own = Effort(mechanism=MechanismEffort(releases=48_000))

    def followed(multiplier, vector):
        more = 1.15 if vector.any() else 1.0
        return Contribution(multiplier=more * multiplier, records=1, compute=lambda: 0 * vector)

    assert audit(subject, ("mechanism",), 1, own).verdict == "consistent"
    monkeypatch.setattr(masked_sums, "_of", followed)
    assert audit(subject, ("mechanism",), 1, own).verdict == "refuted"


def test_levels_that_read_single_clients_are_refused(plan):
    subject = subject_of(plan, load("digits"), "sums")
    with pytest.raises(BadInput, match="at the level mechanism only"):
        audit(subject, ("replay",))
