"""The tight accountant against other ways to the same number: integrals of densities, simulation, closed forms."""

import math
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy.integrate import simpson
from scipy.optimize import brentq
from scipy.stats import binom, norm

from gradveil.accounting.accountant import account
from gradveil.accounting.curves import ADD, REMOVE, REPLACE, Curve, curve_of
from gradveil.accounting.losses import Repeated, compose, on_grid
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.steps import Step
from gradveil.accounting.tight import (
    gaussian_delta,
    gaussian_epsilon,
    hidden,
    losses,
    pld,
    pld_of_rounds,
    pld_with_visible_draws,
)

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


@pytest.mark.parametrize("way", [REMOVE, ADD, REPLACE])
def test_two_gaussians_on_the_grid_compose_to_the_closed_form(way):
    mu = math.hypot(1 / 4, 1 / 6) * (2 if way == REPLACE else 1)
    parts = tuple((on_grid(curve_of(Step(z, 1.0, 1), way), 1e-3), 1) for z in (4.0, 6.0))
    found = compose([Repeated(parts)]).epsilon(1e-5)
    exact = gaussian_epsilon(mu, 1e-5)
    assert exact - 1e-9 <= found <= exact + 2e-4


def test_many_gaussians_on_the_grid_compose_to_the_closed_form():
    grid = compose([Repeated(((on_grid(curve_of(Step(30.0, 1.0, 1), REMOVE), 5e-3), 400),))]).epsilon(1e-5)
    assert grid == pytest.approx(gaussian_epsilon(20 / 30, 1e-5), rel=4e-3)
    assert grid >= gaussian_epsilon(20 / 30, 1e-5) - 1e-9


@pytest.mark.parametrize(("z", "q"), [(1.0, 0.1), (2.0, 0.3)])
def test_one_sampled_gaussian_costs_what_its_integral_says(z, q):
    absent = bell(0.0, z)
    expected = solved(mixed(q, bell(1.0, z), absent), absent, 1e-5)
    assert expected - 1e-5 <= pld([Step(z, q, 1)], 1e-5) <= expected + 2e-4
    replacing = solved(mixed(q, bell(1.0, z), absent), mixed(q, bell(-1.0, z), absent), 1e-5)
    assert replacing - 1e-5 <= pld([Step(z, q, 1)], 1e-5, "replace-one") <= replacing + 2e-4


def delta_at(loss, epsilon):
    return float(loss.delta(np.array([epsilon]))[0])


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
        assert delta_at(losses([Step(z, q, steps)], way), epsilon) == pytest.approx(mean, abs=4 * error)
        wrong = delta_at(losses([Step(0.9 * z, q, steps)], way), epsilon)
        assert abs(wrong - mean) > 6 * error  # the simulation is sharp enough to see 10 % less noise


Z, QUERY, RATE = 4.0, 0.3, 0.2


@pytest.mark.parametrize("q", [QUERY, 1.0])
def test_a_hidden_draw_of_the_client_is_the_two_level_mixture(q):
    """L = T = 1: the client is drawn with RATE, then the record with q; all in all the record with RATE q."""
    absent = bell(0.0, Z)
    inside = mixed(q, bell(1.0, Z), absent)
    outer = mixed(RATE, inside, absent)
    ways = [losses([Step(Z, q, 1)], way) for way in (REMOVE, ADD)]
    remove, add = (on_grid(curve, 1e-4) for curve in hidden(*ways, RATE))
    for epsilon in EPSILONS:
        assert delta_at(remove, epsilon) == pytest.approx(stick(outer, absent, epsilon), abs=1e-5)
        assert delta_at(add, epsilon) == pytest.approx(stick(absent, outer, epsilon), abs=1e-5)
    expected = solved(outer, absent, 1e-5)
    assert pld_of_rounds([(Step(Z, q, 1),)], 1, RATE, 1e-5, "add-remove", True) == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("q", [QUERY, 1.0])
