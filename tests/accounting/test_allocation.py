"""Random allocation against integrals and simulation of its own: never below the truth, and close to it."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm

from gradveil.accounting.accountant import account
from gradveil.accounting.caveats import CUT
from gradveil.accounting.curves import ADD, REMOVE, REPLACE, curve_of
from gradveil.accounting.participation import batches, worst
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.steps import Step
from gradveil.accounting.tight import (
    exchanged,
    gaussian_delta,
    gaussian_epsilon,
    losses,
    pld,
    pld_of_rounds,
    pld_with_visible_draws,
)

DELTA = 1e-5


def delta_of(step, way, epsilon):
    return float(curve_of(step, way).delta(np.array([epsilon]))[0])


def call(x, z):
    """Return E max(0, Y - x) of the likelihood ratio Y of N(1, z^2) over N(0, z^2), under the latter."""
    if x <= 0:
        return 1 - x
    at = z * (math.log(x) + 0.5 / z**2)
    return float(norm.sf(at - 1 / z) - x * norm.sf(at))


def of_two(z, epsilon):
    """Integrate both hockey-sticks of one of two lots over the first lot's noise; the second's is a closed form."""

    def integral(f):
        def weighted(u):
            return norm.pdf(u) * f(math.exp(u / z - 0.5 / z**2))

        return quad(weighted, -11, 11 + 1 / z, epsabs=1e-14, limit=500, points=[-1, 0, 1 / z])[0]

    e = math.exp(epsilon)
    removed = integral(lambda y: call(2 * e - y, z) / 2)
    added = integral(lambda y: e / 2 * (call(2 / e - y, z) - 1 + (2 / e - y)))
    return {REMOVE: removed, ADD: added}


@pytest.mark.parametrize("z", [0.6, 1.0, 2.0])
@pytest.mark.parametrize("epsilon", [-0.5, 0.0, 0.3, 1.0])
def test_one_of_two_lots_costs_what_an_integral_says_and_never_less(z, epsilon):
    for way, expected in of_two(z, epsilon).items():
        found = delta_of(Step(z, 0.5, 1, lots=2), way, epsilon)
        assert expected * (1 - 1e-9) <= found <= expected * 1.004


@pytest.mark.parametrize("lots", [2, 49])
@pytest.mark.parametrize("epsilon", [40.0, 50.0])
def test_with_next_to_no_noise_large_losses_are_not_overlooked(lots, epsilon):
    """Without the unit the ratio of densities is far below 2^-52; there 1 + x would be 1."""
    rng, z, draws = np.random.default_rng(2), 0.08, 20_000
    logs = rng.normal(-0.5 / z**2, 1 / z, (draws, lots))
    gain = np.maximum(0, -np.expm1(np.minimum(epsilon + logsumexp(logs, axis=1) - math.log(lots), 0.0)))
    found = delta_of(Step(z, 1 / lots, 1, lots=lots), ADD, epsilon)
    error = gain.std() / math.sqrt(draws)
    assert gain.mean() - 4 * error <= found <= 1.01 * gain.mean() + 4 * error
    assert found > 0.05


def simulated(z, period, lots, rounds, epsilon, draws):
    """Estimate both hockey-sticks from drawn outputs: the noised sums of `lots` of `period` batches in every round."""
    rng = np.random.default_rng(11)

    def log_ratio(x):
        inside = np.exp((2 * x - 1) / (2 * z * z)).sum(axis=-1)
        return np.log((period - lots + inside) / period).sum(axis=0)

    without = rng.normal(0, z, (rounds, draws, lots))
    place = rng.integers(0, period, (rounds, draws, 1))
    with_record = rng.normal(0, z, (rounds, draws, lots)) + (place == np.arange(lots))
    gains = {
        REMOVE: np.maximum(0, -np.expm1(epsilon - log_ratio(with_record))),
        ADD: np.maximum(0, -np.expm1(epsilon + log_ratio(without))),
    }
    return {way: (gain.mean(), gain.std() / math.sqrt(draws)) for way, gain in gains.items()}


@pytest.mark.parametrize(
    ("z", "period", "lots", "rounds", "epsilon"),
    [(1.0, 3, 3, 1, 0.5), (0.7, 4, 4, 1, 1.0), (1.5, 8, 8, 3, 0.4), (1.0, 6, 2, 2, 0.2), (2.0, 5, 5, 6, 0.5)],
)
def test_allocated_batches_cost_what_simulation_says_in_both_directions(z, period, lots, rounds, epsilon):
    """Whole passes, passes cut short, and several of them composed; 10 % less noise would be seen."""
    for way, (mean, error) in simulated(z, period, lots, rounds, epsilon, 100_000).items():
        found, wrong = (
            float(losses([Step(s, 1 / period, rounds, lots=lots)], way).delta(np.array([epsilon]))[0])
            for s in (z, 1.1 * z)
        )
        assert mean - 4 * error <= found <= mean * 1.006 + 4 * error
        assert wrong < mean - 4 * error


def test_an_adversary_who_turns_the_vector_by_what_was_seen_gains_nothing():
    """The second vector depends on the first release: the likelihood ratio of that attack, drawn, stays below."""
    rng, z, epsilon, draws = np.random.default_rng(3), 1.0, 0.5, 400_000
    first = rng.integers(0, 2, draws) == 0
    x = rng.normal(0, z, draws) + first
    length = np.where(x > 0.5, 0.3, 1.0)  # as a gradient at other parameters may be
    y = rng.normal(0, z, draws) + np.where(first, 0.0, length)
    ratio = (np.exp((2 * x - 1) / 2 / z**2) + np.exp((2 * y * length - length**2) / 2 / z**2)) / 2
    gain = np.maximum(0, 1 - math.exp(epsilon) / ratio)
    assert gain.mean() - 4 * gain.std() / math.sqrt(draws) <= delta_of(Step(z, 0.5, 1, lots=2), REMOVE, epsilon)


@pytest.mark.parametrize(("z", "lots", "passes"), [(6.0, 100, 10), (2.0, 20, 3), (1.0, 2, 1)])
def test_allocation_costs_at_most_what_poisson_batches_do_and_far_less_than_a_fixed_pass(z, lots, passes):
    allocated = pld([Step(z, 1 / lots, passes, lots=lots)], DELTA)
    poisson = pld([Step(z, 1 / lots, passes * lots)], DELTA)
    assert 0.7 * poisson < allocated < poisson
    assert allocated < 0.9 * gaussian_epsilon(math.sqrt(passes) / z, DELTA)


def test_the_published_bounds_of_the_papers_setting_enclose_ours():
    """The package PLD_accounting (Feldman and Shenfeld 2026) has 0.1674 to 0.1751 for sigma 6, 100 steps, 10 epochs."""
    assert 0.1674 < pld([Step(6.0, 0.01, 10, lots=100)], DELTA) < 0.1751


def test_one_lot_is_the_gaussian_and_a_pass_cut_to_one_step_the_sampled_gaussian():
    release = made(example_rate=1.0, sigmas=(2.0,) * 3, client_size=2)
    assert batches(release) == (Step(2.0, 1.0, 3),)
    assert account(Ledger((release,), 1), DELTA, "add-remove", "server").epsilon == pytest.approx(
        gaussian_epsilon(math.sqrt(3) / 2.0, DELTA), abs=1e-6
    )
    cut = batches(made(example_rate=0.25, sigmas=(2.0,)))
    assert cut == (Step(2.0, 0.25, 1),)


def test_who_knows_the_batches_sees_one_gaussian_a_pass():
    assert pld_with_visible_draws([Step(2.0, 1 / 49, 4, lots=49)], DELTA) == gaussian_epsilon(1.0, DELTA)
    short = pld_with_visible_draws([Step(2.0, 0.1, 1, lots=3)], DELTA)
    assert short == pytest.approx(gaussian_epsilon(0.5, DELTA / 0.3), abs=1e-3)


def test_exchanging_a_record_costs_at_least_what_two_far_records_show():
    """Records that pull one lot to opposite sides: P = mean of N(e_i), Q = mean of N(-e_i), drawn."""
    rng, z, lots, draws = np.random.default_rng(5), 1.5, 4, 400_000
    x = rng.normal(0, z, (draws, lots)) + (rng.integers(0, lots, (draws, 1)) == np.arange(lots))
    there, other = (np.exp(sign * x / z**2).mean(axis=1) for sign in (1, -1))
    step, delta = Step(z, 1 / lots, 1, lots=lots), 0.01
    epsilon = pld([step], delta, "replace-one")
    gain = np.maximum(0, 1 - math.exp(epsilon) * other / there)
    assert gain.mean() + 4 * gain.std() / math.sqrt(draws) <= delta
    through_nothing = exchanged(losses([step], REMOVE), losses([step], ADD), delta)
    assert pld([step], delta) < epsilon <= through_nothing
    assert epsilon <= gaussian_epsilon(2 / z, delta)
    with pytest.raises(ValueError, match="remove and add only"):
        curve_of(step, REPLACE)


def test_the_worse_direction_is_the_one_that_is_quoted():
    step = Step(1.0, 0.1, 1, lots=10)
    removed, added = (losses([step], way).epsilon(DELTA) for way in (REMOVE, ADD))
    assert removed > 1.2 * added
    assert pld([step], DELTA) == pytest.approx(removed, rel=1e-6)


def test_rounds_that_are_seen_to_happen_compose_like_any_others():
    step = Step(3.0, 0.1, 2, lots=10)
    seen = pld_of_rounds([(step,)] * 3, 2, 0.5, DELTA, "add-remove", False)
    always = pld_of_rounds([(step,)] * 3, 2, 1.0, DELTA, "add-remove", False)
    assert pld([step], DELTA) < seen < always == pytest.approx(pld([step._replace(times=12)], DELTA), rel=1e-6)


def made(**changes):
    fields = {
        "round": 0, "surface": 2, "unit": "example", "part": "sum", "sigmas": (6.0,) * 10, "ratio": 1.0, "layers": 1,
        "draw": "sum", "expected": 2.0, "capacity": 12, "client_size": 20, "share": False,
        "example_sampling": "allocation", "example_rate": 0.1, "touches": 1, "cohort_sampling": "fixed",
        "cohort_rate": 1.0, "cohort": 4, "copies": 1, "data_dependent": False,
    }  # fmt: skip
    return Release(**(fields | changes))


def test_a_pass_has_the_least_noise_of_its_batches_and_the_next_pass_its_own():
    falling = tuple(float(s) for s in range(30, 5, -1))
    assert batches(made(sigmas=falling)) == (
        Step(6.0, 0.1, 1, lots=5),
        Step(11.0, 0.1, 1, lots=10),
        Step(21.0, 0.1, 1, lots=10),
    )


def test_the_rounds_that_are_charged_have_no_more_noise_than_any_that_may_have_happened():
    sigmas = [(9.0, 2.0, 7.0, 7.0), (5.0, 5.0, 4.0, 4.0), (3.0, 8.0, 9.0, 6.0)]
    rounds = [made(round=t, sigmas=s, example_rate=0.5) for t, s in enumerate(sigmas)]
    charged = worst(rounds, 2)
    assert [r.sigmas for r in charged] == [(2.0, 2.0, 4.0, 4.0), (3.0, 3.0, 6.0, 6.0)]
    most = account(Ledger(tuple(rounds), 2), DELTA, "add-remove", "server").epsilon
    for left_out in range(3):
        happened = tuple(r for r in rounds if r.round != left_out)
        assert account(Ledger(happened, 2), DELTA, "add-remove", "server").epsilon <= most + 1e-9


def test_a_fixed_pass_keeps_no_amplification():
    allocated, passed = (
        account(Ledger((made(example_sampling=name),), 1), DELTA, "add-remove", "server").epsilon
        for name in ("allocation", "fixed-pass")
    )
    assert passed == pytest.approx(gaussian_epsilon(1 / 6, DELTA), abs=1e-6)
    assert allocated < 0.6 * passed


@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_exchanging_is_removing_and_adding_with_delta_split_as_is_best(delta):
    """For one Gaussian both curves are closed forms, and the best split is searched for here on a grid of its own."""
    mu = 0.5
    ways = [losses([Step(1 / mu, 1.0, 1)], way) for way in (REMOVE, ADD)]
    found = exchanged(*ways, delta)
    paid = [
        gaussian_delta(mu, a) + math.exp(a) * gaussian_delta(mu, found - a) for a in np.linspace(0.0, found, 400)[1:-1]
    ]
    assert 0.97 * delta < min(paid) <= delta
    assert found > gaussian_epsilon(2 * mu, delta)


def test_what_a_truncated_batch_shows_is_taken_from_delta():
    held = Ledger((made(),) * 3, 3)
    assert account(held, 2.9e-14, "add-remove", "server").caveats[0] == CUT
    whole = replace(held, releases=(made(example_rate=1.0),) * 3)
    assert CUT not in account(whole, 2.9e-14, "add-remove", "server").caveats
