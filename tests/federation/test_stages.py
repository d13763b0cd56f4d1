"""Rounds that prepare a model: what they send, what it costs, and how far a record can move a sum."""

import math
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from gradveil import keys
from gradveil.accounting.accountant import account
from gradveil.accounting.release import Ledger
from gradveil.data.dataset import Dataset, Split
from gradveil.data.partition import Iid
from gradveil.data.sampling import FixedPass, Whole
from gradveil.engines.serial import Serial
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import client, server
from gradveil.federation.client import ClientData
from gradveil.federation.engine import Population
from gradveil.federation.ledger import releases
from gradveil.federation.limits import norms, update_limit
from gradveil.federation.messages import ClientSpec, task_for
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.methods import FED_CDP, FED_SDP_CLIENT, FED_SUM, NON_PRIVATE
from gradveil.models.preparation import NoisedMean, NoisedSecondMoment
from gradveil.models.regression import SoftmaxRegression
from gradveil.privacy.clip import Flat
from gradveil.privacy.schedule import Constant, Linear

K, SIZE, WIDTH, CLASSES = 6, 30, 5, 3
MODEL = SoftmaxRegression(NoisedMean(0.3), NoisedSecondMoment(0.5), radius=2.0)
PLAN = Plan(
    dataset="rows", method=replace(FED_SUM, noise=Constant(4.0)), clients=K, cohort=K, rounds=5, local_steps=1,
    batch=SIZE, client_size=SIZE, learning_rate=2.0, model=MODEL, partition=Iid(), sampling=Whole(), seed=3,
)  # fmt: skip
SILENT = replace(PLAN, method=replace(FED_SUM, noise=Constant(0.0)))
MEAN, MOMENT, GRADIENT = 0, 1, 2


@cache
def dataset():
    rng = np.random.default_rng(0)

    def split(n):
        y = rng.integers(0, CLASSES, n).astype(np.int32)
        x = rng.normal(size=(n, WIDTH)) * np.arange(1, WIDTH + 1) + 2.0 * np.eye(WIDTH)[y]
        return Split(x.astype(np.float32), y)

    return Dataset("rows", split(K * SIZE), None, split(40), tuple("abc"))


@cache
def states(plan, engine=Vectorized):
    """The states before each round and after the last."""
    roots = Keys.of(plan.seed, secret=False)
    found = [server.init(plan, (WIDTH,), CLASSES, roots)]
    trained = rounds(plan, engine(plan, Population.of(plan, dataset())), found[0], roots)
    return [*found, *(done.state for done in trained)]


def clipped(vectors, bound):
    """Clip by hand, in float64."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors * np.minimum(1.0, bound / np.maximum(lengths, 1e-300))


def unit(v):
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def by_hand(params, stage, x, y):
    """The clipped vectors of a stage, [n, d], in float64 and without the package."""
    v = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 2.0)
    if stage == MEAN:
        return clipped(v, 1.0)
    v = unit(v - np.asarray(params[0], np.float64))
    if stage == MOMENT:
        outer = np.einsum("ni,nj->nij", v, v)
        off = np.sqrt(2) * outer[:, np.triu_indices(WIDTH, 1)[0], np.triu_indices(WIDTH, 1)[1]]
        both = np.concatenate([np.einsum("nii->ni", outer), off], axis=1)
        return clipped(both, 1.0)
    v = unit(v @ np.asarray(params[1], np.float64))
    v = np.concatenate([v, np.full((len(v), 1), 0.1)], axis=1)
    logits = v @ np.asarray(params[2], np.float64)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    miss = p / p.sum(axis=1, keepdims=True) - np.eye(CLASSES)[y]
    return clipped(np.einsum("ni,nj->nij", v, miss).reshape(len(v), -1), 0.3)


def ordered(stage, vector):
    """Bring a triangle into the order of `by_hand`: the diagonal, then the rest row by row."""
    if stage != MOMENT:
        return np.ravel(vector)
    rows, columns = np.triu_indices(WIDTH)
    return np.concatenate([vector[rows == columns], vector[rows < columns]])


def task_of(plan, t, seed=0):
    """A task of round t from where PLAN stands then, so that plans differ in their noise alone."""
    state = states(PLAN)[t]
    return task_for(plan, t, state.params, state.clip_state, keys.of_words(7, seed))


def sent(plan, t, seed=0, engine=Serial, x=None, y=None):
    """What clients send in round t as sums over their records [K, d], in the units of the stage's vectors."""
    held = dataset().train
    pool = (held.x if x is None else x, held.y if y is None else y)
    population = Population(*pool, np.arange(K * SIZE).reshape(K, SIZE), 1)
    reports = engine(plan, population).train(task_of(plan, t, seed), np.arange(K))
    (leaf,) = jax.tree.leaves(reports.update)
    factor = -SIZE / plan.learning_rate if t == GRADIENT else SIZE
    return np.array([ordered(t, factor * np.asarray(one, np.float64)) for one in leaf])


STAGE = pytest.mark.parametrize("t", [MEAN, MOMENT, GRADIENT], ids=["mean", "moment", "gradient"])
BOUND = {MEAN: 1.0, MOMENT: 1.0, GRADIENT: 0.3}


