import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import binom, norm

from gradveil.auditing import bounds
from gradveil.auditing.bounds import Guesses


@pytest.mark.parametrize(("successes", "trials"), [(0, 7), (3, 7), (7, 7), (41, 50)])
def test_clopper_pearson_limits_leave_exactly_the_miss_in_each_tail(successes, trials):
    low, high = bounds.at_least(successes, trials, 0.95), bounds.at_most(successes, trials, 0.95)
    assert low == 0 if successes == 0 else binom.sf(successes - 1, trials, low) == pytest.approx(0.05)
    assert high == 1 if successes == trials else binom.cdf(successes, trials, high) == pytest.approx(0.05)


def test_a_test_without_an_error_shows_what_the_counts_allow():
    # both limits are alpha^(1/n) from their ends, at half of the miss each
    edge = 0.025 ** (1 / 300)
    expected = math.log((edge - 1e-5) / (1 - edge))
    assert bounds.epsilon_of_guesses(Guesses(300, 300, 0, 300), 1e-5, 0.95) == pytest.approx(expected)
    assert bounds.ceiling_of_guesses(300, 300, 1e-5, 0.95) == pytest.approx(expected)


def test_a_test_read_the_other_way_round_counts_what_it_did_not_say():
    assert Guesses(90, 100, 20, 80).reversed == Guesses(60, 80, 10, 100)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_the_bound_of_guesses_exceeds_the_truth_as_rarely_as_it_says(epsilon):
    # randomized response is exactly epsilon: how often the bound is above it can be summed over all outcomes
    n, p = 40, 1 / (1 + math.exp(-epsilon))
    chances = [binom.pmf(np.arange(n + 1), n, q) for q in (p, 1 - p)]
    wrong = sum(
        chances[0][hits] * chances[1][alarms]
        for hits in range(n + 1)
        for alarms in range(n + 1)
        if bounds.epsilon_of_guesses(Guesses(hits, n, alarms, n), 0.0, 0.9) > epsilon
    )
    assert 0 < wrong <= 0.1


@pytest.mark.parametrize(("m", "v", "r", "delta", "epsilon"), [(10, 8, 7, 0.0, 0.5), (12, 6, 5, 1e-3, 1.0)])
def test_the_chance_of_one_run_is_the_formula_written_out(m, v, r, delta, epsilon):
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    mass = [math.comb(v, k) * p**k * (1 - p) ** (v - k) for k in range(v + 1)]
    beta = sum(mass[r:])
    alpha = max(sum(mass[r - i : r]) / i for i in range(1, r + 1))
    assert bounds.one_run_chance(m, v, r, delta, epsilon) == pytest.approx(beta + 2 * m * delta * alpha)


@pytest.mark.parametrize(
    ("m", "v", "r", "refutes"), [(200, 50, 41, True), (200, 50, 40, False), (5000, 1000, 720, True)]
)
def test_one_run_refutes_the_papers_figure_from_as_many_right_guesses_as_were_computed_elsewhere(m, v, r, refutes):
    assert (bounds.epsilon_of_one_run(m, v, r, 1e-5, 0.95) > 0.823) is refutes


def test_guesses_by_chance_show_nothing_in_one_run():
    assert bounds.epsilon_of_one_run(100, 100, 50, 1e-5, 0.95) == 0
    assert bounds.mu_of_one_run(100, 100, 50, 0.95) == 0


@pytest.mark.parametrize(
    ("m", "v", "r", "delta", "confidence", "expected"),
    [
        (100, 50, 45, 1e-5, 0.95, 2.793021),
        (400, 200, 130, 1e-5, 0.975, 0.548881),
        (400, 200, 200, 1e-5, 0.975, 7.492599),
        (1000, 300, 223, 1e-5, 0.95, 1.388981),
    ],
)
def test_the_gaussian_bound_of_one_run_is_that_of_jax_privacy(m, v, r, delta, confidence, expected):
    # computed by jax_privacy 2.0.0, auditing._epsilon_one_run_fdp
    mu = bounds.mu_of_one_run(m, v, r, confidence)
    assert bounds.epsilon_of_mu(mu, delta) == pytest.approx(expected, abs=2e-6)


def test_the_gaussian_bound_of_one_run_exceeds_the_truth_as_rarely_as_it_says():
    # independent canaries, each seen with noise of one: mu is exactly 1, and the quarters at the ends are guessed
    random, found, bound = np.random.default_rng(3), [], cache(bounds.mu_of_one_run)
    for _ in range(400):
        inside = random.integers(0, 2, 200).astype(bool)
        order = np.argsort(inside + random.normal(size=200))
        right = int(np.sum(~inside[order[:50]]) + np.sum(inside[order[150:]]))
        found.append(bound(200, 100, right, 0.95))
    assert np.mean(np.array(found) > 1) <= 0.05
    assert 0.3 < np.median(found) < 1


@pytest.mark.parametrize(
    ("rho", "d", "expected"), [(1.001, 10, 0.016), (1.01, 1000, 1.87), (1.1, 1000, 30.2), (1.05, 34720, 143)]
)
def test_noise_of_two_sizes_costs_what_the_page_on_soundness_says(rho, d, expected):
    assert bounds.epsilon_of_scales(rho, 1.0, d, 1e-5) == pytest.approx(expected, rel=0.02)


def test_noise_of_two_sizes_in_one_coordinate_costs_what_integration_says():
    epsilon = bounds.epsilon_of_scales(2.0, 1.0, 1, 0.05)
    x = np.linspace(-40, 40, 2_000_001)
    wide, narrow = norm.pdf(x, scale=2.0), norm.pdf(x)
    deltas = [np.trapezoid(np.maximum(a - math.exp(epsilon) * b, 0), x) for a, b in ((wide, narrow), (narrow, wide))]
    assert max(deltas) == pytest.approx(0.05, abs=1e-6)


def test_noise_that_is_missing_on_one_side_is_as_large_as_can_be_said():
    assert bounds.epsilon_of_scales(1.0, 0.0, 3, 1e-5) == bounds.MOST_EPSILON
    assert bounds.epsilon_of_scales(1.0, 1.0, 3, 1e-5) == 0


def test_a_draw_hides_a_release_as_the_mixture_does():
    # (1 - q) Q + q P against Q for randomized response, whose hockey-stick divergence is piecewise linear
    q, p, delta = 0.3, 0.9, 0.05

    def certain(at):
        return math.log((p - at) / (1 - p))

    mixed = q * p + (1 - q) * (1 - p)
    expected = math.log((mixed - delta) / (1 - p))
    assert bounds.hidden_by_a_draw(certain, q, delta) == pytest.approx(expected)


def test_the_limit_of_noise_is_above_its_scale_and_near_it():
    noise = np.random.default_rng(0).normal(scale=3.0, size=20_000)
    assert 3.0 < bounds.noise_limit(noise, 1 - 1e-6) < 3.15


def test_mu_of_a_gaussian_pair_is_bounded_from_below_and_tightly():
    random = np.random.default_rng(1)
    hits, alarms = (int(np.sum(random.normal(at, 1, 40_000) >= 0.5)) for at in (1.0, 0.0))
    assert 0.95 < bounds.mu_of_guesses(Guesses(hits, 40_000, alarms, 40_000), 0.95) < 1.0