def test_a_seen_draw_of_the_client_is_a_mixture_of_losses(q):
    """The adversary gets the pair (drawn, x): a sum over `drawn` of integrals over x."""
    absent, inside = bell(0.0, Z), mixed(q, bell(1.0, Z), bell(0.0, Z))
    for way, pair in ((REMOVE, (inside, absent)), (ADD, (absent, inside))):
        seen = compose([Repeated(((losses([Step(Z, q, 1)], way), 1),), RATE)])
        for epsilon in EPSILONS:
            by_hand = RATE * stick(*pair, epsilon) + (1 - RATE) * max(0.0, -math.expm1(epsilon))
            assert delta_at(seen, epsilon) == pytest.approx(by_hand, abs=1e-5)
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
        assert delta_at(compose([Repeated(((ways[0], 1),), RATE)]), epsilon) >= real - 1e-9
    assert delta_at(on_grid(hidden(*ways, RATE)[0], 1e-4), 0.2) < 0.1 * RATE * gaussian_delta(1 / Z, 0.2)


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
    grid = on_grid(Curve(curve, -3.0, 4.0), 0.05)
    for epsilon in np.linspace(-2.9, 3.9, 57):
        assert delta_at(grid, epsilon) >= curve(epsilon) - 1e-12


WAYS = {REMOVE: AdjacencyType.REMOVE, ADD: AdjacencyType.ADD, REPLACE: AdjacencyType.REPLACE}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("z", "q"), [(0.3, 0.001), (0.5, 0.9), (1.0, 0.5), (6.0, 0.01), (50.0, 0.001)])
def test_the_curve_of_a_sampled_gaussian_is_that_of_dp_accounting(z, q, way):
    curve = curve_of(Step(z, q, 1), way)
    there = np.linspace(1.2 * curve.low, curve.high, 301)
    theirs = GaussianPrivacyLoss(z, sampling_prob=q, adjacency_type=WAYS[way]).get_delta_for_epsilon(there)
    np.testing.assert_allclose(curve.delta(there), np.asarray(theirs), rtol=1e-8, atol=2e-15)


def sampled_truth(z, q, times, delta, cells):
    """Give epsilon of sampled Gaussians by a way of its own: cut the line of outputs into slices, take the loss in the
    middle of each, share its mass between two cells so that the mean is kept, and multiply transforms.
    """
    found = 0.0
    x = np.linspace(-9.5 * z, 1 + 9.5 * z, 400_001)
    middle, edges = (x[1:] + x[:-1]) / 2, x
    loss = np.log1p(q * np.expm1((2 * middle - 1) / (2 * z * z)))
    without = np.diff(norm.cdf(edges / z))
    within = (1 - q) * without + q * np.diff(norm.cdf((edges - 1) / z))
    for values, mass in ((loss, within), (-loss, without)):
        mean, spread = times * (mass @ values), math.sqrt(times * (mass @ values**2))
        low, high = mean - 12 * spread + 2 * values.min(), mean + 12 * spread + 2 * values.max()
        h = (high - low) / cells
        place = values / h
        below = np.floor(place).astype(np.int64)
        circle = np.bincount(below % cells, mass * (below + 1 - place), cells)
        circle += np.bincount((below + 1) % cells, mass * (place - below), cells)
        total = np.fft.irfft(np.fft.rfft(circle) ** times, cells)
        start = math.floor(low / h)
        at = (start + np.arange(cells)) * h
        mass_at = np.maximum(np.roll(total, -(start % cells)), 0)
        found = max(found, crossing(at, mass_at, delta))
    return found


def crossing(losses_at, mass, delta):
    """Give the epsilon at which the hockey-stick of finite losses falls to delta."""

    def stick(epsilon):
        above = losses_at > epsilon
        return float(np.sum(mass[above] * -np.expm1(epsilon - losses_at[above])))

    return brentq(lambda e: stick(e) - delta, 0, losses_at[-1], xtol=1e-9) if stick(0) > delta else 0.0


@pytest.mark.parametrize("z", [0.7, *(pytest.param(z, marks=pytest.mark.slow) for z in (0.3, 2.0, 8.0, 20.0, 50.0))])
@pytest.mark.parametrize(("q", "times"), [(0.001, 1), (0.001, 10_000), (0.03, 300), (0.5, 20), (0.99, 2)])
def test_the_grid_is_within_three_percent_of_the_truth_and_never_below(z, q, times):
    fine, finer = (sampled_truth(z, q, times, 1e-5, 2**k) for k in (20, 21))
    assert fine == pytest.approx(finer, rel=2e-3, abs=1e-6)  # the truth itself has converged
    found = pld([Step(z, q, times)], 1e-5)
    assert finer * (1 - 2e-3) - 1e-6 <= found <= 1.03 * finer + 1e-6


