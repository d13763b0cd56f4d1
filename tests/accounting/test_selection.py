"""What choosing the best of several trials costs, against the exact loss of a choice that can be integrated."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm, poisson

from gradveil.accounting.selection import RARE, epsilon_of_best, most_trials
from gradveil.accounting.steps import Step

DELTA = 1e-5


def curve(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - np.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def alone(mu):
    return brentq(lambda e: curve(mu, e) - DELTA, 0.0, 60.0)


def true_epsilon(trial, run, mean):
    """Return epsilon of the best of a Poisson number of trials, and of a run after them.

    A trial shows x ~ N(trial, 1) with the record and N(0, 1) without, and the largest x is chosen: with n ~ Poisson(m)
    the choice has the density m f(x) exp(-m (1 - F(x))), and is empty with probability exp(-m). The run is N(run, 1).
    """
    x = np.linspace(-12, 14, 20_001)

    def density(center):
        return mean * norm.pdf(x - center) * np.exp(-mean * norm.sf(x - center))

    def loss(one, other):
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(one > 0, np.log(one / other), 0.0)

        def excess(epsilon):
            inner = np.trapezoid(one * curve(run, epsilon - ratio), x)
            return inner + math.exp(-mean) * curve(run, epsilon) - DELTA

        return brentq(excess, 0.0, 60.0)

    return max(loss(density(trial), density(0.0)), loss(density(0.0), density(trial)))


@pytest.mark.parametrize("mean", [1.0, 4.0, 12.0])
@pytest.mark.parametrize(("trial", "run"), [(0.05, 0.1), (0.15, 0.3), (0.5, 1.0), (1.0, 1.0)])
def test_the_cost_of_a_choice_is_never_below_the_truth_and_one_left_out_would_be(trial, run, mean):
    claimed = epsilon_of_best([Step(1 / trial, 1.0, 1)], [Step(1 / run, 1.0, 1)], mean, DELTA)
    truth = true_epsilon(trial, run, mean)
    assert claimed >= truth
    assert alone(run) < truth
    assert epsilon_of_best([Step(1e6, 1.0, 1)], [Step(1 / run, 1.0, 1)], 1.0, DELTA) < truth


def test_a_secret_number_of_trials_costs_less_than_as_many_that_are_seen():
    claimed = epsilon_of_best([Step(1 / 0.15, 1.0, 1)], [Step(1 / 0.3, 1.0, 1)], 12.0, DELTA)
    assert claimed < alone(math.hypot(0.3, 0.15 * math.sqrt(most_trials(12.0))))


@pytest.mark.parametrize("mean", [1.0, 12.0, 100.0])
def test_there_are_hardly_ever_more_trials_than_are_composed(mean):
    assert poisson.sf(most_trials(mean), mean) <= RARE < poisson.sf(most_trials(mean) - 1, mean)
