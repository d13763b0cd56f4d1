"""What every engine promises: the round that the serial engine trains, to the bit in any order, chunk and device."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradveil
from gradveil import keys
from gradveil.data.dataset import Dataset, Split
from gradveil.data.partition import Iid
from gradveil.data.sampling import Allocation, CohortSampling, Poisson, Whole, WithReplacement
from gradveil.engines.serial import Serial
from gradveil.engines.vectorized import Execution, Vectorized
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.client import ClientData, batch_indices
from gradveil.federation.engine import Population
from gradveil.federation.messages import ClientSpec, task_for
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.methods import FED_ALPHA_CDP, FED_CDP, FED_SDP, FED_SDP_CLIENT, FED_SLACK, FED_SUM, METHODS, NON_PRIVATE
from gradveil.models.networks import Cnn, Mlp
from gradveil.models.preparation import NoisedMean
from gradveil.models.regression import SoftmaxRegression
from gradveil.privacy.draw import Draw
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface

SHAPE, CLASSES = (12, 12, 1), 3
PLAN = Plan(
    dataset="tiny",
    method=NON_PRIVATE,
    clients=6,
    cohort=4,
    rounds=2,
    local_steps=3,
    batch=4,
    client_size=10,
    learning_rate=0.1,
    model=Mlp((6,)),
    partition=Iid(),
    seed=11,
)
WHOLE = {"local_steps": 1, "batch": 10, "sampling": Whole()}
CNN = replace(PLAN, model=Cnn(4, 8))
VARIANTS = {
    "cnn": replace(CNN, method=FED_ALPHA_CDP),
    "cnn-non-private": CNN,
    "poisson": replace(PLAN, method=FED_CDP, sampling=Poisson()),
    "allocation": replace(PLAN, method=FED_CDP, sampling=Allocation()),
    "poisson-non-private": replace(PLAN, sampling=Poisson()),
    "poisson-l2-max": replace(PLAN, method=FED_ALPHA_CDP, sampling=Poisson()),
    "with-replacement": replace(PLAN, method=FED_CDP, sampling=WithReplacement()),
    "each": replace(PLAN, method=replace(FED_CDP, draw=Draw.EACH)),
    "mean": replace(PLAN, method=replace(FED_CDP, draw=Draw.MEAN)),
    "each-at-server": replace(PLAN, method=replace(FED_SDP, draw=Draw.EACH)),
    "slack-at-server": replace(PLAN, method=replace(FED_SLACK, surface=Surface.SERVER)),
    "slack-of-updates": replace(
        PLAN, method=replace(FED_SLACK, surface=Surface.UPDATE, clip=Slack(4.0, per_layer=True))
    ),
    "regression-slack": replace(PLAN, method=FED_SLACK, model=SoftmaxRegression(NoisedMean(0.2)), **WHOLE),
    "share": replace(PLAN, method=replace(FED_SDP_CLIENT, share=True)),
    "regression": replace(PLAN, method=FED_CDP, model=SoftmaxRegression(NoisedMean(0.2)), **WHOLE),
    "regression-gradient": replace(PLAN, method=FED_SUM, model=SoftmaxRegression(), **WHOLE),
    "regression-poisson": replace(PLAN, method=FED_CDP, model=SoftmaxRegression(), sampling=Poisson()),
}
PLANS = {name: replace(PLAN, method=entry.value) for name, entry in METHODS.items()} | VARIANTS
EVERY = pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
LARGE = [replace(PLANS[name], clients=12, cohort=9) for name in ("fed-alpha-cdp", "adaclip", "cnn-non-private")]
SOME = pytest.mark.parametrize("plan", LARGE, ids=lambda p: f"{p.method.name}-{p.model}")


@cache
def dataset():
    rng = np.random.default_rng(0)

    def split(n):
        y = rng.integers(0, CLASSES, n).astype(np.int32)
        x = rng.normal(size=(n, *SHAPE)) + y[:, None, None, None] - 1
        return Split(x.astype(np.float32), y)

    return Dataset("tiny", split(130), None, split(10), tuple("abc"))


def begin(plan):
    """Population, first state and first task of a plan."""
    roots = Keys.of(plan.seed, secret=False)
    state = server.init(plan, SHAPE, CLASSES, roots)
    task = task_for(plan, 0, state.params, state.clip_state, keys.named(roots.private, "round", 0))
    return Population.of(plan, dataset()), state, task


def cohort_of(plan):
    return np.arange(plan.clients - plan.cohort, plan.clients, dtype=np.int32)


def leaves(tree):
    return [np.asarray(a) for a in jax.tree.leaves(tree)]


def same_bits(one, other):
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


def digest_after_the_last_round(plan, execution=None):
    roots = Keys.of(plan.seed, secret=False)
    population, state, _ = begin(plan)
    engine = Vectorized(plan, population, execution or Execution())
    for finished in rounds(plan, engine, state, roots):
        state = finished.state
    running = hashlib.sha256()
    for leaf in leaves((state.params, state.clip_state)):
        running.update(leaf.tobytes())
    return running.hexdigest()


@EVERY
def test_a_round_is_the_round_of_the_serial_engine(plan):
    population, state, task = begin(plan)
    reports = [engine(plan, population).train(task, cohort_of(plan)) for engine in (Serial, Vectorized)]
    (slow, _), (fast, _) = (server.absorb(plan, task, state, r) for r in reports)
    params = list(zip(*(leaves(s.params) for s in (slow, fast, state)), strict=True))
    moved = [not np.array_equal(one, before) for one, _, before in params]
    assert moved == [i == 0 or not plan.preparation for i in range(len(params))]  # a preparation moves its own part
    for one, other, _ in params:
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5 * np.abs(one).max())
    for one, other in zip(leaves(slow.clip_state), leaves(fast.clip_state), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    for one, other in zip(leaves(reports[0].metrics), leaves(reports[1].metrics), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-6)


@EVERY
def test_neither_the_order_of_a_cohort_nor_its_other_members_change_a_bit(plan):
    population, _, task = begin(plan)
    engine, cohort = Vectorized(plan, population), cohort_of(plan)
    sorted_, shuffled = engine.train(task, cohort), engine.train(task, cohort[[2, 0, 3, 1]])
    np.testing.assert_array_equal(sorted_.clients, cohort)
    same_bits(sorted_, shuffled)
    alone = engine.train(task, cohort[1:2])
    same_bits(alone, jax.tree.map(lambda a: a[1:2], sorted_))


@SOME
@pytest.mark.parametrize("devices", [1, None])
def test_the_chunk_does_not_change_a_bit(plan, devices):
    population, _, task = begin(plan)
    first, *others = (
        Vectorized(plan, population, Execution(devices=devices, chunk=chunk)).train(task, cohort_of(plan))
        for chunk in (2, 3, 16)
    )
    for other in others:
        same_bits(first, other)


@pytest.mark.parametrize("name", ["fed-alpha-cdp", "adaclip"])
def test_the_same_plan_gives_the_same_bits_twice_and_another_seed_others(name):
    plan = PLANS[name]
    assert digest_after_the_last_round(plan) == digest_after_the_last_round(plan)
    assert digest_after_the_last_round(plan) != digest_after_the_last_round(replace(plan, seed=12))


@pytest.mark.parametrize("name", ["fed-cdp", "quantile", "allocation"])
def test_a_run_that_stops_and_goes_on_is_the_run_that_never_stopped(name):
    plan, roots = PLANS[name], Keys.of(PLAN.seed, secret=False)
    population, state, _ = begin(plan)
    whole = [r.state for r in rounds(plan, Serial(plan, population), state, roots)]
    (resumed,) = (r.state for r in rounds(plan, Serial(plan, population), whole[0], roots))
    assert resumed.round == whole[1].round == 2
    same_bits(resumed[1:], whole[1][1:])
    assert whole[1].participations.sum() == 2 * plan.cohort


@pytest.mark.parametrize("plan", [PLAN, CNN], ids=["mlp", "cnn"])
@pytest.mark.parametrize("engine", [Serial, Vectorized])
def test_the_non_private_method_is_plain_federated_averaging(plan, engine):
    population, state, task = begin(plan)
    cohort = cohort_of(plan)
    ours, _ = server.absorb(plan, task, state, engine(plan, population).train(task, cohort))

    @jax.jit
    @jax.grad
    def gradient(params, x, y):
        logits = jax.vmap(lambda example: plan.model.apply(params, example))(x)
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(y)), y])

    finals = []
    for client in cohort:
        w, shard = state.params, population.shards[client]
        for step in range(plan.local_steps):
            rows = shard[[(step * plan.batch + j) % plan.client_size for j in range(plan.batch)]]
            g = gradient(w, dataset().train.x[rows], dataset().train.y[rows])
            w = [a - plan.learning_rate * b for a, b in zip(w, g, strict=True)]
        finals.append(w)
    for got, *each in zip(ours.params, *finals, strict=True):
        np.testing.assert_allclose(got, np.mean(each, axis=0), rtol=1e-5, atol=1e-6)


def test_every_client_and_every_step_draws_noise_of_its_own():
    population, _, task = begin(PLANS["fed-cdp"])
    updates = Vectorized(PLANS["fed-cdp"], population).train(task, cohort_of(PLAN)).update
    each = np.stack([np.concatenate([np.ravel(a[k]) for a in updates]) for k in range(PLAN.cohort)])
    correlations = np.corrcoef(each)[np.triu_indices(PLAN.cohort, 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(each.shape[1])
    # sigma C / B of noise in each of L steps, independent, so that it grows with the root of L
    expected = PLAN.learning_rate * 6.0 * 4.0 / PLAN.batch * np.sqrt(PLAN.local_steps)
    np.testing.assert_allclose(each.std(axis=1), expected, rtol=0.1)


def test_allocated_batches_of_a_participation_hold_every_record_once_and_differ_by_client_and_round():
    population, _, task = begin(VARIANTS["allocation"])
    spec = ClientSpec.of(VARIANTS["allocation"])

    def places(key, number):
        data = ClientData(population.x, population.y, population.shards[number], jnp.asarray(number))
        drawn = [batch_indices(spec, task._replace(key=key), data, jnp.asarray(step)) for step in range(3)]
        return [p.positions[: int(p.real)].tolist() for p in drawn]

    found = [places(key, number) for key in (task.key, jax.random.key(1)) for number in (0, 1)]
    for participation in found:
        assert sorted(position for batch in participation for position in batch) == list(range(10))
    assert all(a != b for i, a in enumerate(found) for b in found[:i])


@pytest.mark.slow
def test_the_number_of_devices_does_not_change_a_bit():
    source = str(Path(gradveil.__file__).parents[1])
    shared = {k: v for k, v in os.environ.items() if k not in ("XLA_FLAGS", "PJRT_NPROC")} | {"PYTHONPATH": source}
    answers = {}
    for devices in (1, 2, 3):
        environment = shared | {"GRADVEIL_DEVICES": str(devices)}
        command = [sys.executable, __file__]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        count, answers[devices] = done.stdout.split("\n", 1)
        assert int(count) == devices
    assert len(answers[1].split()) == len(set(answers[1].split())) == len(ON_DEVICES)
    assert answers[1] == answers[2] == answers[3]


@pytest.mark.parametrize("name", ["non-private", "fed-sdp", "fed-sdp-client", "fed-alpha-cdp", "quantile", "adaclip"])
def test_an_empty_cohort_is_survived_and_still_noised_by_the_server(name):
    plan = replace(PLANS[name], cohort_sampling=CohortSampling.POISSON)
    population, state, task = begin(plan)
    nobody = np.array([], np.int32)
    for engine in (Serial, Vectorized):
        after, _ = server.absorb(plan, task, state, engine(plan, population).train(task, nobody))
        assert after.round == 1
        assert after.participations.sum() == 0
        moved = np.concatenate([np.ravel(a - b) for a, b in zip(after.params, state.params, strict=True)])
        if plan.method.surface is Surface.SERVER:
            expected = plan.method.noise.sigma * plan.method.clip.c / plan.cohort
            assert moved.std() == pytest.approx(expected, rel=0.15)
        else:
            assert (moved == 0).all()


def test_a_poisson_cohort_larger_than_expected_is_trained_whole():
    plan = replace(PLAN, method=FED_SDP, cohort=2, cohort_sampling=CohortSampling.POISSON)
    population, state, task = begin(plan)
    everyone = np.arange(6, dtype=np.int32)
    slow, fast = (engine(plan, population).train(task, everyone) for engine in (Serial, Vectorized))
    for one, other in zip(leaves(slow), leaves(fast), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-6)
    after, _ = server.absorb(plan, task, state, fast)
    assert (after.participations == 1).all()


def test_noise_for_each_of_a_varying_lot_is_refused():
    with pytest.raises(BadInput, match="draw = each"):
        replace(VARIANTS["each"], sampling=Poisson())
    with pytest.raises(BadInput, match="draw = each"):
        replace(VARIANTS["each-at-server"], cohort_sampling=CohortSampling.POISSON)


ON_DEVICES = [PLANS[name] for name in ("non-private", "fed-alpha-cdp", "adaclip", "cnn-non-private")]

if __name__ == "__main__":
    print(jax.local_device_count())
    for each in ON_DEVICES:
        print(digest_after_the_last_round(each))