def test_epsilons_of_dozens_are_finite_and_right_with_and_without_sampling():
    for q in (0.3, 0.9):
        found, truth = pld([Step(0.7, q, 40)], 1e-5), sampled_truth(0.7, q, 40, 1e-5, 2**21)
        assert 25 < truth * (1 - 1e-3) <= found <= 1.03 * truth


RECORDS, SHARE, SIGMA = 500, 0.01, 6.0


def test_a_client_whose_batch_is_drawn_costs_what_the_mixture_over_its_records_says():
    """All 500 records of a client against none: the batch holds a binomial number of them."""
    k = np.arange(41)
    weights = binom.pmf(k, RECORDS, SHARE)
    there = lambda x: sum(w * bell(float(i), SIGMA)(x) for i, w in zip(k, weights, strict=True))  # noqa: E731
    expected = solved(there, bell(0.0, SIGMA), 1e-5)
    assert expected == pytest.approx(5.14, abs=5e-3)
    assert pld([Step(SIGMA, SHARE, 1, RECORDS, 40)], 1e-5) == pytest.approx(expected, rel=5e-3)
    assert pld([Step(SIGMA / 5, 1.0, 1)], 1e-5) < 0.7 * expected  # a batch of exactly five would be cheaper


def test_vectors_of_a_clients_records_leak_no_more_than_their_lengths_on_a_line():
    """Records that point anywhere in the plane: the law of the noised sum against noise alone, integrated in 2-D."""
    rng, z, q = np.random.default_rng(3), 1.5, 0.4
    side = np.linspace(-14, 14, 561)
    u, v = np.meshgrid(side, side)
    area = (side[1] - side[0]) ** 2

    def plane(a, b):
        return np.exp(-((u - a) ** 2 + (v - b) ** 2) / (2 * z * z)) / (2 * math.pi * z * z)

    for aligned in (False, True):
        angles = np.zeros(3) if aligned else rng.uniform(0, 2 * math.pi, 3)
        sizes = np.ones(3) if aligned else rng.uniform(0.3, 1, 3)
        x, y = sizes * np.cos(angles), sizes * np.sin(angles)
        law = sum(
            q ** sum(s) * (1 - q) ** (3 - sum(s)) * plane(np.dot(s, x), np.dot(s, y)) for s in product((0, 1), repeat=3)
        )
        for way, (p, other) in {REMOVE: (law, plane(0, 0)), ADD: (plane(0, 0), law)}.items():
            bound = curve_of(Step(z, q, 1, 3), way)
            for epsilon in (0.0, 0.3, 1.0, 2.0):
                real = float(np.sum(np.maximum(0, p - math.exp(epsilon) * other)) * area)
                claimed = float(bound.delta(np.array([epsilon]))[0])
                assert real <= claimed + 5e-5  # what the squares of the plane are worth
                assert not aligned or claimed == pytest.approx(real, abs=1e-4)


def test_replacing_all_records_of_a_client_is_covered_too():
    weights = binom.pmf(np.arange(4), 3, 0.4)
    there = lambda x: sum(w * bell(float(i), 3.0)(x) for i, w in enumerate(weights))  # noqa: E731
    instead = lambda x: sum(w * bell(-float(i), 3.0)(x) for i, w in enumerate(weights))  # noqa: E731
    assert pld([Step(3.0, 0.4, 1, 3)], 1e-3, "replace-one") >= solved(there, instead, 1e-3)


def test_a_truncated_poisson_batch_adds_its_probability_to_delta_and_no_more():
    """Four others and the record, each joins with 0.3; the batch holds one, first come first served.

    Exact laws on the line: the record pushes by 1 and, where the batch is full, drives out another that pulls by 1.
    """
    q, z, size, hold = 0.3, 0.8, 5, 1
    others = [-1.0] * 4
    without, within, eta = np.zeros_like(LINE), np.zeros_like(LINE), 0.0
    for joins in product((0, 1), repeat=size - 1):
        weight = q ** sum(joins) * (1 - q) ** (size - 1 - sum(joins))
        values = [value for value, joined in zip(others, joins, strict=True) if joined]
        eta += weight * (sum(joins) >= hold)
        base, pushed = sum(values[:hold]), sum([1.0, *values][:hold])
        without += weight * bell(base, z)(LINE)
        within += weight * ((1 - q) * bell(base, z)(LINE) + q * bell(pushed, z)(LINE))
    for way, (p, other) in {REMOVE: (within, without), ADD: (without, within)}.items():
        curve = curve_of(Step(z, q, 1), way)
        for epsilon in (0.0, 0.5, 1.0, 2.0, 3.0):
            real = float(simpson(np.maximum(0.0, p - math.exp(epsilon) * other), x=LINE))
            assert real <= float(curve.delta(np.array([epsilon]))[0]) + eta
    # Were the probability of a cut forgotten, the claim would be false:
    real = float(simpson(np.maximum(0.0, within - math.exp(2.0) * without), x=LINE))
    assert real > float(curve_of(Step(z, q, 1), REMOVE).delta(np.array([2.0]))[0])


