"""The tight accountant against other ways to the same number: integrals of densities, simulation, closed forms."""

import math

import numpy as np
import pytest
from scipy.integrate import simpson
from scipy.optimize import brentq
from scipy.stats import norm

from gradveil.accounting import tight
from gradveil.accounting.steps import Step
from gradveil.accounting.tight import (
    composed,
    gaussian_delta,
    gaussian_epsilon,
    hidden,
    losses,
    on_grid,
    pld,
    pld_of_rounds,
    pld_with_visible_draws,
    visible,
)

REMOVE, ADD = tight._DIRECTIONS["add-remove"]
EPSILONS = (-0.3, 0.0, 0.05, 0.2, 0.5)


LINE = np.linspace(-50.0, 90.0, 70_001)


def stick(p, q, epsilon):
    """Integrate max(0, p - e^epsilon q) over the line."""
    return float(simpson(np.maximum(0.0, p(LINE) - math.exp(epsilon) * q(LINE)), x=LINE))


def solved(p, q, delta):
    """Give the epsilon at which the integral equals delta, the larger of both directions."""
    return max(brentq(lambda e, a=a, b=b: stick(a, b, e) - delta, 0.0, 30.0, xtol=1e-6) for a, b in ((p, q), (q, p)))


def bell(mean, z):
    return lambda x: np.exp(-0.5 * ((x - mean) / z) ** 2) / (z * math.sqrt(2 * math.pi))


def mixed(rate, inside, outside):
    return lambda x: rate * inside(x) + (1 - rate) * outside(x)


@pytest.mark.parametrize("z", [0.8, 2.0, 6.0])
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_a_gaussian_costs_what_the_integral_of_its_densities_says(z, delta):
    expected = solved(bell(1.0, z), bell(0.0, z), delta)
    assert gaussian_epsilon(1 / z, delta) == pytest.approx(expected, abs=1e-5)
    assert pld([Step(z, 1.0, 1)], delta) == pytest.approx(expected, abs=1e-5)
    assert pld([Step(z, 1.0, 1)], delta, "replace-one") == pytest.approx(gaussian_epsilon(2 / z, delta), abs=1e-9)


def test_the_closed_form_is_right_where_nothing_or_everything_is_lost():
    assert gaussian_epsilon(0.0, 1e-5) == 0
    assert gaussian_epsilon(1e-6, 1e-5) == 0
    assert gaussian_epsilon(math.inf, 1e-5) == math.inf
    for mu, epsilon in ((0.5, 0.0), (1.0, 2.0), (3.0, 1.0)):
        by_tails = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
        assert gaussian_delta(mu, epsilon) == pytest.approx(by_tails, rel=1e-12)
    assert gaussian_delta(5.0, gaussian_epsilon(5.0, 1e-12)) == pytest.approx(1e-12, rel=1e-5)


@pytest.mark.parametrize("way", [REMOVE, ADD], ids=["remove", "add"])
def test_two_gaussians_on_the_grid_compose_to_the_closed_form(way):
    z = (4.0, 6.0)
    exact = gaussian_epsilon(math.hypot(1 / 4, 1 / 6), 1e-5)
    both = composed(losses([Step(one, 1.0, 1)], way) for one in z)
    found = both.get_epsilon_for_delta(1e-5)
    assert exact - 1e-9 <= found <= exact + 2e-4


def test_many_gaussians_on_the_grid_compose_to_the_closed_form():
    grid = losses([Step(30.0, 1.0, 400)], REMOVE).get_epsilon_for_delta(1e-5)
    assert grid == pytest.approx(gaussian_epsilon(20 / 30, 1e-5), rel=2e-3)
    assert grid >= gaussian_epsilon(20 / 30, 1e-5) - 1e-9


@pytest.mark.parametrize(("z", "q"), [(1.0, 0.1), (2.0, 0.3)])
def test_one_sampled_gaussian_costs_what_its_integral_says(z, q):
    absent = bell(0.0, z)
    expected = solved(mixed(q, bell(1.0, z), absent), absent, 1e-5)
    assert expected - 1e-5 <= pld([Step(z, q, 1)], 1e-5) <= expected + 2e-4
    replacing = solved(mixed(q, bell(1.0, z), absent), mixed(q, bell(-1.0, z), absent), 1e-5)
    assert replacing - 1e-5 <= pld([Step(z, q, 1)], 1e-5, "replace-one") <= replacing + 2e-4


def simulated(z, q, steps, epsilon, draws=400_000):
    """Estimate both hockey-sticks of `steps` sampled Gaussians by drawing outputs: means and their standard errors."""
    rng = np.random.default_rng(7)

    def ratio(x):
        return np.log1p(q * np.expm1((2 * x - 1) / (2 * z * z))).sum(axis=0)

    noise = rng.normal(0, z, (steps, draws))
    there = rng.random((steps, draws)) < q
    gains = (np.maximum(0, -np.expm1(epsilon - ratio(noise + there))), np.maximum(0, -np.expm1(epsilon + ratio(noise))))
    return [(g.mean(), g.std() / math.sqrt(draws)) for g in gains]


