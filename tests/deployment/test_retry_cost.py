"""What is said about failed attempts before a run begins."""

import math

import pytest
from scipy.optimize import brentq
from scipy.stats import norm
from sums_in_memory import SUMS

from gradveil.deployment.retry_cost import retry_costs, sentence
from gradveil.runs.budget import Budget


def gaussian(mu, delta):
    return brentq(lambda e: norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta, 0, 100)


def test_a_repeated_round_costs_its_own_noise_once_more(tiny):
    budget = Budget(SUMS, tiny(), 1)
    costs = retry_costs(SUMS, budget)
    squares = [1 / z**2 for z in SUMS.sigmas()[:, 0]]
    # The threat model of the plan is `server`: the noise of one node of 4, of which 1 is tolerated.
    for stage, more in (("", 0.0), ("mean", squares[0]), ("second-moment", squares[1]), ("gradient", squares[2])):
        assert costs[stage] == pytest.approx(gaussian(math.sqrt(3 * (sum(squares) + more)), SUMS.delta), rel=3e-3)
    said = sentence(SUMS, budget)
    sum_alone = [budget.epsilon(SUMS.rounds, SUMS.rounds, whom) for whom in ("aggregate", "central-visible", "alone")]
    assert "aggregate {:.3g}, central-visible {:.3g}, alone {:.3g}.".format(*sum_alone) in said
    assert "against server" in said
    assert f"second-moment {costs['second-moment']:.3g}" in said
    assert budget.epsilon(SUMS.rounds, SUMS.rounds, "server") == costs[""]
