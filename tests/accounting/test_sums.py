"""Sums over clients: what those learn who see no client alone. Closed forms by scipy, and laws drawn at random."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from gradveil.accounting.accountant import account
from gradveil.accounting.caveats import NO_SUMS
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.threats import THREATS

DELTA, CLIENTS = 1e-5, 25


def analytic(mu, delta=DELTA):
    """Epsilon of N(mu, 1) against N(0, 1): Phi(mu/2 - e/mu) - exp(e) Phi(-mu/2 - e/mu) = delta."""

    def excess(epsilon):
        return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(excess, 0.0, 60.0, xtol=1e-13)


def release(t=0, **changes):
    fields = {
        "surface": 2, "unit": "example", "part": "sum", "sigmas": (4.0,), "ratio": 1.0, "layers": 1, "draw": "sum",
        "expected": 20.0, "capacity": 20, "client_size": 20, "share": False, "example_sampling": "whole",
        "example_rate": 1.0, "touches": 1, "cohort_sampling": "fixed", "cohort_rate": 1.0, "cohort": CLIENTS,
        "copies": 1, "data_dependent": False,
    }  # fmt: skip
    return Release(round=t, **(fields | changes))


def epsilon(threat, *releases, times=None):
    held = Ledger(releases, len(releases) if times is None else times)
    return account(held, DELTA, "add-remove", threat).epsilon


STAGES = (24.75, 8.41, *(17.0,) * 10)
"""Noise multipliers of a mean, a second moment and ten gradients: sound.md's at epsilon .823."""


def staged(**changes):
    return tuple(release(t, sigmas=(sigma,), **changes) for t, sigma in enumerate(STAGES))


MU = math.sqrt(sum(1 / z**2 for z in STAGES))


def test_the_stages_of_the_recipe_cost_the_epsilon_that_they_were_made_for():
    assert analytic(MU) == pytest.approx(0.823, abs=5e-4)


@pytest.mark.parametrize("threat", ["server", "type2-known", "type2-secret"])
def test_own_noise_costs_its_closed_form_against_whoever_sees_a_client(threat):
    assert epsilon(threat, *staged()) == pytest.approx(analytic(MU), abs=1e-6)


@pytest.mark.parametrize("threat", ["aggregate", "central", "central-visible"])
def test_own_noise_of_a_cohort_adds_up_in_its_sum(threat):
    assert epsilon(threat, *staged()) == pytest.approx(analytic(MU / math.sqrt(CLIENTS)), abs=1e-6)


@pytest.mark.parametrize("threat", ["aggregate", "central", "central-visible"])
def test_shares_of_the_noise_add_up_to_all_of_it(threat):
    assert epsilon(threat, *staged(share=True)) == pytest.approx(analytic(MU), abs=1e-6)
    assert epsilon("server", *staged(share=True)) == pytest.approx(analytic(MU * math.sqrt(CLIENTS)), abs=1e-6)


@pytest.mark.parametrize("honest", [20, 13, 1])
def test_shares_made_for_fewer_honest_clients_protect_against_the_others(honest):
    shared = staged(share=True, honest=honest)
    assert epsilon("aggregate", *shared) == pytest.approx(analytic(MU), abs=1e-6)
    assert epsilon("central-visible", *shared) == pytest.approx(analytic(MU * math.sqrt(honest / CLIENTS)), abs=1e-6)


def test_dishonest_clients_subtract_their_own_noise():
    assert epsilon("aggregate", *staged(honest=9)) == pytest.approx(analytic(MU / 3), abs=1e-6)


def test_every_stage_is_counted():
    for left_out in range(3):
        fewer = [r for r in staged() if r.round != left_out]
        for threat in ("aggregate", "server", "central-visible"):
            assert epsilon(threat, *fewer) < epsilon(threat, *staged()) * 0.999


@pytest.mark.parametrize("copies", [2, 4, 9])
def test_copies_of_a_record_move_one_sum_together(copies):
    """c copies move the sum by c under the noise of 25 clients, 5 sigma."""
    mu = copies / 5 * MU
    for threat in ("aggregate", "central-visible"):
        assert epsilon(threat, *staged(copies=copies)) == pytest.approx(analytic(mu), abs=1e-6)


