"""What secure sums spend: the design's table, and what the sampler's errors add, by formulas of their own."""

import math
from dataclasses import replace

import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from gradveil.accounting import discrete
from gradveil.accounting.accountant import account, guarantees
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.threats import THREATS, Loss

DELTA = 1e-5


def release(z, nodes, tolerated, t=0):
    return Release(
        round=t,
        surface=2,
        unit="example",
        part="sum",
        sigmas=(z,),
        ratio=1.0,
        layers=1,
        draw="sum",
        expected=100.0,
        capacity=100,
        client_size=100,
        share=True,
        example_sampling="whole",
        example_rate=1.0,
        touches=1,
        cohort_sampling="fixed",
        cohort_rate=1.0,
        cohort=nodes,
        honest=nodes - tolerated,
        copies=1,
        data_dependent=False,
        numbers=650,
        masked=True,
    )


def gaussian(mu):
    """Epsilon of mu-GDP at DELTA, by the formula of Balle and Wang."""

    def excess(eps):
        return norm.cdf(mu / 2 - eps / mu) - math.exp(eps) * norm.cdf(-mu / 2 - eps / mu) - DELTA

    return brentq(excess, 0, 100)


def epsilon(ledger, threat):
    return account(ledger, DELTA, "add-remove", threat).epsilon


@pytest.mark.parametrize(("nodes", "tolerated"), [(3, 1), (5, 1), (10, 3), (50, 16)])
def test_each_adversary_is_left_with_the_noise_of_those_it_does_not_know(nodes, tolerated):
    z, rounds, honest = 20.0, 12, nodes - tolerated
    ledger = Ledger(tuple(release(z, nodes, tolerated, t) for t in range(rounds)), rounds)
    mu = math.sqrt(rounds) / z
    for threat, factor in (
        ("aggregate", 1.0),
        ("central-visible", math.sqrt(honest / nodes)),
        ("alone", math.sqrt(honest)),
        ("server", math.sqrt(honest)),
    ):
        assert epsilon(ledger, threat) == pytest.approx(gaussian(mu * factor), rel=2e-3)


def test_every_attempt_is_spent():
    once = Ledger(tuple(release(20.0, 3, 1, t) for t in range(4)), 4)
    again = Ledger((*once.releases, release(20.0, 3, 1, 2)), 5)
    for threat in ("aggregate", "central-visible", "alone"):
        assert epsilon(again, threat) > epsilon(once, threat)
    assert epsilon(again, "aggregate") == pytest.approx(gaussian(math.sqrt(5) / 20), rel=2e-3)


def test_the_errors_of_the_sampler_are_charged_by_how_many_numbers_are_drawn():
    few = [release(20.0, 20, 6)]
    assert discrete.draws(few) == 650 * 20

    def at(delta):
        return Loss(-math.log(delta))

    eps = discrete.charged(at, DELTA, few).epsilon
    count = 650 * 20
    worst = 2 * count * 2.0**-45 + (-math.log(DELTA - (1 + 4 / DELTA) * count * 2.0**-60)) + count * 2.0**-45
    assert -math.log(DELTA) < eps <= worst + 1e-12
    many = [replace(few[0], numbers=10**13)]
    assert math.isinf(discrete.charged(at, DELTA, many).epsilon)
    assert math.isinf(discrete.charged(at, DELTA, [replace(few[0], numbers=0)]).epsilon)


def test_the_accountant_charges_them():
    ledger = Ledger((release(20.0, 20, 6),), 1)
    assert math.isfinite(epsilon(ledger, "aggregate"))
    beyond = Ledger((replace(ledger.releases[0], numbers=10**12),), 1)
    assert math.isinf(epsilon(beyond, "aggregate"))


def test_alone_is_a_row_of_secure_sums_only():
    ledger = Ledger((release(20.0, 3, 1),), 1)
    assert [g.threat_model for g in guarantees(ledger, DELTA, "add-remove")] == list(THREATS)
    plain = Ledger((replace(ledger.releases[0], masked=False),), 1)
    assert [g.threat_model for g in guarantees(plain, DELTA, "add-remove")] == [t for t in THREATS if t != "alone"]


def test_the_sums_say_whom_they_trust():
    ledger = Ledger((release(20.0, 5, 1),), 1)
    said = " ".join(account(ledger, DELTA, "add-remove", "aggregate").caveats)
    assert "at most 1 of the 5 nodes" in said
    assert "X25519" in said
    assert "does not encrypt" not in said