@pytest.mark.parametrize(("z", "q", "steps", "epsilon"), [(1.0, 0.2, 5, 0.5), (2.0, 0.1, 10, 0.1)])
def test_sampled_gaussians_composed_cost_what_simulation_says(z, q, steps, epsilon):
    for way, (mean, error) in zip((REMOVE, ADD), simulated(z, q, steps, epsilon), strict=True):
        assert losses([Step(z, q, steps)], way).get_delta_for_epsilon(epsilon) == pytest.approx(mean, abs=4 * error)
        wrong = losses([Step(0.9 * z, q, steps)], way).get_delta_for_epsilon(epsilon)
        assert abs(wrong - mean) > 6 * error  # the simulation is sharp enough to see 10 % less noise


Z, QUERY, RATE = 4.0, 0.3, 0.2


@pytest.mark.parametrize("q", [QUERY, 1.0])
def test_a_hidden_draw_of_the_client_is_the_two_level_mixture(q):
    """L = T = 1: the client is drawn with RATE, then the record with q; all in all the record with RATE q."""
    absent = bell(0.0, Z)
    inside = mixed(q, bell(1.0, Z), absent)
    outer = mixed(RATE, inside, absent)
    ways = [losses([Step(Z, q, 1)], way) for way in (REMOVE, ADD)]
    remove, add = hidden(*ways, RATE, 1e-4, 2.0)
    for epsilon in EPSILONS:
        assert remove.get_delta_for_epsilon(epsilon) == pytest.approx(stick(outer, absent, epsilon), abs=1e-5)
        assert add.get_delta_for_epsilon(epsilon) == pytest.approx(stick(absent, outer, epsilon), abs=1e-5)
    expected = solved(outer, absent, 1e-5)
    assert pld_of_rounds([(Step(Z, q, 1),)], 1, RATE, 1e-5, "add-remove", True) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("q", [QUERY, 1.0])
def test_a_seen_draw_of_the_client_is_a_mixture_of_losses(q):
    """The adversary gets the pair (drawn, x): a sum over `drawn` of integrals over x."""
    absent, inside = bell(0.0, Z), mixed(q, bell(1.0, Z), bell(0.0, Z))
    for way, pair in ((REMOVE, (inside, absent)), (ADD, (absent, inside))):
        seen = visible(losses([Step(Z, q, 1)], way), RATE, 1e-4)
        for epsilon in EPSILONS:
            by_hand = RATE * stick(*pair, epsilon) + (1 - RATE) * max(0.0, -math.expm1(epsilon))
            assert seen.get_delta_for_epsilon(epsilon) == pytest.approx(by_hand, abs=1e-5)
    expected = solved(inside, absent, 1e-5 / RATE)
    assert pld_of_rounds([(Step(Z, q, 1),)], 1, RATE, 1e-5, "add-remove", False) == pytest.approx(expected, abs=2e-4)


def test_a_seen_draw_of_the_batch_shrinks_delta_not_epsilon():
    for adjacency, reach in (("add-remove", 1.0), ("replace-one", 2.0)):
        found = pld_with_visible_draws([Step(Z, QUERY, 1)], 1e-5, adjacency)
        assert found == pytest.approx(gaussian_epsilon(reach / Z, 1e-5 / QUERY), abs=2e-4)


def test_a_client_that_looks_quite_different_when_absent_is_not_hidden_by_its_draw():
    """A far from B and B' leaves RATE times the stick of B and B', as if it were seen: so quote central-visible."""
    far, there, without = bell(40.0, Z), bell(1.0, Z), bell(0.0, Z)
    with_record, less_record = mixed(RATE, there, far), mixed(RATE, without, far)
    for epsilon in (0.05, 0.2, 0.5):
        real = stick(with_record, less_record, epsilon)
        assert real == pytest.approx(RATE * gaussian_delta(1 / Z, epsilon), abs=1e-6)
        ways = [losses([Step(Z, 1.0, 1)], way) for way in (REMOVE, ADD)]
        assert visible(ways[0], RATE, 1e-4).get_delta_for_epsilon(epsilon) >= real - 1e-9
    assert hidden(*ways, RATE, 1e-4, 2.0)[0].get_delta_for_epsilon(0.2) < 0.1 * RATE * gaussian_delta(1 / Z, 0.2)


def test_rounds_compose_and_copies_are_drawn_anew():
    rounds = [(Step(Z, QUERY, 2),)] * 2
    for secret in (True, False):
        twice = pld_of_rounds(rounds, 1, RATE, 1e-5, "add-remove", secret)
        assert pld_of_rounds(rounds[:1], 2, RATE, 1e-5, "add-remove", secret) == pytest.approx(twice, rel=1e-9)
        assert pld_of_rounds(rounds[:1], 1, RATE, 1e-5, "add-remove", secret) < twice
    for copies in (1, 3):
        always = pld_of_rounds(rounds, copies, 1.0, 1e-5, "add-remove", True)
        assert always == pld([Step(Z, QUERY, 4 * copies)], 1e-5)
    assert pld_of_rounds([], 1, RATE, 1e-5, "add-remove", True) == 0


def test_a_curve_on_a_grid_is_never_below_the_curve():
    curve = np.vectorize(lambda e: gaussian_delta(0.5, float(e)))
    grid = on_grid(curve, -3.0, 4.0, 0.05)
    for epsilon in np.linspace(-2.9, 3.9, 57):
        assert grid.get_delta_for_epsilon(float(epsilon)) >= curve(epsilon) - 1e-12
