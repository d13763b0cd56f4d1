"""Noise for a target epsilon: met, not exceeded, and not by much more noise than needed."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import gradveil
from gradveil.calibration.plan_noise import meet, scaled
from gradveil.data.dataset import Split
from gradveil.errors import BadInput
from gradveil.methods import FED_SUM, METHODS
from gradveil.privacy.schedule import Constant, Cyclic, Exponential, Linear
from gradveil.runs.budget import Budget
from gradveil.runs.presets import resolve

SMALL = {"clients": 6, "rounds": 4}


def data():
    return gradveil.dataset("cancer")


def analytic(mu, delta=1e-5):
    def excess(e):
        return norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta

    return brentq(excess, 0.0, 50.0, xtol=1e-13)


def spent(plan, copies=1):
    return Budget(plan, data(), copies).epsilon(plan.rounds, plan.rounds, plan.threat_model)


@pytest.mark.parametrize("threat", ["server", "aggregate", "central-visible"])
@pytest.mark.parametrize("epsilon", [0.28, 3.0])
def test_fed_sum_gets_the_noise_of_the_closed_form(threat, epsilon):
    plan = meet(gradveil.plan("cancer", "fed-sum", threat_model=threat, **SMALL), data(), epsilon)
    mu = math.sqrt(sum(1 / sigma**2 for sigma in plan.sigmas().ravel()))
    mu /= 1.0 if threat == "server" else math.sqrt(plan.cohort)
    assert 0.999 * epsilon < analytic(mu) <= epsilon
    assert plan.max_epsilon == epsilon


@pytest.mark.parametrize("method", ["fed-cdp", "fed-sdp-client", "adaclip", "dssgd-noisy"])
def test_every_method_with_a_guarantee_meets_a_target(method):
    asked = gradveil.plan("cancer", method, clients=6, cohort=6, rounds=2, local_steps=2, batch=4, client_size=40)
    plan = meet(asked, data(), 2.0)
    assert 1.99 < spent(plan) <= 2.0


@pytest.mark.parametrize("method", [name for name, m in METHODS.items() if m.value.sensitivity.data_dependent])
def test_a_method_that_no_noise_makes_private_is_refused(method):
    asked = gradveil.plan("cancer", method, **SMALL)
    with pytest.raises(BadInput, match=r"target_epsilon = 1\.0: no amount of noise"):
        meet(asked, data(), 1.0)


def test_the_reason_of_a_refusal_is_said():
    with pytest.raises(BadInput, match="draws no noise"):
        meet(gradveil.plan("cancer", "non-private", **SMALL), data(), 1.0)
    with pytest.raises(BadInput, match="server adds the noise"):
        meet(gradveil.plan("cancer", "fed-sdp", **SMALL), data(), 1.0)
    for epsilon in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(BadInput, match="target_epsilon"):
            meet(gradveil.plan("cancer", "fed-sum", **SMALL), data(), epsilon)


def test_copies_of_a_record_are_paid_for():
    asked = gradveil.plan("cancer", "fed-sum", threat_model="aggregate", **SMALL)
    alone, twice = (meet(asked, data(), 1.0, copies=c).method.noise.sigma for c in (1, 2))
    assert twice == pytest.approx(2 * alone, rel=1e-3)
    dealt = gradveil.plan("cancer", "fed-sum", threat_model="aggregate", clients=6, client_size=142, rounds=4)
    assert meet(dealt, data(), 1.0).method.noise.sigma == pytest.approx(2 * alone, rel=1e-2)


@pytest.mark.parametrize(
    ("noise", "expected"),
    [
        (Constant(3.0), Constant(6.0)),
        (Linear(start=3.0, end=1.0), Linear(start=6.0, end=2.0)),
        (Exponential(start=3.0, gamma=0.1), Exponential(start=6.0, gamma=0.1)),
        (Cyclic(start=3.0, floor=1.0), Cyclic(start=6.0, floor=2.0)),
    ],
)
def test_a_schedule_keeps_its_shape(noise, expected):
    assert scaled(noise, 2.0) == expected
    assert scaled(noise, 2.0).sigmas(4, 1) == pytest.approx(2 * noise.sigmas(4, 1))


def test_the_preset_of_a_target_is_that_of_the_adversary_it_holds_against():
    split = Split(np.zeros((50_000, 16, 16, 1), np.uint8), np.zeros(50_000, np.int32))
    own = replace(data(), train=split, own=True)
    rates = [resolve("own", own, FED_SUM, given, 1.0).learning_rate for given in ({}, {"threat_model": "aggregate"})]
    assert rates == [300.0, 1000.0]


def test_a_trained_run_reports_the_target_against_whom_it_was_asked_for(tmp_path):
    """The result's own rows, preparation included: closed forms of the plan's noise on every round."""
    plan = gradveil.plan("cancer", "fed-sum", target_epsilon=0.8, threat_model="aggregate", **SMALL)
    result = gradveil.train(plan, tmp_path / "run").result
    held = {row.threat_model: row.epsilon for row in result.guarantees}
    mu = math.sqrt(sum(1 / sigma**2 for sigma in plan.sigmas().ravel()))
    assert len(plan.preparation) == len(plan.sigmas()) - (plan.rounds - len(plan.preparation)) > 0
    assert result.rounds == plan.rounds
    assert held["server"] == pytest.approx(analytic(mu), abs=1e-6)
    assert held["aggregate"] == pytest.approx(analytic(mu / math.sqrt(6)), abs=1e-6)
    assert held["central-visible"] == held["aggregate"] <= 0.8
    assert replace(FED_SUM, noise=plan.method.noise, clip=plan.method.clip) == plan.method