@pytest.mark.parametrize(("clients", "cohort"), [(10, 1), (2, 1), (10, 5)])
def test_noise_drawn_by_clients_does_not_let_a_secret_draw_hide_a_client(clients, cohort):
    """One round, every client that is drawn adds noise of 6: the law of the sum with the client's 1 and with its 0.

    The noise tells how many took part, so a draw hides less than where one noise is added at the server.
    """
    sigma, rate = 6.0, cohort / clients
    others = binom.pmf(np.arange(clients), clients - 1, rate)
    with_one = sum(rate * w * bell(1.0, sigma * math.sqrt(m + 1))(LINE_WIDE) for m, w in enumerate(others))
    with_zero = sum(rate * w * bell(0.0, sigma * math.sqrt(m + 1))(LINE_WIDE) for m, w in enumerate(others))
    absent = sum((1 - rate) * w * bell(0.0, sigma * math.sqrt(m))(LINE_WIDE) for m, w in enumerate(others) if m)

    def stick_of(p, q, epsilon):  # where nobody was drawn both laws have the same point mass, which cancels at most
        return float(simpson(np.maximum(0.0, p - math.exp(epsilon) * q), x=LINE_WIDE))

    pairs = ((with_one + absent, with_zero + absent), (with_zero + absent, with_one + absent))
    true = max(brentq(lambda e, p=p, q=q: stick_of(p, q, e) - 1e-5, 0.0, 5.0) for p, q in pairs)
    release = Release(
        round=0, surface=1, unit="client", part="sum", sigmas=(sigma,), ratio=1.0, layers=1, draw="sum", expected=1.0,
        capacity=1, client_size=10, share=False, example_sampling="fixed-pass", example_rate=0.1, touches=1,
        cohort_sampling="poisson", cohort_rate=rate, cohort=cohort, copies=1, data_dependent=False,
    )  # fmt: skip
    for threat in ("central", "client-central"):
        assert account(Ledger((release,), 1), 1e-5, "add-remove", threat).epsilon >= true
    believed = pld_of_rounds([(Step(sigma, 1.0, 1),)], 1, rate, 1e-5, "add-remove", secret=True)
    assert believed < true or cohort == 5


LINE_WIDE = np.linspace(-220.0, 221.0, 120_001)


@pytest.mark.parametrize("z", [1e-9, 1e-3, 0.01, 0.049, 0.051])
@pytest.mark.parametrize("secret", [True, False])
def test_hardly_any_noise_is_a_large_epsilon_and_no_error(z, secret):
    """Below a multiplier of 0.05 sampling is given no credit; the closed form holds, and so does Chernoff's bound."""
    exact = z**-2 / 2 + math.sqrt(2 * math.log(1e5)) / z
    for rate in (0.1, 1.0):
        found = pld_of_rounds([(Step(z, 1.0, 1),)], 1, rate, 1e-5, "add-remove", secret)
        assert 0.3 * exact < found <= 1.01 * exact + 1
    assert 0.3 * exact < pld_with_visible_draws([Step(z, 0.5, 1)], 1e-5) <= 1.01 * exact + 1


@pytest.mark.parametrize(
    ("z", "times", "delta"), [(30.0, 200_000, 1e-12), (96.43, 1_000_000, 1e-13), (50.0, 10_000, 1e-9)]
)
def test_what_rounding_takes_from_a_tiny_delta_is_charged(z, times, delta):
    """Sampled at nearly 1, so that the closed form is the truth and the grid is used all the same."""
    found = pld([Step(z, 1 - 1e-9, times)], delta)
    assert found >= gaussian_epsilon(math.sqrt(times) / z, delta) * (1 - 1e-6)


def test_cells_wider_than_any_exponent_are_answered():
    assert pld([Step(0.06, 0.999, 10_000_000)], 1e-5) > 1e8
