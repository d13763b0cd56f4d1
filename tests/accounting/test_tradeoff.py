"""What a guarantee allows a test, against the privacy curve of the Gaussian mechanism written out here."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from gradveil.accounting.tradeoff import approximate_power, gaussian_power, of_pairs

FPRS = (0.001, 0.01, 0.3, 0.9)


def delta_of(mu, epsilon):
    """delta(epsilon) of two unit normals that are mu apart."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


@pytest.mark.parametrize("mu", [0.2, 1.0, 3.0])
@pytest.mark.parametrize("fpr", FPRS)
def test_the_best_of_all_epsilons_of_gaussian_noise_allows_what_its_best_test_reaches(mu, fpr):
    allowed = [approximate_power(e, delta_of(mu, e), fpr) for e in np.linspace(0, 8 * mu + mu * mu, 4000)]
    assert min(allowed) == pytest.approx(gaussian_power(mu, fpr), abs=1e-4)


def test_the_best_test_between_two_normals_is_a_cut():
    draws = np.random.default_rng(0).normal(size=200_000)
    cut = np.quantile(draws, 0.99)
    assert gaussian_power(1.0, 0.01) == pytest.approx(np.mean(draws + 1.0 > cut), abs=0.003)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_two_steps_cover_noise_with_twice_the_shift(epsilon):
    twice, delta = of_pairs(epsilon, delta_of(0.7, epsilon))
    assert delta >= delta_of(1.4, twice)
    assert twice == 2 * epsilon


def test_no_privacy_allows_everything_and_perfect_privacy_nothing():
    assert approximate_power(math.inf, 1e-5, 0.01) == 1
    assert approximate_power(0.0, 0.0, 0.01) == pytest.approx(0.01)
    assert approximate_power(1000.0, 1e-5, 0.01) == pytest.approx(1)