@STAGE
@pytest.mark.parametrize("engine", [Serial, Vectorized])
def test_without_noise_a_client_sends_the_sum_of_its_clipped_vectors(t, engine):
    expected = by_hand(states(PLAN)[t].params, t, dataset().train.x.astype(np.float64), dataset().train.y)
    np.testing.assert_allclose(
        sent(SILENT, t, engine=engine), expected.reshape(K, SIZE, -1).sum(axis=1), rtol=2e-4, atol=2e-4
    )


@STAGE
@pytest.mark.parametrize(
    ("share", "honest", "clients"), [(False, None, 1), (True, None, K), (True, 0.5, 3)], ids=["own", "shared", "half"]
)
def test_the_noise_that_a_client_adds_is_what_is_counted(t, share, honest, clients):
    """Real rounds with many keys, minus the sum without noise; a quarter more is told apart."""
    plan = replace(PLAN, method=replace(PLAN.method, share=share, honest=honest))
    drawn = np.stack([sent(plan, t, seed=s, engine=Vectorized) for s in range(60)]) - sent(SILENT, t)
    z = drawn / (BOUND[t] * plan.sigmas()[t, 0] / math.sqrt(clients))
    assert stats.kstest(z.ravel(), "norm").pvalue > 1e-3
    assert stats.kstest(z.ravel() * 1.25, "norm").pvalue < 1e-3
    assert stats.kstest(z.sum(axis=1).ravel() / math.sqrt(K), "norm").pvalue > 1e-3  # drawn by each on its own


@STAGE
def test_no_record_moves_a_sum_by_more_than_the_bound(t):
    """Exchange a record for nothing (zeros send the zero vector in the first two) and for others, large ones too."""
    rng, whole = np.random.default_rng(1), sent(SILENT, t)
    alone = by_hand(states(PLAN)[t].params, t, dataset().train.x.astype(np.float64), dataset().train.y)
    moved = []
    for scale in (1e-3, 1.0, 50.0, 1e20):
        x = dataset().train.x.copy()
        x[0] = scale * rng.normal(size=WIDTH)
        moved.append(np.linalg.norm(sent(SILENT, t, x=x)[0] - whole[0] + alone[0]))
    assert max(moved) <= BOUND[t] * (1 + 1e-4)
    assert max(moved) > 0.9 * BOUND[t]


def test_the_triangle_keeps_the_length_of_an_outer_product_and_its_noise_is_symmetric():
    x = jnp.asarray(np.random.default_rng(2).normal(size=(4, WIDTH)), jnp.float32)
    part = NoisedSecondMoment(0.5)
    flat = np.linalg.norm(np.asarray(part.vectors(x)), axis=1)
    np.testing.assert_allclose(flat, [np.linalg.norm(np.outer(row, row)) for row in np.asarray(x)], rtol=1e-5)
    np.testing.assert_allclose(flat, np.asarray(part.norms(x)), rtol=1e-5)
    assert part.vectors(x).shape == (4, part.length(WIDTH))


@pytest.mark.parametrize("part", [NoisedMean(0.5), NoisedSecondMoment(0.5)])
def test_a_total_is_the_weighted_sum_of_the_vectors(part):
    rng = np.random.default_rng(3)
    x, w = (jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in ((7, WIDTH), (7,)))
    np.testing.assert_allclose(part.total(x, w), w @ part.vectors(x), rtol=1e-4, atol=1e-5)


def test_whitening_makes_the_second_moment_the_identity_where_there_is_no_noise():
    x = np.random.default_rng(4).normal(size=(400, WIDTH)) * np.arange(1, WIDTH + 1)
    part = NoisedSecondMoment(0.5)
    mean = np.asarray(part.total(jnp.asarray(x, jnp.float32), jnp.full(400, 1 / 400)))
    white = x @ part.value(mean, 0.0)
    np.testing.assert_allclose(white.T @ white / 400, np.eye(WIDTH), atol=1e-3)


def test_the_ridge_of_the_whitening_follows_the_noise():
    part, mean = NoisedSecondMoment(0.5, ridge=1.2), np.zeros(NoisedSecondMoment(0.5).length(WIDTH), np.float32)
    length = np.linalg.norm(part.value(mean, 0.01), axis=0)
    np.testing.assert_allclose(length, (1.2 * 0.01 * math.sqrt(2 * WIDTH)) ** -0.5, rtol=1e-5)


