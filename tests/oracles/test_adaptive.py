"""The clips that learn, against loops of their formulas over rounds."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil import keys
from gradveil.data.dataset import Dataset, Split
from gradveil.data.partition import Iid
from gradveil.engines.serial import Serial
from gradveil.federation.engine import Population
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import rounds
from gradveil.federation.server import init
from gradveil.keys import Keys
from gradveil.methods import ADACLIP, QUANTILE
from gradveil.models.gradients import per_example_gradients
from gradveil.models.networks import Mlp
from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import combine, split_static
from gradveil.privacy.sanitize import cross
from gradveil.surface import Surface

N = 40
SHAPES = ((6, 2), (5,))


def norms_of_round(t, median=1.0, n=N):
    """Norms with a known median: log-normal."""
    return median * np.exp(np.random.default_rng(t).normal(size=n))


def lot_with_norms(norms, t=0):
    directions = np.random.default_rng(1000 + t).normal(size=(len(norms), 17))
    units = directions / np.linalg.norm(directions, axis=1, keepdims=True) * norms[:, None]
    return jnp.asarray(units[:, :12].reshape(-1, 6, 2), jnp.float32), jnp.asarray(units[:, 12:], jnp.float32)


def learner(method, expected, n=N):
    """One round: the lot crosses, the clip notes and learns. Gives the crossing and the new memory."""
    kind, numbers = split_static(method)

    @jax.jit
    def learn(clip_state, units, sigma, key):
        rule = combine(kind, numbers)
        crossing = cross(Surface.EXAMPLE, rule, units, jnp.ones(n), n, sigma, clip_state, key)
        return crossing, rule.clip.update(
            clip_state, crossing.statistics, jnp.asarray(float(expected)), jax.random.fold_in(key, 1)
        )

    return learn


@pytest.mark.parametrize("start", [0.05, 1.0, 30.0])
@pytest.mark.parametrize(("gamma", "eta"), [(0.5, 0.2), (0.8, 0.5)])
def test_quantile_moves_its_bound_by_the_formula(start, gamma, eta):
    clip = Quantile(start, gamma=gamma, eta=eta, count_noise=0.0)
    learn = learner(replace(QUANTILE, clip=clip), N)
    clip_state, c = clip.init(()), start
    for t in range(12):
        norms = norms_of_round(t)
        _, clip_state = learn(clip_state, lot_with_norms(norms, t), 0.0, jax.random.key(t))
        unclipped = sum(1 for norm in norms if norm <= c) / N
        c *= np.exp(-eta * (unclipped - gamma))
        assert float(clip_state) == pytest.approx(c, rel=1e-4)


@pytest.mark.parametrize("start", [0.01, 100.0])
@pytest.mark.parametrize(("gamma", "quantile"), [(0.5, 1.0), (0.8, np.exp(0.8416))])
@pytest.mark.parametrize("count_noise", [0.0, 0.05])
def test_quantile_finds_its_quantile_from_far_below_and_far_above(start, gamma, quantile, count_noise):
    clip = Quantile(start, gamma=gamma, count_noise=count_noise)
    learn, clip_state, path = learner(replace(QUANTILE, clip=clip), N), clip.init(()), []
    for t in range(260):
        _, clip_state = learn(clip_state, lot_with_norms(norms_of_round(t), t), 0.0, jax.random.key(t))
        path.append(float(clip_state))
    assert np.sign(path[9] - start) == np.sign(quantile - start)
    assert np.exp(np.mean(np.log(path[-100:]))) == pytest.approx(quantile, rel=0.1)


def test_quantile_draws_count_noise_in_units_of_the_expected_count():
    clip = Quantile(1.0, count_noise=0.05, eta=0.2)
    many = jax.vmap(lambda k: clip.update(jnp.asarray(1.0), jnp.asarray(0.0), jnp.asarray(40.0), k))
    moves = np.log(np.asarray(many(jax.random.split(jax.random.key(0), 4000))))
    assert moves.mean() == pytest.approx(0, abs=4 * 0.01 / np.sqrt(4000))
    assert moves.std() == pytest.approx(0.2 * 0.05, rel=0.05)


def test_quantile_clips_and_noises_with_the_bound_of_this_round():
    learn = learner(QUANTILE, N)
    crossing, clip_state = learn(jnp.asarray(2.5), lot_with_norms(norms_of_round(0)), 1.0, jax.random.key(0))
    assert float(crossing.metrics.bound) == float(crossing.metrics.sensitivity) == 2.5
    assert float(clip_state) != 2.5


def tiny(method, **changes):
    rng = np.random.default_rng(3)

    def split(n):
        return Split(rng.normal(size=(n, 6)).astype(np.float32), rng.integers(0, 3, n).astype(np.int32))

    plan = Plan(
        dataset="tiny", method=method, clients=5, cohort=4, rounds=1, local_steps=3, batch=4, client_size=8,
        learning_rate=0.3, model=Mlp((5,)), partition=Iid(), **changes,
    )  # fmt: skip
    data = Dataset("tiny", split(60), None, split(4), tuple("abc"))
    roots = Keys.of(plan.seed, secret=False)
    population, state = Population.of(plan, data), init(plan, (6,), 3, roots)
    (last,) = rounds(plan, Serial(plan, population), state, roots)
    return plan, population, state, last


def test_in_a_federation_quantile_counts_the_first_step_of_every_client_once():
    clip = Quantile(0.9, count_noise=0.0)
    plan, population, state, last = tiny(replace(QUANTILE, clip=clip))
    inside = 0
    for client in last.cohort:
        rows = population.shards[client][: plan.batch]
        for row in rows:
            x, y = population.x[row][None], population.y[row][None]
            gradient = per_example_gradients(plan.model, state.params, jnp.asarray(x), jnp.asarray(y))
            inside += float(jnp.sqrt(sum(jnp.sum(g**2) for g in gradient))) <= 0.9
    fraction = inside / (plan.cohort * plan.batch)
    assert 0 < fraction < 1
    assert float(last.state.clip_state) == pytest.approx(0.9 * np.exp(-0.2 * (fraction - 0.5)), rel=1e-5)


@pytest.mark.parametrize("draw", [Draw.SUM, Draw.EACH])
def test_adaclip_learns_mean_and_spread_by_the_formula(draw):
    beta1, beta2, low, high, sigma, n = 0.9, 0.7, 1e-6, 1e-1, 0.5, 10
    clip = AdaClip(radius=1.0, beta1=beta1, beta2=beta2, low=low, high=high)
    learn = learner(replace(ADACLIP, clip=clip, draw=draw), n, n)
    clip_state = clip.init(tuple(jnp.zeros(s) for s in SHAPES))
    m, s = np.zeros(17), np.full(17, (low * high) ** 0.25)
    assert s[0] ** 2 == pytest.approx(np.sqrt(low * high))
    noise = sigma / n if draw is Draw.SUM else sigma / np.sqrt(n)
    for t in range(8):
        units = lot_with_norms(norms_of_round(t, n=n), t)
        crossing, clip_state = learn(clip_state, units, sigma, jax.random.key(t))
        b = np.array([np.sqrt(s[i]) * np.sqrt(sum(s)) for i in range(17)])
        g = np.concatenate([np.ravel(a) for a in crossing.used]).astype(np.float64)
        v = np.array([min(max((g[i] - m[i]) ** 2 - (b[i] * noise) ** 2, low), high) for i in range(17)])
        m = np.array([beta1 * m[i] + (1 - beta1) * g[i] for i in range(17)])
        s = np.array([np.sqrt(beta2 * s[i] ** 2 + (1 - beta2) * v[i]) for i in range(17)])
        for got, expected in zip(clip_state[:2], (m, s), strict=True):
            np.testing.assert_allclose(np.concatenate([np.ravel(a) for a in got]), expected, rtol=1e-3, atol=1e-6)
    assert s.std() > 0.02 * s.mean()


def test_adaclip_noise_on_a_coordinate_is_its_width_times_sigma_radius():
    clip = AdaClip(radius=2.0)
    spread = (jnp.full((6, 2), 0.02), jnp.full((5,), 0.005))
    clip_state = (
        tuple(jnp.zeros(s) for s in SHAPES),
        spread,
        tuple(jnp.sqrt(s * (12 * 0.02 + 5 * 0.005)) for s in spread),
    )
    learn = learner(replace(ADACLIP, clip=clip), 1, 1)
    units = tuple(jnp.zeros((1, *s)) for s in SHAPES)
    used = [learn(clip_state, units, 3.0, jax.random.key(k))[0].used for k in range(300)]
    total = 12 * 0.02 + 5 * 0.005
    for m, s in enumerate((0.02, 0.005)):
        expected = np.sqrt(s) * np.sqrt(total) * 3.0 * 2.0
        assert np.std([u[m] for u in used]) == pytest.approx(expected, rel=0.05)


def test_adaclip_keeps_the_spread_within_its_limits():
    clip = AdaClip(beta2=0.0, low=1e-4, high=1e-2)
    clip_state = clip.init((jnp.zeros(2),))
    note = ((jnp.asarray([0.0, 9.0]),), (jnp.asarray([-5.0, 81.0]),), jnp.ones(()))
    _, (spread,), _ = clip.update(clip_state, note, jnp.asarray(1.0), keys.root(0))
    np.testing.assert_allclose(spread, [1e-2, 1e-1], rtol=1e-5)


def test_in_a_federation_adaclip_averages_over_every_step_of_every_client():
    clip = AdaClip(beta1=0.0, beta2=0.0, low=1e-8, high=1e8)
    _, _, state, last = tiny(replace(ADACLIP, clip=clip))
    # With beta1 = 0 the new m is the mean of the released gradients; L steps of -lr g~ make the mean update.
    for m, before, after in zip(last.state.clip_state[0], state.params, last.state.params, strict=True):
        np.testing.assert_allclose(after - before, -0.3 * 3 * m, rtol=1e-3, atol=1e-5)
