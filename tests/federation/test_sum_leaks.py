"""The reading of a sum over clients, against what training does with it and against the readings of its clients."""

import math
from dataclasses import dataclass, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.data.dataset import Dataset, Split
from gradveil.data.partition import Iid
from gradveil.data.sampling import CohortSampling, Poisson
from gradveil.engines.serial import Serial
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.leaks import Tap, gaussian_mu, read, round_key
from gradveil.federation.plan import Plan
from gradveil.federation.redraw import Redraw
from gradveil.federation.replay import Replay
from gradveil.federation.rounds import cohort_of, rounds
from gradveil.federation.sum_leaks import SUM, read_sum
from gradveil.keys import Keys
from gradveil.methods import FED_CDP, FED_SDP, FED_SDP_CLIENT, FED_SUM, METHODS, NON_PRIVATE
from gradveil.privacy.clip import Flat
from gradveil.privacy.schedule import Constant
from gradveil.surface import Surface

SHAPE, CLASSES = (12, 12, 1), 8


@dataclass(frozen=True)
class Softmax:
    """x W + b: 1160 coordinates."""

    def init(self, key, shape, classes):
        return 0.1 * jax.random.normal(key, (math.prod(shape), classes)), jnp.zeros(classes)

    def apply(self, params, x):
        return x.reshape(-1) @ params[0] + params[1]


PLAN = Plan(
    dataset="tiny",
    method=NON_PRIVATE,
    clients=5,
    cohort=3,
    rounds=3,
    local_steps=3,
    batch=4,
    client_size=12,
    learning_rate=0.1,
    model=Softmax(),
    partition=Iid(),
    seed=11,
)
ROOTS, SENT = Keys.of(PLAN.seed, secret=False), Tap(Surface.UPDATE)
COHORT = cohort_of(PLAN, 0, ROOTS)


@cache
def dataset():
    random = np.random.default_rng(0)
    y = random.integers(0, CLASSES, 80).astype(np.int32)
    split = Split(random.integers(0, 255, (80, *SHAPE)).astype(np.uint8), y)
    return Dataset("tiny", split, None, split, tuple("abcdefgh"))


@cache
def population(plan):
    return Population.of(plan, dataset())


def plan_of(method, **changes):
    return replace(PLAN, method=METHODS[method].value if isinstance(method, str) else method, **changes)


def start(plan):
    return server.init(plan, SHAPE, CLASSES, ROOTS)


def flat(tree):
    return np.concatenate([np.ravel(np.asarray(a, np.float64)) for a in jax.tree.leaves(tree)])


@pytest.fixture(autouse=True)
def uncompiled():
    with jax.disable_jit():
        yield


def summed(plan):
    state = start(plan)
    return read_sum(plan, population(plan), state, round_key(state, ROOTS), COHORT)


SLOW = pytest.mark.slow


@pytest.mark.parametrize("method", ["fed-sdp", pytest.param("fed-cdp", marks=SLOW), pytest.param("dssgd", marks=SLOW)])
def test_the_sum_is_by_what_the_model_moves(method):
    plan = plan_of(method)
    after = next(rounds(plan, Serial(plan, population(plan)), start(plan), ROOTS)).state.params
    moved = flat(after) - flat(start(plan).params)
    np.testing.assert_allclose(-0.1 * 3 * flat(summed(plan).gradient), moved, rtol=1e-4, atol=3e-6)


def test_what_dishonest_clients_sent_is_subtracted_from_the_sum():
    plan = plan_of(replace(FED_SUM, share=True, honest=0.5), local_steps=1)
    assert plan.honest == 2
    each = [read(plan, population(plan), start(plan), ROOTS, int(c), SENT) for c in COHORT[:2]]
    found = summed(plan)
    mean = sum(flat(one.gradient) for one in each) / 2
    np.testing.assert_allclose(flat(found.gradient), mean, rtol=1e-5, atol=2e-6)
    np.testing.assert_array_equal(found.rows, np.concatenate([one.rows for one in each]))


