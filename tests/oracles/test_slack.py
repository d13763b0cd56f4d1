"""Slack: unit and slots together stay within C, both are noised alike, and C follows; against loops in NumPy."""

import math
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import optimize, stats

from gradveil.accounting.accountant import account
from gradveil.accounting.release import Ledger
from gradveil.data.dataset import Dataset, Split
from gradveil.data.partition import Iid
from gradveil.engines.serial import Serial
from gradveil.federation.engine import Population
from gradveil.federation.ledger import releases
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import rounds
from gradveil.federation.server import init
from gradveil.keys import Keys
from gradveil.methods import FED_SLACK
from gradveil.models.gradients import per_example_gradients
from gradveil.models.networks import Mlp
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import combine, split_static
from gradveil.privacy.sanitize import cross, cross_sum
from gradveil.privacy.schedule import Constant
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface

SHAPES = ((3, 2), (4,))
C = 2.0
KINDS = {
    "flat": Slack(C, low=0.01),
    "per-layer": Slack(C, low=0.01, per_layer=True),
    "one-slot": Slack(C, low=0.01, slots=1, unused=0.2),
    "most-slots": Slack(C, low=0.01, slots=32),
}
EACH_KIND = pytest.mark.parametrize("clip", KINDS.values(), ids=KINDS)


def method_of(clip, surface=Surface.EXAMPLE, draw=Draw.SUM):
    return replace(FED_SLACK, clip=clip, surface=surface, draw=draw)


@partial(jax.jit, static_argnums=(0, 1, 3))
def crossed(kind, surface, units, expected, numbers, mask, sigma, state, key):
    return cross(surface, combine(kind, numbers), units, mask, expected, sigma, state, key)


def crossing(method, units, sigma=0.0, state=C, mask=None, key=0):
    kind, numbers = split_static(method)
    n = len(units[0])
    mask = jnp.ones(n) if mask is None else jnp.asarray(mask, jnp.float32)
    given = (numbers, mask, jnp.float32(sigma), jnp.float32(state), jax.random.key(key))
    return crossed(kind, method.surface, units, n, *given)


def units_of(norms, seed=0, shares=None):
    """Units of given norms in random directions; shares: how much of each is in the first layer."""
    rng = np.random.default_rng(seed)
    parts = [rng.normal(size=(len(norms), math.prod(s))) for s in SHAPES]
    parts = [p / np.linalg.norm(p, axis=1, keepdims=True) for p in parts]
    shares = rng.uniform(0, 1, len(norms)) if shares is None else np.broadcast_to(shares, len(norms))
    with np.errstate(invalid="ignore"):
        sizes = np.asarray(norms, np.float64)[:, None] * np.sqrt(np.stack([shares, 1 - shares], axis=1))
    made = [p * sizes[:, [m]] for m, p in enumerate(parts)]
    with np.errstate(over="ignore", invalid="ignore"):
        return tuple(jnp.asarray(p.reshape(-1, *s), jnp.float32) for p, s in zip(made, SHAPES, strict=True))


def numpy_slots(clip, units, c=C):
    """The slots of each unit, [n, sets, K], in float64 loops."""
    slots = np.zeros((len(units[0]), len(SHAPES) if clip.per_layer else 1, clip.slots))
    for j in range(len(units[0])):
        layers = [math.sqrt(sum(float(g) ** 2 for g in np.ravel(u[j]))) for u in units]
        for m, norm in enumerate(layers if clip.per_layer else [math.hypot(*layers)]):
            for k in range(1, clip.slots + 1):
                level = c / math.sqrt(2**k)
                slots[j, m, k - 1] = level if norm <= level else 0
    return slots


def adversarial():
    """Norms on, just below and just above every threshold, beyond the bound, without size and without end."""
    levels = C * 2.0 ** (-0.5 * np.arange(0, 34))
    near = [levels * (1 + d) for d in (0, 6e-8, -6e-8, 1e-6, -1e-6, 1e-4, -1e-4)]
    return np.concatenate([*near, [0.0, 1e-30, 1.5, 10.0, 1e10, 1e18, 1e25, np.inf, np.nan]])


@partial(jax.jit, static_argnums=(0, 1))
def one_by_one(kind, surface, numbers, units, state):
    """What each unit releases as a lot of its own, without noise: the gradient and its slots."""

    def alone(unit):
        lot = jax.tree.map(lambda a: a[None], unit)
        out = cross(surface, combine(kind, numbers), lot, jnp.ones(1), 1, 0.0, state, jax.random.key(0))
        return out.used, out.statistics[0] * state

    return jax.vmap(alone)(units)