@STAGE
def test_the_sum_crosses_as_its_lot_does(t):
    """The same key, the same noise: what is summed without making units is what `cross` gives for the units."""
    task, spec = task_of(PLAN, t), ClientSpec.of(PLAN, t)
    data = ClientData(*map(jnp.asarray, (dataset().train.x, dataset().train.y, np.arange(SIZE), np.int32(0))))
    lot = client.observed(spec, task, data, task.params, jnp.asarray(0))
    summed = client.train(spec, task, data)
    (one,), (other,) = jax.tree.leaves(lot.used), jax.tree.leaves(summed.update)
    factor = -PLAN.learning_rate if t == GRADIENT else 1.0
    np.testing.assert_allclose(other, factor * np.asarray(one), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(summed.metrics.unit_norm, lot.metrics.unit_norm, rtol=1e-4)
    (raw,) = jax.tree.leaves(lot.observed.raw)
    assert raw.shape[0] == SIZE


def analytic(mu, delta):
    def excess(e):
        return stats.norm.cdf(mu / 2 - e / mu) - math.exp(e) * stats.norm.cdf(-mu / 2 - e / mu) - delta

    return brentq(excess, 0.0, 50.0, xtol=1e-13)


@pytest.mark.parametrize("noise", [Constant(17.0), Linear(start=20.0, end=10.0)])
def test_each_stage_spends_its_share_and_all_together_what_the_closed_form_says(noise):
    plan = replace(PLAN, method=replace(FED_SUM, noise=noise), rounds=12)
    gradients = math.fsum(1 / s**2 for s in noise.sigmas(10, 1).ravel())
    mu = math.sqrt(gradients / (1 - 0.3**2 - 0.5**2))
    np.testing.assert_allclose(1 / plan.sigmas()[:2, 0], [0.3 * mu, 0.5 * mu])
    held = Ledger(tuple(r for t in range(12) for r in releases(plan, t, 1, 1)), 12)
    assert [r.stage for r in held.releases[:3]] == ["mean", "second-moment", "gradient"]
    expected = {"server": mu, "aggregate": mu / math.sqrt(K), "central-visible": mu / math.sqrt(K)}
    for threat, value in expected.items():
        assert account(held, 1e-5, "add-remove", threat).epsilon == pytest.approx(analytic(value, 1e-5), abs=1e-6)


def test_the_engines_agree_on_a_run_with_preparation():
    fast, slow = (states(PLAN, engine)[-1].params for engine in (Vectorized, Serial))
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4 * float(np.abs(other).max()))


def test_gradients_leave_what_was_prepared_alone_and_each_stage_only_its_own():
    before, mean, moment, *_, last = (s.params for s in states(PLAN))
    changed = [[not np.array_equal(a, b) for a, b in zip(*pair, strict=True)] for pair in
               ((before, mean), (mean, moment), (moment, last))]  # fmt: skip
    assert changed == [[True, False, False], [False, True, False], [False, False, True]]


@pytest.mark.parametrize("share", [False, True])
@STAGE
def test_an_honest_update_stays_within_the_limit_of_its_stage(t, share):
    plan = replace(PLAN, method=replace(PLAN.method, share=share))
    population = Population.of(plan, dataset())
    limit = update_limit(plan, t, states(PLAN)[t].params, ())
    largest = 0.0
    for seed in range(20):
        reports = Vectorized(plan, population).train(task_of(plan, t, seed), np.arange(K))
        largest = max(largest, norms(tuple(map(np.asarray, jax.tree.leaves(reports.update)))).max())
    assert limit / 6 < largest <= limit


REFUSED = {
    "too few rounds": ({"rounds": 2}, "rounds = 2"),
    "several steps": ({"local_steps": 2}, "one local step"),
    "other batches": ({"sampling": FixedPass()}, "whole batches"),
    "noised updates": ({"method": FED_SDP_CLIENT}, "noises examples"),
    "shares beyond all": ({"model": SoftmaxRegression(NoisedMean(0.8), NoisedSecondMoment(0.7))}, "less than 1"),
    "a part of a shard": ({"batch": 10}, "whole batches hold all"),
}


@pytest.mark.parametrize(("changes", "said"), REFUSED.values(), ids=list(REFUSED))
def test_a_plan_that_could_not_be_prepared_is_refused(changes, said):
    with pytest.raises(BadInput, match=said):
        replace(PLAN, **changes)


@pytest.mark.parametrize("value", [0.0, -0.1, 1.5, math.nan])
def test_an_honest_fraction_lies_between_0_and_1(value):
    with pytest.raises(BadInput, match="honest"):
        replace(FED_SUM, honest=value)


def test_noise_of_examples_is_not_shared_where_it_does_not_add_up():
    shared = replace(FED_CDP, clip=Flat(1.0), share=True)
    with pytest.raises(BadInput, match=r"share = true.*local_steps = 3"):
        replace(PLAN, model=SoftmaxRegression(), method=shared, local_steps=3)


def test_enough_clients_must_reply_for_the_noise_that_was_split_among_them():
    plan = replace(PLAN, method=replace(PLAN.method, share=True, honest=0.6))
    assert (plan.honest, plan.minimum_replies(K)) == (4, 4)
    assert replace(PLAN, method=replace(PLAN.method, share=True)).minimum_replies(K) == K
    assert releases(plan, 0, 1, 1, replies=4)[0].pool == 4


def test_a_method_without_noise_prepares_too_and_guarantees_nothing():
    plan = replace(PLAN, method=NON_PRIVATE)
    assert not plan.sigmas().any()
    held = Ledger(tuple(r for t in range(5) for r in releases(plan, t, 1, 1)), 5)
    assert not account(held, 1e-5, "add-remove", "aggregate").finite
    assert np.isfinite(np.asarray(states(plan)[-1].params[-1])).all()