def test_examples_are_listed_step_by_step():
    rows = summed(plan_of("non-private")).rows.reshape(3, 3, 4)
    each = [read(PLAN, population(PLAN), start(PLAN), ROOTS, int(c), SENT).rows.reshape(3, 4) for c in COHORT]
    np.testing.assert_array_equal(rows, np.stack(each, axis=1))


NOISED = {
    "examples": FED_CDP,
    "shares": replace(FED_SUM, share=True),
    "updates": FED_SDP_CLIENT,
    "server": FED_SDP,
}
EXPECTED = {
    "examples": 24 / 4 / 3**0.5,
    "shares": 17 * 0.3 / 4 / 3,
    "updates": 24 / 0.1 / 3**0.5,
    "server": 24 / 0.1 / 3,
}
"""The noise on the mean of three updates of one step: sigma C / B and the like, worked out by hand."""


@pytest.mark.parametrize("name", NOISED)
def test_the_noise_on_a_sum_is_what_is_stated_and_what_is_drawn(name):
    plan = plan_of(NOISED[name], local_steps=1)
    reading = summed(plan)
    assert flat(reading.std)[0] == pytest.approx(EXPECTED[name], rel=1e-5)
    x, y = dataset().train.x[reading.rows] / np.float32(255), dataset().train.y[reading.rows]
    given = reading.params, reading.clip_state, plan.sigmas()[0].astype(np.float32), x, y
    replay = Replay.of(plan, SUM)
    law = replay.law(*given)
    np.testing.assert_allclose(flat(law.std), EXPECTED[name], rtol=1e-5)
    again, _ = Redraw(replay)(*given, jax.random.key(1))
    for drawn in (reading.gradient, again):
        noise = (flat(drawn) - flat(law.value)) / EXPECTED[name]
        assert abs(noise.mean()) < 4 / len(noise) ** 0.5
        assert noise.std() == pytest.approx(1, abs=4 / (2 * len(noise)) ** 0.5)


def test_mu_of_a_sum_is_smaller_by_the_root_of_its_clients_where_their_noise_adds_up():
    flat_cdp = replace(FED_CDP, clip=Flat(1.0), noise=Constant(2.0))
    one, three = (plan_of(flat_cdp, local_steps=steps) for steps in (1, 3))
    assert gaussian_mu(one, 0, SENT, 2) == pytest.approx(1 / 2)
    assert gaussian_mu(one, 0, SUM, 2) == pytest.approx(1 / 2 / 3**0.5)
    assert gaussian_mu(three, 0, SUM, 2) == pytest.approx(gaussian_mu(three, 0, SENT, 2))
    shared = plan_of(replace(FED_SUM, noise=Constant(2.0), share=True), local_steps=1)
    assert gaussian_mu(shared, 0, SUM, 2) == pytest.approx(1 / 2)
    at_server = plan_of(replace(FED_SDP, clip=Flat(1.0), noise=Constant(2.0)))
    assert gaussian_mu(at_server, 0, SUM, 2) == pytest.approx(1 / 2)


@pytest.mark.parametrize("changes", [{"cohort_sampling": CohortSampling.POISSON}, {"sampling": Poisson()}])
def test_sums_over_a_number_that_varies_are_refused(changes):
    with pytest.raises(BadInput, match="view = 'aggregate': needs cohorts and batches of a fixed size"):
        summed(plan_of("non-private", **changes))


def test_what_each_example_adds_to_a_sum_adds_up_to_it():
    plan = plan_of("non-private", local_steps=1)
    reading = summed(plan)
    x, y = dataset().train.x[reading.rows] / np.float32(255), dataset().train.y[reading.rows]
    replay, given = Replay.of(plan, SUM), (reading.params, reading.clip_state)
    alone = sum(flat(replay(*given, x[i : i + 1], y[i : i + 1])) for i in range(len(y)))
    np.testing.assert_allclose(alone, flat(reading.gradient), rtol=1e-4, atol=1e-6)