@EACH_KIND
@pytest.mark.parametrize("surface", Surface)
def test_a_unit_and_its_slots_together_never_exceed_the_bound(clip, surface):
    norms = np.concatenate([adversarial(), C * 2.0 ** np.random.default_rng(1).uniform(-8, 2, 200)])
    shares = np.repeat([0.0, 1.0, 0.5, 0.3, 1e-6], len(norms))  # of the squared norm in the first layer
    kind, numbers = split_static(method_of(clip, surface))
    for state in (C, 0.3, 0.07):
        used, slots = one_by_one(kind, surface, numbers, units_of(np.tile(norms, 5) * state / C, 0, shares), state)
        squares = np.stack([np.square(np.asarray(u, np.float64)).reshape(len(u), -1).sum(1) for u in used], axis=1)
        squares = squares if clip.per_layer else squares.sum(1, keepdims=True)
        together = np.sqrt(squares + np.square(np.asarray(slots, np.float64)).sum(2))
        assert np.isfinite(together).all()
        assert together.max() <= state * (1 + 1e-5)
        assert together.max() >= state * (1 - 1e-5)  # the bound is used, not avoided
        assert (slots > 0).any()


@EACH_KIND
@pytest.mark.parametrize("draw", Draw)
def test_without_noise_the_slots_are_the_loop(clip, draw):
    norms, mask = C * 2.0 ** np.random.default_rng(2).uniform(-3, 1, 9), np.array([1, 1, 0, 1, 0, 1, 1, 1, 0])
    units = units_of(norms)
    mean, variance, count = crossing(method_of(clip, draw=draw), units, mask=mask).statistics
    expected = np.einsum("j,jmk->mk", mask, numpy_slots(clip, units)) / 9
    np.testing.assert_allclose(np.asarray(mean) * C, expected, rtol=1e-5)
    assert expected.max() > 0
    assert (float(variance), float(count)) == (0, 1)


@partial(jax.jit, static_argnums=(0, 1))
def many(kind, surface, numbers, units, sigma, state, keys):
    """The released vector with its slots for many keys, and the variance that is told."""

    def once(key):
        n = len(units[0])
        out = cross(surface, combine(kind, numbers), units, jnp.ones(n), n, sigma, state, key)
        return jnp.concatenate([*(u.ravel() for u in out.used), out.statistics[0].ravel() * state]), out.statistics[1]

    return jax.vmap(once)(keys)


WHERE = [(Surface.EXAMPLE, draw) for draw in Draw] + [(Surface.UPDATE, Draw.SUM), (Surface.SERVER, Draw.SUM)]


@pytest.mark.parametrize("clip", [KINDS["flat"], KINDS["per-layer"]], ids=["flat", "per-layer"])
@pytest.mark.parametrize(("surface", "draw"), WHERE)
def test_slots_and_gradient_carry_the_same_independent_noise_of_the_bound_in_force(clip, surface, draw):
    """After adaptation too: the noise is sigma times the C that clips in this round."""
    units, sigma, n, d = units_of(np.geomspace(0.05, 5, 6)), 0.7, 6, sum(math.prod(s) for s in SHAPES)
    kind, numbers = split_static(method_of(clip, surface, draw))
    keys = jax.random.split(jax.random.key(3), 1500)
    for state in (C, C / 5):
        drawn, variances = many(kind, surface, numbers, units, sigma, state, keys)
        quiet, _ = many(kind, surface, numbers, units, 0.0, state, keys)
        noise = np.asarray(drawn - quiet, np.float64)
        std = sigma * state * {Draw.EACH: 1 / math.sqrt(n), Draw.SUM: 1 / n, Draw.MEAN: 1}[draw]
        for part in (noise[:, :d], noise[:, d:]):
            assert stats.kstest(part.ravel() / std, "norm").pvalue > 1e-4
        correlations = np.corrcoef(noise.T) - np.eye(noise.shape[1])
        assert np.abs(correlations).max() < 5.5 / math.sqrt(1500)
        np.testing.assert_allclose(variances, (std / state) ** 2, rtol=1e-5)


