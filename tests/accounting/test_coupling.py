"""Noise that ends, in a sum over clients: its true delta by convolution, for ends that are near enough to be seen."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.signal import fftconvolve
from scipy.stats import norm

from gradveil.accounting import participation
from gradveil.accounting.accountant import account
from gradveil.accounting.caveats import NOISE_ENDS
from gradveil.accounting.release import Ledger, Release
from gradveil.data.dataset import Dataset, Split
from gradveil.data.sampling import Whole
from gradveil.federation.ledger import numbers_noised
from gradveil.federation.plan import Plan
from gradveil.methods import FED_SLACK, FED_SUM
from gradveil.models.networks import Mlp
from gradveil.models.preparation import NoisedMean, NoisedSecondMoment
from gradveil.models.regression import SoftmaxRegression
from gradveil.privacy.slack import Slack
from gradveil.runs.budget import Budget

NEAR, DELTA = 4.0, 1e-2


def release(clients, z, **changes):
    """Shares of a noise of z units on the sum over all clients, one number each."""
    fields = {
        "surface": 2, "unit": "example", "part": "sum", "sigmas": (z,), "ratio": 1.0, "layers": 1, "draw": "sum",
        "expected": 20.0, "capacity": 20, "client_size": 20, "share": True, "example_sampling": "whole",
        "example_rate": 1.0, "touches": 1, "cohort_sampling": "fixed", "cohort_rate": 1.0, "cohort": clients,
        "copies": 1, "data_dependent": False, "numbers": 1,
    }  # fmt: skip
    return Release(round=0, **(fields | changes))


def held(*releases, threat="aggregate", delta=DELTA):
    return account(Ledger(releases, len(releases)), delta, "add-remove", threat)


@pytest.fixture
def ends_early(monkeypatch):
    """Let noise end where its end shows."""
    caches = (account, participation.beyond)
    for cache in caches:
        cache.cache_clear()
    monkeypatch.setattr(participation, "NOISE_END", NEAR)
    yield
    for cache in caches:
        cache.cache_clear()


def true_delta(epsilon, clients, z, step=1 / 512):
    """Delta of a sum of normals, each cut off at NEAR of its own deviations, against the same sum moved by 1."""
    own = z / math.sqrt(clients)
    half = round(NEAR * own / step)
    one = norm.pdf(np.arange(-half, half + 1) * step, scale=own)
    total = one = one / one.sum()
    for _ in range(clients - 1):
        total = np.maximum(fftconvolve(total, one), 0.0)
    none = np.zeros(round(1 / step))
    here, moved = np.concatenate([total, none]), np.concatenate([none, total])
    return float(np.maximum(here - math.exp(epsilon) * moved, 0.0).sum())


def analytic(mu, delta):
    """Epsilon of noise that does not end."""

    def excess(epsilon):
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 0.0, 60.0, xtol=1e-13)


@pytest.mark.parametrize("clients", [3, 5])
def test_the_delta_of_noise_that_ends_is_within_what_is_promised(ends_early, clients):
    """Without a charge for the end it would not be: the control."""
    claimed = held(release(clients, 1.0)).epsilon
    assert true_delta(claimed, clients, 1.0) <= DELTA
    assert true_delta(analytic(1.0, DELTA), clients, 1.0) > 1.01 * DELTA
    assert claimed <= analytic(1.0, DELTA / 2)


def test_each_number_is_charged_and_one_that_is_not_counted_has_no_such_bound(ends_early):
    few, many = (held(release(5, 1.0, numbers=n), delta=0.1).epsilon for n in (1, 40))
    assert few < many < math.inf
    unknown = held(release(5, 1.0, numbers=0))
    assert unknown.epsilon == math.inf
    assert NOISE_ENDS in unknown.caveats


def test_the_server_who_sees_each_share_is_charged_for_its_end_as_ever(ends_early):
    assert held(release(5, 1.0), threat="server").epsilon == math.inf


def test_a_target_of_eight_can_be_spent_on_shares_of_a_hundred_clients():
    """As they are, with an end at nine deviations: almost the closed form, and nothing without the count."""
    mu = 1.77
    sums = release(120, 1 / mu, numbers=80_200)
    assert held(sums, delta=1e-5).epsilon == pytest.approx(analytic(mu, 1e-5), abs=1e-3)
    assert held(sums, delta=1e-5).epsilon >= analytic(mu, 1e-5)
    assert held(replace(sums, numbers=0), delta=1e-5).epsilon == math.inf


WIDTH, CLASSES = 6, 3
PLAN = Plan(
    dataset="rows", method=FED_SUM, clients=4, cohort=4, rounds=5, local_steps=1, batch=8, client_size=8,
    learning_rate=1.0, model=SoftmaxRegression(NoisedMean(0.3), NoisedSecondMoment(0.5)), sampling=Whole(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "counted"),
    [
        (PLAN, (6, 21, 7 * 3)),
        (replace(PLAN, model=Mlp((4,))), (6 * 4 + 4 * 3,)),
        (replace(PLAN, model=Mlp((4,)), method=FED_SLACK), (36 + 4,)),
        (replace(PLAN, model=Mlp((4,)), method=replace(FED_SLACK, clip=Slack(4.0, per_layer=True))), (36 + 2 * 4,)),
    ],
    ids=["prepared", "network", "slots", "slots of layers"],
)
def test_the_numbers_that_a_client_noises_are_counted_for_each_kind_of_round(plan, counted):
    assert numbers_noised(plan, (WIDTH,), CLASSES) == counted


def test_a_run_tells_the_accountant_how_many_numbers_each_round_noises():
    rows = Split(np.zeros((32, WIDTH), np.float32), np.zeros(32, np.int32))
    budget = Budget(PLAN, Dataset("rows", rows, None, rows, tuple("abc")), copies=1)
    assert [r.numbers for r in budget.ledger(5, 5).sums] == [6, 21, 21, 21, 21]
