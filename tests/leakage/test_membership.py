"""Membership: scores against the two normals that Gaussian noise makes of them, and against what guarantees allow."""

import math
from dataclasses import dataclass, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gradveil.attacks.membership import Membership, likelihood_ratios
from gradveil.attacks.reference_models import beside_usual, margins
from gradveil.attacks.score import Truth
from gradveil.attacks.zoo import ANALYTIC
from gradveil.data.dataset import Dataset, Split
from gradveil.data.partition import Iid
from gradveil.errors import BadInput
from gradveil.federation.leaks import Read, Tap
from gradveil.federation.plan import Plan
from gradveil.leakage import scenes
from gradveil.leakage.attack_record import Verdict
from gradveil.leakage.attack_run import attack, leak_of, public_half
from gradveil.leakage.membership_record import MembershipRecord, RateRecord
from gradveil.leakage.membership_trials import _of_run
from gradveil.leakage.verdict import verdict
from gradveil.methods import FED_CDP, FED_SDP_CLIENT, FED_SUM, NON_PRIVATE
from gradveil.models.gradients import per_example_gradients
from gradveil.models.networks import Mlp
from gradveil.privacy.clip import Flat
from gradveil.privacy.schedule import Constant
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.surface import Surface

SHAPE, CLASSES, BATCH, CLIENTS = (6, 6, 1), 4, 3, 12
SERVER, UPDATE, EXAMPLE = Surface


@dataclass(frozen=True)
class Softmax:
    """x W + b."""

    def init(self, key, shape, classes):
        return 0.3 * jax.random.normal(key, (math.prod(shape), classes)), jnp.zeros(classes)

    def apply(self, params, x):
        return x.reshape(-1) @ params[0] + params[1]


@cache
def dataset():
    random = np.random.default_rng(0)

    def split(n):
        x = random.uniform(0, 255, (n, *SHAPE)).astype(np.uint8)
        return Split(x, random.integers(0, CLASSES, n).astype(np.int32))

    return Dataset("tiny", split(CLIENTS * BATCH), None, split(800), tuple("abcd"))


def scene(method, tap, **changes):
    plan = Plan(
        dataset="tiny",
        method=method,
        clients=CLIENTS,
        cohort=4,
        rounds=2,
        local_steps=1,
        batch=BATCH,
        client_size=BATCH,
        learning_rate=0.1,
        model=Softmax(),
        partition=Iid(),
        seed=3,
    )
    return scenes.fresh(replace(plan, **changes), dataset(), tap)


def noised(mu, parent=FED_CDP, c=1e-2, **changes):
    """Every gradient is clipped, so that each has norm c, and the noise is c / mu."""
    return replace(parent, clip=Flat(c), noise=Constant(1 / mu), **changes)


KNOWN = {
    "example": (noised(0.8), Tap(EXAMPLE), 0.8),
    "sum of shares": (noised(0.8, FED_SUM, share=True, honest=0.75), Tap(SERVER, "aggregate"), 0.8),
}
SLOWER = {
    "update": (noised(0.8), Tap(UPDATE), 0.8),
    "sum of four": (noised(1.6), Tap(SERVER, "aggregate"), 0.8),
}


@pytest.mark.parametrize(
    ("method", "tap", "mu"),
    [
        *(pytest.param(*case, id=name) for name, case in KNOWN.items()),
        *(pytest.param(*case, id=name, marks=pytest.mark.slow) for name, case in SLOWER.items()),
    ],
)
def test_the_scores_are_the_log_ratios_of_two_normals_that_are_mu_apart(method, tap, mu):
    """With the record N(mu^2/2, mu^2), without it N(-mu^2/2, mu^2): so TPR = Phi(Phi^-1(FPR) + mu) at every FPR."""
    leak, truth = leak_of(scene(method, tap), 1, public_half(dataset()))
    assert leak.mu == pytest.approx(mu)
    candidates = Truth(leak.public.x[:400], leak.public.y[:400])
    told = likelihood_ratios(leak, truth, 1, candidates, jax.random.key(5))
    standard = np.concatenate([told.members - mu**2 / 2, told.others + mu**2 / 2]) / mu
    assert stats.kstest(standard, stats.norm.cdf).pvalue > 1e-3
    assert stats.kstest(standard / 1.5, stats.norm.cdf).pvalue < 1e-4  # a wrong scale is seen


def within(rate, mu):
    """Whether TPR and false alarms agree with a shift of mu, each within its interval."""
    low, high = (stats.norm.cdf(stats.norm.ppf(max(end, 1e-12)) + mu) for end in rate.false_alarm_ci)
    return rate.tpr_ci[0] <= high and low <= rate.tpr_ci[1]