@EACH_KIND
def test_a_sum_without_units_has_the_same_slots_and_the_same_noise(clip):
    units, method = units_of(np.geomspace(0.05, 50, 7)), method_of(clip)
    norms = jnp.stack([jnp.sqrt(jnp.sum(jnp.square(u.reshape(7, -1)), axis=1)) for u in units], axis=1)

    def sums(weigh):
        weights = weigh(norms, jnp.ones(7))
        return norms, tuple(jnp.einsum("j,j...->...", weights[:, m], u) for m, u in enumerate(units))

    rule = combine(*split_static(method))
    found = cross_sum(rule, sums, jnp.ones(7), 7, jnp.float32(0.4), jnp.float32(1.1), jax.random.key(0))
    expected = crossing(method, units, 0.4, state=1.1)
    for part in ("used", "statistics"):
        for a, b in zip(jax.tree.leaves(getattr(found, part)), jax.tree.leaves(getattr(expected, part)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def moved(clip, c, slots, variance, crossings):
    """The rule for C in float64, from the mean slots [sets, K] over C."""
    weights = [2 ** (-k / 2) for k in range(1, clip.slots + 1)]
    unused = np.mean([sum(w * s for w, s in zip(weights, row, strict=True)) for row in slots])
    noise = variance / crossings * (1 - 2.0**-clip.slots) / len(slots)
    gain = clip.eta / (1 + clip.eta * noise / clip.drift**2)
    return min(max(c * math.exp(gain * (clip.unused - unused)), clip.low or clip.c / 10), clip.high or clip.c)


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("sigma", [0.0, 0.5, 8.0])
def test_the_bound_moves_by_the_formula_from_noised_slots(per_layer, sigma):
    clip = Slack(3.0, low=0.5, high=6.0, unused=0.4, eta=0.8, drift=0.2, per_layer=per_layer)
    c, state = 3.0, jnp.float32(3.0)
    for t in range(12):
        units = units_of((0.02 if t < 7 else 50) * np.exp(np.random.default_rng(t).normal(size=6)), t)
        told = [crossing(method_of(clip), units, sigma, c, key=k).statistics for k in (2 * t, 2 * t + 1)]
        summed = jax.tree.map(jnp.add, *told)
        state = clip.update(state, summed, jnp.asarray(12.0), jax.random.key(9))
        slots = np.mean([np.asarray(one[0], np.float64) for one in told], axis=0)
        c = moved(clip, c, slots, (sigma / 6) ** 2, 2)
        assert float(state) == pytest.approx(c, rel=1e-4)
        assert sigma > 1 or t != 6 or c == 0.5  # the envelope is reached
    assert 0.5 < c <= 6.0


@pytest.mark.parametrize("start", [0.02, 50.0])
@pytest.mark.parametrize("sigma", [0.0, 3.0])
def test_from_far_off_the_bound_finds_the_units_that_leave_what_is_wanted(start, sigma):
    """All norms are 1, so slot k is filled where C >= 2^(k/2): half of C^2 is unused from sqrt(2) to 2 at most."""
    clip, units = Slack(start, low=0.01, high=100.0, unused=0.5), units_of(np.ones(20))
    state, path = jnp.float32(start), []
    for t in range(120):
        told = crossing(method_of(clip), units, sigma, state, key=t).statistics
        state = clip.update(state, told, jnp.asarray(20.0), jax.random.key(0))
        path.append(float(state))
    assert 1.2 < np.exp(np.mean(np.log(path[-60:]))) < 2.1
    assert np.std(np.log(path[-60:])) < 2 * clip.drift


def test_much_noise_moves_the_bound_little():
    """Ten clients that each noise one update by 6 C: without the gain ln C would walk 1.9 a round."""
    clip, rng = Slack(1.0, low=1e-4, high=1e4), np.random.default_rng(0)
    state, path = jnp.float32(1.0), []
    for _ in range(300):
        slots = np.array([2**-0.5, 0, 0, 0]) + 6 / math.sqrt(10) * rng.normal(size=4)
        state = clip.update(state, (jnp.asarray(10 * slots[None]), jnp.float32(360.0), jnp.float32(10.0)), 10.0, None)
        path.append(float(state))
    steps = np.diff(np.log(path))
    assert np.std(steps) < 0.1


def test_no_reply_leaves_the_bound_alone():
    clip = Slack(3.0)
    state = clip.update(jnp.float32(2.0), (jnp.zeros((1, 4)), jnp.zeros(()), jnp.zeros(())), 1.0, None)
    assert float(state) == 2.0


@pytest.mark.parametrize("state", [0.0, -3.0, 1e-39, 1e30, np.inf])
def test_a_state_outside_the_envelope_has_no_effect_beyond_it(state):
    clip = Slack(3.0, low=0.5, high=6.0)
    assert 0.5 <= float(clip.bound(jnp.float32(state))) <= 6.0
    out = crossing(method_of(clip), units_of(np.array([0.1, 9.0])), 1.0, state)
    assert 0.5 <= float(out.metrics.sensitivity) <= 6.0


def tiny(method, **changes):
    rng = np.random.default_rng(3)

    def split(n):
        return Split(rng.normal(size=(n, 6)).astype(np.float32), rng.integers(0, 3, n).astype(np.int32))

    plan = Plan(
        dataset="tiny", method=method, clients=5, cohort=4, rounds=2, local_steps=3, batch=4, client_size=12,
        learning_rate=0.3, model=Mlp((5,)), partition=Iid(), **changes,
    )  # fmt: skip
    roots = Keys.of(plan.seed, secret=False)
    population = Population.of(plan, Dataset("tiny", split(60), None, split(4), tuple("abc")))
    state = init(plan, (6,), 3, roots)
    return plan, population, state, list(rounds(plan, Serial(plan, population), state, roots))


def update_by_hand(plan, population, params, number, c, slots):
    """Train a client without noise; gather the slots of its examples, and give its update."""
    rate, at = plan.learning_rate, [np.asarray(w, np.float64) for w in params]
    for step in range(plan.local_steps):
        rows = population.shards[number][step * plan.batch : (step + 1) * plan.batch]
        given = jax.tree.unflatten(jax.tree.structure(params), [jnp.asarray(w, jnp.float32) for w in at])
        lot = per_example_gradients(plan.model, given, *map(jnp.asarray, (population.x[rows], population.y[rows])))
        lot = [np.asarray(g, np.float64) for g in lot]
        norms = np.sqrt(sum(np.square(g).reshape(len(g), -1).sum(1) for g in lot))
        if plan.method.surface is Surface.EXAMPLE:
            slots += [[c / 2 ** (k / 2) * (n <= c / 2 ** (k / 2)) for k in range(1, 5)] for n in norms]
            lot = [np.einsum("j,j...->j...", np.minimum(1, c / np.maximum(norms, 1e-30)), g) for g in lot]
        at = [w - rate * g.mean(axis=0) for w, g in zip(at, lot, strict=True)]
    moves = [a - np.asarray(w, np.float64) for a, w in zip(at, params, strict=True)]
    if plan.method.surface is not Surface.EXAMPLE:
        n = math.sqrt(sum(np.square(g).sum() for g in moves))
        slots.append([c / 2 ** (k / 2) * (n <= c / 2 ** (k / 2)) for k in range(1, 5)])
    return moves


@pytest.mark.parametrize("surface", Surface)
def test_in_a_federation_every_step_of_every_client_moves_the_bound_once(surface):
    clip = Slack(1.6, high=9.0)
    quiet = replace(method_of(clip, surface), noise=Constant(1e-9))
    plan, population, before, done = tiny(quiet)
    c = 1.6
    for one in done:
        slots = []
        for number in one.cohort:
            update_by_hand(plan, population, before.params, number, c, slots)
        assert 0 < np.mean(slots) / c < 0.5
        c = moved(clip, c, [np.mean(slots, axis=0) / c], 0.0, 1)
        assert float(one.state.clip_state) == pytest.approx(c, rel=1e-3)
        before = one.state
    assert abs(c / 1.6 - 1) > 0.02  # twenty times what the two may differ by


def gaussian_epsilon(mu, delta):
    """Of N(0, 1) against N(mu, 1), by the formula of Balle and Wang."""

    def excess(epsilon):
        tail = stats.norm.logcdf(-mu / 2 - epsilon / mu)
        return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + tail) - delta

    return optimize.brentq(excess, 0, 500)


@pytest.mark.parametrize("per_layer", [False, True])
@pytest.mark.parametrize("surface", [Surface.UPDATE, Surface.EXAMPLE])
def test_the_ledger_is_that_of_one_gaussian_mechanism_and_nothing_more(surface, per_layer):
    """z from the mechanism itself: its noise over the longest extended unit; epsilon by a formula of another source."""
    clip, sigma, layers = Slack(C, per_layer=per_layer), 5.0, len(SHAPES)
    method = replace(method_of(clip, surface), noise=Constant(sigma))
    units = units_of(np.concatenate([adversarial(), [50.0]]), shares=0.5)
    kind, numbers = split_static(method)
    used, slots = one_by_one(kind, surface, numbers, units, C)
    squares = sum(np.square(np.asarray(a, np.float64)).reshape(len(a), -1).sum(1) for a in (*used, slots))
    z = sigma * C / math.sqrt(squares.max())
    plan = Plan(
        dataset="digits", method=method, clients=8, cohort=4, rounds=6, local_steps=1, batch=10, client_size=10,
        learning_rate=0.1,
    )  # fmt: skip
    held = tuple(r for t in range(6) for r in releases(plan, t, layers, 1))
    assert {r.part for r in held} == {"sum"}
    assert held[0].noise_multipliers[0] <= z * (1 + 1e-5)
    found = account(Ledger(held, 6), 1e-5, "add-remove", "server").epsilon
    expected = gaussian_epsilon(math.sqrt(6 * (layers if per_layer else 1)) / sigma, 1e-5)
    assert found == pytest.approx(expected, rel=0.01)