def test_more_copies_than_honest_clients_fall_back_to_what_the_server_sees():
    few = staged(copies=4, honest=2)
    assert epsilon("aggregate", *few) == epsilon("server", *few) == pytest.approx(analytic(2 * MU), abs=1e-6)


NOT_PROVED = {
    "poisson batches": {"example_sampling": "poisson", "example_rate": 0.5},
    "replacement": {"example_sampling": "replacement"},
    "poisson cohorts": {"cohort_sampling": "poisson", "cohort_rate": 0.5},
    "several steps": {"sigmas": (40.0, 40.0), "example_sampling": "fixed-pass"},
    "squares are learned": {"sum_only": False},
}


@pytest.mark.parametrize("changes", NOT_PROVED.values(), ids=list(NOT_PROVED))
def test_where_it_is_not_proved_sums_cost_what_the_server_sees_and_say_so(changes):
    held = Ledger(tuple(release(t, **({"sigmas": (40.0,)} | changes)) for t in range(2)), 2)
    found, server = (account(held, DELTA, "add-remove", threat) for threat in ("aggregate", "server"))
    assert found.epsilon == server.epsilon
    assert NO_SUMS in found.caveats


def test_noise_at_the_server_and_bare_counts_leave_the_sum_bare():
    update = {"unit": "client", "expected": 1.0}
    count = replace(release(), part="count", surface=0)
    assert math.isinf(epsilon("aggregate", release(surface=0, **update)))
    assert math.isinf(epsilon("aggregate", release(), count))
    assert epsilon("aggregate", release(surface=1, **update)) == pytest.approx(analytic(1 / 20), abs=1e-6)


def test_squares_that_are_learned_from_single_updates_do_not_share_their_noise_with_the_models():
    """The spread that AdaClip learns is no function of the sum, so the models show more than a sum."""
    update = release(surface=1, unit="client", expected=1.0, sum_only=False)
    assert epsilon("central-visible", update) == epsilon("server", update) == pytest.approx(analytic(1 / 4), abs=1e-6)


def test_participation_in_fewer_rounds_costs_the_costliest_of_them():
    expected = math.sqrt(1 / 8.41**2 + 1 / 17.0**2) / math.sqrt(CLIENTS)
    assert epsilon("aggregate", *staged(), times=2) == pytest.approx(analytic(expected), abs=1e-6)


def test_who_sees_less_of_a_cohort_learns_less():
    for changes in ({}, {"share": True, "honest": 20}, {"copies": 3}, {"cohort_rate": 0.4}):
        seen = [epsilon(threat, *staged(**changes)) for threat in ("central-visible", "aggregate", "server")]
        assert seen == sorted(seen)
        assert seen[0] < seen[2]


def test_a_guarantee_for_sums_names_the_clients_that_it_trusts():
    held = Ledger(staged(share=True, honest=20), len(STAGES))
    said = " ".join(account(held, DELTA, "add-remove", "aggregate").caveats)
    assert "at least 20 of 25 clients" in said
    assert "secure aggregation" in said
    assert list(THREATS).index("aggregate") < list(THREATS).index("server")


@pytest.mark.parametrize(("noise", "covered"), [(1.0, True), (0.8, False)])
def test_drawn_sums_of_two_neighbors_keep_to_the_epsilon_and_less_noise_does_not(noise, covered):
    """Draw the sum of 25 noises with and without a record of length 1; the likeliest event of loss > epsilon."""
    rng, z, rounds, n = np.random.default_rng(0), 0.35, 2, 400_000
    epsilon_claimed = account(
        Ledger(tuple(release(t, sigmas=(z,)) for t in range(rounds)), rounds), 1e-2, "add-remove", "aggregate"
    ).epsilon
    std = noise * z * math.sqrt(CLIENTS)
    with_it = 1.0 + std * rng.normal(size=(n, rounds))
    without = std * rng.normal(size=(n, rounds))
    threshold = (epsilon_claimed + rounds / (2 * std**2)) * std**2
    p, q = (float(np.mean(x.sum(axis=1) > threshold)) for x in (with_it, without))
    error = 4 * math.sqrt(p / n)
    assert (p - math.exp(epsilon_claimed) * q <= 1e-2 + error) == covered