@pytest.fixture(scope="module")
def found():
    return attack(scene(noised(1.5), Tap(EXAMPLE)), Membership(), 5).record.membership


def test_measured_rates_lie_on_the_curve_of_gaussian_noise(found):
    assert (found.members, found.others + found.calibration) == (4005, 4005)
    assert found.auc_ci[0] < stats.norm.cdf(1.5 / math.sqrt(2)) < found.auc_ci[1]
    for rate in found.rates:
        assert within(rate, 1.5)
        assert not within(rate, 3.0)
        assert rate.bound == pytest.approx(stats.norm.cdf(stats.norm.ppf(rate.fpr) + 1.5))


def test_an_unprotected_batch_gives_its_members_away():
    record = attack(scene(NON_PRIVATE, Tap(SERVER)), Membership(pairs=400), 5).record
    assert record.verdict == "leaks"
    assert record.membership.auc == 1
    assert record.membership.rates[0].tpr is None  # 200 others set no threshold for one false alarm in a thousand
    assert record.membership.rates[1].tpr == 1
    assert record.membership.rates[1].bound is None
    assert record.gain == pytest.approx(0, abs=1e-9)  # nothing is rebuilt


def test_noise_of_fed_cdp_stops_it_where_theory_says(found):
    record = attack(scene(noised(0.05), Tap(EXAMPLE)), Membership(), 5).record
    assert record.verdict == "nothing-found"
    assert record.membership.auc_ci[1] < 0.55
    for rate in record.membership.rates:
        assert rate.tpr_ci[0] <= rate.bound < 1.25 * rate.fpr


@pytest.mark.slow
def test_noise_on_updates_bounds_a_record_by_two_updates_of_its_client():
    told = attack(scene(noised(0.5, FED_SDP_CLIENT), Tap(UPDATE)), Membership(pairs=400), 5).record.membership
    assert told.mu == pytest.approx(2 * 0.5)


# From a trained model


@cache
def memorized(steps, sigma=None):
    """Random labels learned by heart in so many steps: params of an Mlp, trained on all clients' records.

    sigma: as Fed-CDP does it, every gradient clipped to 1 and the sum noised by sigma.
    """
    model, data = Mlp(hidden=(64,), bias=True), dataset()
    params = model.init(jax.random.key(0), SHAPE, CLASSES)
    x, y = jnp.asarray(data.train.x / 255.0, jnp.float32), jnp.asarray(data.train.y)

    def clipped(lot):
        norms = jnp.sqrt(sum(jnp.sum(jnp.square(a.reshape(len(y), -1)), axis=1) for a in jax.tree.leaves(lot)))
        return jax.tree.map(lambda a: jnp.tensordot(jnp.minimum(1, 1 / norms), a, 1), lot)

    def step(p, key):
        lot = per_example_gradients(model, p, x, y)
        if sigma is None:
            mean = jax.tree.map(lambda a: jnp.mean(a, axis=0), lot)
        else:
            leaves, shape = jax.tree.flatten(clipped(lot))
            keys = jax.random.split(key, len(leaves))
            noised = [a + sigma * jax.random.normal(k, a.shape) for a, k in zip(leaves, keys, strict=True)]
            mean = jax.tree.map(lambda a: a / len(y), shape.unflatten(noised))
        return jax.tree.map(lambda a, g: a - 0.5 * g, p, mean), None

    return model, jax.lax.scan(step, params, jax.random.split(jax.random.key(8), steps))[0]


def row(epsilon, threat="central", unit="example"):
    return GuaranteeRecord(
        epsilon=epsilon,
        finite=epsilon is not None,
        delta=1e-5,
        unit=unit,
        threat_model=threat,
        adjacency="add-or-remove-one",
        sampling="",
        accountant="pld",
        noise_source="seeded",
        caveats=(),
    )


def read_model(steps, guarantees, sigma=None):
    model, params = memorized(steps, sigma)
    fresh = scene(NON_PRIVATE, Tap(EXAMPLE), model=model)
    nothing = jax.tree.map(np.zeros_like, params)
    rows = np.arange(CLIENTS * BATCH).reshape(CLIENTS, BATCH)
    return replace(
        fresh,
        tap=Tap(SERVER, "model"),
        trained=True,
        guarantees=guarantees,
        read=lambda client, r: Read(params, (), nothing, nothing, rows[client]),
    )


def test_a_model_that_learned_its_records_by_heart_gives_its_members_away():
    record = attack(read_model(600, (row(None),)), Membership(references=1), CLIENTS).record
    told = record.membership
    assert (record.verdict, told.reads, told.members, told.others, told.calibration) == ("leaks", "model", 36, 200, 200)
    assert told.auc > 0.95
    assert told.rates[0].tpr is None
    assert told.rates[1].tpr_ci[0] > 0.01
    assert told.rates[1].bound is None
    assert "no finite epsilon" in told.guarantee


def test_a_model_that_learned_nothing_does_not_and_its_bound_is_that_of_the_strongest_guarantee():
    guarantees = (row(2.0), row(0.5, "central-visible"), row(0.1, "type2-known"))
    told = attack(read_model(0, guarantees), Membership(references=1), CLIENTS).record.membership
    assert told.auc_ci[0] < 0.5 < told.auc_ci[1]
    assert (told.epsilon, told.threat_model) == (0.5, "central-visible")
    assert told.rates[1].bound == pytest.approx(math.exp(0.5) * 0.01 + 1e-5)
    assert told.rates[1].tpr_ci[0] <= told.rates[1].bound


def test_noise_of_fed_cdp_keeps_members_of_a_trained_model_within_its_epsilon_and_clipping_alone_does_not():
    # mu = sqrt(600) / sigma = 1 / 4.4, which is (1, 1e-5)-DP by the exact Gaussian trade-off.
    private = attack(read_model(600, (row(1.0),), 4.4 * math.sqrt(600)), Membership(references=1), CLIENTS).record
    told = private.membership
    assert private.verdict != "leaks"
    assert told.auc_ci[0] <= stats.norm.cdf(1 / 4.4 / math.sqrt(2))
    assert told.auc < 0.65
    assert told.rates[1].bound == pytest.approx(math.e * 0.01 + 1e-5)
    assert told.rates[1].tpr_ci[0] <= told.rates[1].bound
    control = attack(read_model(600, (row(None),), 0.0), Membership(references=1), CLIENTS).record
    assert control.verdict == "leaks"
    assert control.membership.auc > 0.9


def test_a_guarantee_for_clients_counts_twice_for_a_record_of_one():
    allowed = _of_run([row(0.5, unit="client")])
    assert (allowed.epsilon, allowed.delta) == (1.0, pytest.approx((1 + math.exp(0.5)) * 1e-5))
    assert _of_run([]).power is None


def test_a_margin_is_the_log_odds_of_the_label():
    model, params = memorized(0)
    x, y = dataset().test.x[:7] / np.float32(255), dataset().test.y[:7]
    for found, one, label in zip(margins(model, params, x, y), x, y, strict=True):
        p = np.asarray(jax.nn.softmax(model.apply(params, one)), np.float64)[label]
        assert found == pytest.approx(math.log(p / (1 - p)), abs=1e-4)


def test_what_all_models_find_easy_is_no_sign_of_membership():
    usual = np.random.default_rng(0).normal(size=200)
    own = 3 * usual - 1
    own[150:] += 5.0  # members
    rest = beside_usual(own, usual, slice(0, 100))
    np.testing.assert_allclose(rest[:150], 0, atol=1e-9)
    np.testing.assert_allclose(rest[150:], 5, atol=1e-9)


def told_by(low, high, rates=()):
    nothing = {"guarantee": "", "mu": None, "epsilon": None, "delta": None, "threat_model": None}
    sizes = {"members": 100, "others": 50, "calibration": 50}
    ends = {"auc": (low + high) / 2, "auc_ci": (low, high), "rates": rates}
    return MembershipRecord(reads="model", score="", **sizes, **ends, **nothing)


def rate(tpr_ci, alarm_ci):
    return RateRecord(
        fpr=0.01, needed=99, hits=0, tpr=0.0, tpr_ci=tpr_ci, false_alarms=0, false_alarm_ci=alarm_ci, bound=None
    )


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (told_by(0.51, 0.55), "leaks"),
        (told_by(0.49, 0.54), "nothing-found"),
        (told_by(0.4, 0.6), "too-few-victims"),
        (told_by(0.49, 0.52, (rate((0.03, 0.05), (0.005, 0.02)),)), "leaks"),
        (told_by(0.49, 0.52, (rate((0.01, 0.05), (0.005, 0.02)),)), "nothing-found"),
    ],
)
def test_the_verdict_on_membership_rests_on_intervals_above_chance(told, expected):
    assert verdict((0.0, 0.0), 0.25, (), False, membership=told) == expected
    assert expected in Verdict.__args__


def test_other_attacks_refuse_to_read_a_model():
    with pytest.raises(BadInput, match="view = 'model': the attack analytic reads gradients"):
        attack(read_model(0, ()), ANALYTIC, 1)
