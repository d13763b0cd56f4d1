"""Readings against the training they are taken from, and against Algorithm 1 written out as loops over examples."""

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import compress, pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gradveil import keys
from gradveil.data.dataset import Dataset, Split
from gradveil.data.partition import Iid
from gradveil.data.sampling import Poisson, WithReplacement
from gradveil.engines.serial import Serial
from gradveil.errors import BadInput
from gradveil.federation import client, leaks, server
from gradveil.federation.client import ClientData
from gradveil.federation.engine import Population
from gradveil.federation.leaks import Tap, gaussian_mu, noise, read, shows_singles
from gradveil.federation.messages import ClientSpec, task_for
from gradveil.federation.plan import Plan
from gradveil.federation.replay import Replay
from gradveil.federation.rounds import cohort_of, rounds
from gradveil.keys import Keys
from gradveil.methods import (
    ADACLIP,
    FED_ALPHA_CDP,
    FED_CDP,
    FED_SDP,
    FED_SDP_CLIENT,
    FED_SLACK,
    METHODS,
    NON_PRIVATE,
    QUANTILE,
)
from gradveil.models.networks import Mlp
from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.clip import Flat, OwnNorm, PerLayer, Unclipped
from gradveil.privacy.draw import Draw
from gradveil.privacy.prune import Keep
from gradveil.privacy.schedule import Constant, Linear, Per
from gradveil.privacy.sensitivity import Fixed, L2MaxAsCoded
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface

SHAPE, CLASSES = (12, 12, 1), 8


@dataclass(frozen=True)
class Softmax:
    """x W + b: 144 x 8 + 8 = 1160 coordinates in two layers, as few operations as there can be."""

    def init(self, key, shape, classes):
        first, second = jax.random.split(key)
        return 0.1 * jax.random.normal(first, (math.prod(shape), classes)), jax.random.normal(second, (classes,))

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
RATE, STEPS, BATCH, CLIENT = 0.1, 3, 4, 2
SERVER, UPDATE, EXAMPLE = Surface
ARRIVES, ARRIVING, SENT = Tap(SERVER), Tap(SERVER, "arriving"), Tap(UPDATE)
USED, IN_MEMORY = Tap(EXAMPLE), Tap(EXAMPLE, "in_memory")
ALONE, ALONE_IN_MEMORY = Tap(EXAMPLE, single=True), Tap(EXAMPLE, "in_memory", single=True)
TAPS = (ARRIVES, ARRIVING, SENT, USED, IN_MEMORY, ALONE_IN_MEMORY)
EVERY = pytest.mark.parametrize("name", METHODS)
PRUNED = [name for name, entry in METHODS.items() if not isinstance(entry.value.prune, Keep)]
WHOLE = pytest.mark.parametrize("name", [name for name in METHODS if name not in PRUNED])


@cache
def dataset():
    rng = np.random.default_rng(0)

    def split(n):
        y = rng.integers(0, CLASSES, n).astype(np.int32)
        x = rng.integers(0, 120, (n, *SHAPE)) + 16 * y[:, None, None, None]
        return Split(x.astype(np.uint8), y)

    return Dataset("tiny", split(80), None, split(10), tuple("abcdefgh"))


ROOTS = Keys.of(PLAN.seed, secret=False)


@pytest.fixture(autouse=True)
def uncompiled():
    """Thirty programs are run for a few steps each, which takes less time than to compile them."""
    with jax.disable_jit():
        yield


@cache
def population(plan):
    return Population.of(plan, dataset())


def plan_of(method, **changes):
    return replace(PLAN, method=METHODS[method].value if isinstance(method, str) else method, **changes)


def engine_of(plan):
    return Serial(plan, population(plan))


def start(plan):
    return server.init(plan, SHAPE, CLASSES, ROOTS)


@cache
def begun(plan):
    """The state before round 1 with what an adaptive clip may have learned; AdaClip's differs by coordinate."""
    state = start(plan)._replace(round=1)
    rng = np.random.default_rng(3)
    if isinstance(plan.method.clip, Quantile | Slack):
        return state._replace(clip_state=state.clip_state * 0.8)
    if isinstance(plan.method.clip, AdaClip):
        mean, spread, width = state.clip_state
        mean = tuple(jnp.asarray(0.01 * rng.normal(size=a.shape), jnp.float32) for a in mean)
        width = tuple(b * jnp.asarray(np.exp(rng.normal(size=b.shape)), jnp.float32) for b in width)
        return state._replace(clip_state=(mean, spread, width))
    return state


@cache
def taken(plan, tap, number=CLIENT, step=0):
    """A reading of round 1."""
    return read(plan, population(plan), begun(plan), ROOTS, number, tap, step)


def flat(tree):
    return np.concatenate([np.ravel(np.asarray(a, np.float64)) for a in jax.tree.leaves(tree)])


def spread_of(reading):
    """The stated noise, one number a coordinate."""
    return flat(jax.tree.map(np.broadcast_to, reading.std, jax.tree.map(np.shape, reading.gradient)))


def close(one, other, rtol=1e-5, atol=2e-6):
    np.testing.assert_allclose(flat(one), flat(other), rtol=rtol, atol=atol)


def gradient_of(params, row):
    """The gradient of the cross-entropy of softmax(x W + b), by the chain rule."""
    w, b = (np.asarray(p, np.float64) for p in params)
    x = dataset().train.x[row].ravel() / 255
    odds = np.exp(x @ w + b)
    off = odds / odds.sum() - np.eye(CLASSES)[dataset().train.y[row]]
    return [np.outer(x, off), off]


def clipped(method, unit, clip_state):
    """One unit after the clip of a method, from its formula."""

    def shrink(a, size, bound):
        return a * min(1.0, bound / size)

    each = [np.linalg.norm(a) for a in unit]
    joint = math.hypot(*each)
    match method.clip:
        case Unclipped():
            return unit
        case PerLayer(c):
            return [shrink(a, size, c) for a, size in zip(unit, each, strict=True)]
        case Flat(c):
            return [shrink(a, joint, c) for a in unit]
        case OwnNorm(low, high):
            return [shrink(a, size, min(max(*each, low), high)) for a, size in zip(unit, each, strict=True)]
        case Quantile() | Slack():
            return [shrink(a, joint, float(clip_state)) for a in unit]
        case AdaClip(radius):
            m, b = ([np.asarray(a, np.float64) for a in part] for part in (clip_state[0], clip_state[2]))
            white = [(a - i) / j for a, i, j in zip(unit, m, b, strict=True)]
            size = math.hypot(*(np.linalg.norm(a) for a in white))
            return [j * shrink(a, size, radius) + i for a, i, j in zip(white, m, b, strict=True)]
    raise AssertionError(f"write down what {method.clip} does")


def by_hand(plan, tap, number=CLIENT, rows=None):
    """What a tap shows without noise and pruning; rows [L, n] or [n] of the pool, a fixed pass if not given."""
    method, state = plan.method, begun(plan)
    if rows is None:
        rows = population(plan).shards[number][: plan.local_steps * plan.batch].reshape(plan.local_steps, plan.batch)

    def through(surface, unit):
        return clipped(method, unit, state.clip_state) if method.surface is surface else unit

    def mean_of(params, lot, hidden=False):
        units = [gradient_of(params, row) for row in lot]
        units = units if hidden else [through(EXAMPLE, unit) for unit in units]
        return [np.sum(layer, axis=0) / (1 if tap.single else plan.batch) for layer in zip(*units, strict=True)]

    start = [np.asarray(a, np.float64) for a in state.params]
    if tap.surface is EXAMPLE:
        return mean_of(start, rows[0][:1] if tap.single else rows[0], hidden=tap.view == "in_memory")
    w = start
    for lot in rows:
        w = [a - RATE * g for a, g in zip(w, mean_of(w, lot), strict=True)]
    update = through(UPDATE, [a - b for a, b in zip(w, start, strict=True)])
    if tap == ARRIVES:
        update = through(SERVER, update)
    return [-u / (RATE * plan.local_steps) for u in update]


def faint(method):
    """A method whose clip is felt and whose noise is not."""
    tight = 0.3 if method.surface is EXAMPLE else 0.03
    changes = {} if method.noise.silent else {"noise": Constant(1e-8)}
    match method.clip:
        case OwnNorm():
            changes |= {"clip": OwnNorm(high=tight), "sensitivity": L2MaxAsCoded(high=tight)}
        case PerLayer() | Quantile() | AdaClip() | Slack():
            changes["clip"] = type(method.clip)(tight)
    return replace(method, **changes)


@pytest.mark.slow
@EVERY
def test_an_update_is_read_as_the_serial_engine_reports_it(name):
    plan = plan_of(name)
    state = begun(plan)
    task = task_for(plan, 1, state.params, state.clip_state, keys.named(ROOTS.private, "round", 1))
    reported = engine_of(plan).train(task, np.array([CLIENT], np.int32)).update
    for tap in (SENT, ARRIVING):
        seen = taken(plan, tap)
        close([-RATE * STEPS * g for g in seen.gradient], reported, atol=1e-6)
        close(seen.params, state.params, rtol=0, atol=0)


def test_what_is_read_is_what_a_round_moved_the_model_by():
    plan = plan_of(ADACLIP, cohort=1, rounds=2)
    states = [start(plan), *(done.state for done in rounds(plan, engine_of(plan), start(plan), ROOTS))]
    for t, (before, after) in enumerate(pairwise(states)):
        (number,) = cohort_of(plan, t, ROOTS)
        seen = read(plan, population(plan), before, ROOTS, int(number), ARRIVING)
        moved = flat(after.params) - flat(before.params)
        np.testing.assert_allclose(-RATE * STEPS * flat(seen.gradient), moved, rtol=1e-5, atol=1e-6)
        close(seen.clip_state, before.clip_state, rtol=0, atol=0)


@EVERY
def test_the_server_reads_the_update_as_it_arrives_unless_it_noises_it(name):
    plan = plan_of(name)
    released, arriving, sent = (flat(taken(plan, tap).gradient) for tap in (ARRIVES, ARRIVING, SENT))
    assert np.array_equal(released, arriving) == (plan.method.surface is not SERVER)
    assert np.array_equal(arriving, sent)


def uncorrelated(one, other):
    return abs(np.corrcoef(one, other)[0, 1]) < 5 / math.sqrt(len(one))


def test_another_client_another_step_and_another_round_draw_other_noise():
    plan, state = plan_of(FED_CDP), begun(plan_of(FED_CDP))
    for tap in (SENT, USED):
        one = flat(taken(plan, tap).gradient)
        later = read(plan, population(plan), state._replace(round=2), ROOTS, CLIENT, tap)
        assert uncorrelated(one, flat(later.gradient))
        assert uncorrelated(one, flat(taken(plan, tap, number=1).gradient))
    assert uncorrelated(flat(taken(plan, USED).gradient), flat(taken(plan, USED, step=1).gradient))


def test_after_the_last_round_one_more_is_read_with_fresh_noise_of_the_last_scale():
    plan = plan_of(replace(FED_SDP_CLIENT, noise=Linear(start=9.0, end=3.0)))  # sigma 9, 7, 5
    states = (begun(plan)._replace(round=t) for t in (2, 3))
    last, beyond = (read(plan, population(plan), state, ROOTS, CLIENT, SENT) for state in states)
    for one in (last, beyond):
        np.testing.assert_allclose(spread_of(one), 5 * 4 / 0.3, rtol=1e-5)
        assert looks_standard_normal((flat(one.gradient) - flat(by_hand(plan, SENT))) / (5 * 4 / 0.3))
    assert uncorrelated(flat(last.gradient), flat(beyond.gradient))


@pytest.mark.parametrize(
    "name", ["non-private", "fed-sdp", "fed-sdp-client", "fed-cdp", "fed-alpha-cdp-sigma", "adaclip"]
)
def test_a_local_step_is_read_at_the_parameters_that_the_steps_before_it_lead_to(name):
    plan = plan_of(name)
    steps = [taken(plan, USED, step=s) for s in range(STEPS)]
    w = flat(begun(plan).params)
    for one in steps:
        np.testing.assert_allclose(flat(one.params), w, rtol=1e-5, atol=1e-5)
        w = flat(one.params) - RATE * flat(one.gradient)
    if plan.method.surface is not UPDATE:
        mean = np.mean([flat(one.gradient) for one in steps], axis=0)
        np.testing.assert_allclose(mean, flat(taken(plan, SENT).gradient), rtol=1e-4, atol=1e-4)


SEEN = {
    "non-private": plan_of(NON_PRIVATE),
    "fed-cdp": plan_of(FED_CDP),
    "each": plan_of(replace(FED_CDP, draw=Draw.EACH)),
    "adaclip": plan_of(ADACLIP),
    "with-replacement": plan_of(FED_CDP, sampling=WithReplacement()),
}


@pytest.mark.parametrize("plan", SEEN.values(), ids=SEEN)
def test_what_is_seen_is_what_the_step_descended_by(plan):
    descended_by_what_was_seen(plan, CLIENT)


def test_what_is_seen_of_a_poisson_batch_is_what_the_step_descended_by():
    plan = plan_of(FED_CDP, sampling=Poisson())
    few, many = plan.sampling.capacities(plan.client_size, plan.batch)
    large, small = descended_by_what_was_seen(plan, 0)
    assert small < few < large < many, "batches must be of both numbers of slots"


step = jax.jit(client.step, static_argnums=0)


def descended_by_what_was_seen(plan, number):
    """Compare two local steps of a client with their crossings; gives the sizes of its batches."""
    state, work, held = begun(plan), ClientSpec.of(plan), population(plan)
    task = task_for(plan, 1, state.params, state.clip_state, keys.named(ROOTS.private, "round", 1))
    holding = ClientData(*map(jnp.asarray, (held.x, held.y, held.shards[number], np.int32(number))))
    now, sizes = client.begin(work, task), []
    for index in map(jnp.asarray, (0, 1)):
        crossing, after = client.observed(work, task, holding, now.params, index), step(work, task, holding, now, index)
        np.testing.assert_allclose(
            flat(after.params), flat(now.params) - RATE * flat(crossing.used), rtol=1e-6, atol=1e-6
        )
        assert np.abs(flat(after.params) - flat(now.params)).max() > 1e-4
        sizes.append(int(client.batch_indices(work, task, holding, index).real))
        now = after
    return sizes


def test_the_rows_of_a_fixed_pass_are_the_shard_in_order():
    plan = plan_of(NON_PRIVATE)
    shard = population(plan).shards[CLIENT]
    for s in range(STEPS):
        np.testing.assert_array_equal(taken(plan, USED, step=s).rows, shard[s * BATCH : (s + 1) * BATCH])
        np.testing.assert_array_equal(taken(plan, ALONE_IN_MEMORY, step=s).rows, shard[s * BATCH : s * BATCH + 1])
    for tap in (ARRIVES, ARRIVING, SENT):
        np.testing.assert_array_equal(taken(plan, tap).rows, shard)
    around = plan_of(NON_PRIVATE, client_size=10)
    shard = population(around).shards[CLIENT]
    np.testing.assert_array_equal(taken(around, USED, step=2).rows, shard[[8, 9, 0, 1]])
    np.testing.assert_array_equal(taken(around, SENT).rows, [*shard, *shard[:2]])


def test_a_poisson_batch_is_its_rows_over_the_expected_number():
    plan, sizes = plan_of(faint(FED_CDP), sampling=Poisson()), set()
    for number in (0, 1):
        shard = population(plan).shards[number]
        for tap in (USED, IN_MEMORY):
            seen = taken(plan, tap, number=number)
            assert set(seen.rows) <= set(shard)
            assert len(set(seen.rows)) == len(seen.rows) > 0
            close(seen.gradient, by_hand(plan, tap, rows=[seen.rows]))
        sizes.add(len(seen.rows))
    assert min(sizes) < BATCH < max(sizes)


def test_a_single_example_of_a_poisson_batch_is_its_first():
    plan = plan_of(faint(FED_CDP), sampling=Poisson())
    one = taken(plan, ALONE_IN_MEMORY)
    np.testing.assert_array_equal(one.rows, taken(plan, USED).rows[:1])
    close(one.gradient, gradient_of(begun(plan).params, one.rows[0]))


def test_all_steps_of_a_poisson_client_are_behind_its_update():
    plan = plan_of(faint(FED_CDP), sampling=Poisson())
    lots = [taken(plan, USED, step=s).rows for s in range(STEPS)]
    assert len({tuple(lot) for lot in lots}) == STEPS
    seen = taken(plan, SENT)
    np.testing.assert_array_equal(seen.rows, np.concatenate(lots))
    close(seen.gradient, by_hand(plan, SENT, rows=lots))


def examples(rows):
    return jnp.asarray(dataset().train.x[rows].astype(np.float32) / 255), jnp.asarray(dataset().train.y[rows])


@cache
def _replayed(plan, tap, lots):
    """What rows of the pool would have shown in the steps of CLIENT; empty places make all lots equally long."""
    places, replay = max(map(len, lots)), Replay.of(plan, tap)
    empty = np.concatenate([np.arange(places) >= len(lot) for lot in lots])
    x, y = examples(np.concatenate([np.resize(lot, places) for lot in lots]))
    state = begun(plan)
    return jax.jit(lambda *given: replay(*given))(state.params, state.clip_state, x, jnp.where(empty, -1, y))


def replayed(plan, tap, lots=None):
    """What lots of rows would have shown; those of a fixed pass if not given."""
    rows = population(plan).shards[CLIENT][: plan.local_steps * plan.batch]
    if lots is None:
        shown = {EXAMPLE: rows[: 1 if tap.single else plan.batch]}.get(tap.surface, rows)
        lots = [shown]
    return _replayed(plan, tap, tuple(tuple(map(int, lot)) for lot in lots))


def by_smooth_steps(params, x, y, sharpness):
    """The update of STEPS steps of plain SGD through x -> relu(x V) W with a smooth ReLU, as a gradient."""

    def loss(v, w, x, y):
        hidden = jnp.log1p(jnp.exp(sharpness * (x.reshape(len(x), -1) @ v))) / sharpness
        logits = hidden @ w
        return jnp.mean(jnp.log(jnp.sum(jnp.exp(logits), axis=1)) - logits[jnp.arange(len(y)), y])

    at = params
    for i in range(STEPS):
        lot = slice(i * BATCH, (i + 1) * BATCH)
        at = [p - PLAN.learning_rate * g for p, g in zip(at, jax.grad(loss, (0, 1))(*at, x[lot], y[lot]), strict=True)]
    return [(p - q) / (PLAN.learning_rate * STEPS) for p, q in zip(params, at, strict=True)]


def test_a_softened_replay_takes_the_steps_through_the_smooth_network():
    plan = plan_of(NON_PRIVATE, model=Mlp((6,)))
    state, replay = start(plan), Replay.of(plan, SENT)
    x, y = examples(population(plan).shards[CLIENT][: STEPS * BATCH])
    smooth = replay.softened()((jnp.float32(5.0), *state.params), state.clip_state, x, y)
    close(smooth, by_smooth_steps(state.params, x, y, 5.0), rtol=1e-4)
    plain = replay(state.params, state.clip_state, x, y)
    assert np.abs(flat(smooth) - flat(plain)).max() > 1e-2
    close(replay.softened()((jnp.float32(1e7), *state.params), state.clip_state, x, y), plain, rtol=1e-4)


@pytest.mark.slow
@WHOLE
def test_the_true_examples_replayed_are_what_a_tap_would_have_shown_without_noise(name):
    plan = plan_of(faint(METHODS[name].value))
    for tap in TAPS:
        close(replayed(plan, tap), by_hand(plan, tap))
    wrong = replayed(plan, SENT, [population(plan).shards[1]])
    assert np.abs(flat(wrong) - flat(by_hand(plan, SENT))).max() > 1e-3


@WHOLE
def test_without_noise_the_true_examples_replayed_are_the_reading(name):
    plan = plan_of(faint(METHODS[name].value))
    for tap in {EXAMPLE: (SENT, USED), UPDATE: (SENT,), SERVER: (ARRIVES,)}[plan.method.surface]:
        close(taken(plan, tap).gradient, replayed(plan, tap))


@pytest.mark.parametrize("name", ["non-private", "fed-sdp", "fed-sdp-client", "fed-cdp"])
def test_without_noise_the_true_examples_of_one_local_step_replayed_are_the_reading(name):
    plan = plan_of(faint(METHODS[name].value), local_steps=1)
    for tap in (ARRIVES, SENT):
        close(taken(plan, tap).gradient, replayed(plan, tap))
        close(taken(plan, tap).gradient, by_hand(plan, tap))


@WHOLE
def test_the_clips_of_that_comparison_are_felt(name):
    plan = plan_of(faint(METHODS[name].value))
    plain = [by_hand(plan_of(NON_PRIVATE), tap) for tap in TAPS]
    felt = [not np.allclose(flat(by_hand(plan, tap)), flat(p), rtol=1e-2) for tap, p in zip(TAPS, plain, strict=True)]
    reach = {EXAMPLE: [ARRIVES, ARRIVING, SENT, USED], UPDATE: [ARRIVES, ARRIVING, SENT], SERVER: [ARRIVES]}
    clips = not isinstance(plan.method.clip, Unclipped)
    assert list(compress(TAPS, felt)) == (reach[plan.method.surface] if clips else [])


@pytest.mark.parametrize("name", PRUNED)
def test_what_was_pruned_shows_as_zeros_and_what_was_kept_is_replayed(name):
    plan = plan_of(replace(METHODS[name].value, clip=Unclipped(), sensitivity=Fixed(0.0), noise=Constant(0.0)))
    most = getattr(plan.method.prune, "bound", math.inf) / (RATE * STEPS)
    seen, whole = taken(plan, SENT), flat(by_hand(plan, SENT))
    close(replayed(plan, SENT), np.clip(whole, -most, most))
    shown = flat(seen.gradient)
    kept = shown != 0
    np.testing.assert_allclose(shown[kept], np.clip(whole, -most, most)[kept], rtol=1e-4, atol=2e-6)
    assert 0.05 < kept.mean() < 0.75
    for tap in (USED, IN_MEMORY):
        close(taken(plan, tap).gradient, by_hand(plan, tap))


def test_one_noised_example_is_replayed_alone():
    plan = plan_of(replace(faint(FED_CDP), draw=Draw.EACH))
    seen = taken(plan, ALONE)
    np.testing.assert_array_equal(seen.rows, population(plan).shards[CLIENT][:1])
    close(seen.gradient, by_hand(plan, ALONE))
    close(replayed(plan, ALONE), by_hand(plan, ALONE))


def test_a_poisson_batch_replayed_is_the_reading_with_empty_places_to_even_out_its_steps():
    plan = plan_of(faint(FED_CDP), sampling=Poisson())
    lots = [taken(plan, USED, step=s).rows for s in range(STEPS)]
    assert len(set(map(len, lots))) > 1
    for tap in (USED, SENT):
        seen = taken(plan, tap)
        close(replayed(plan, tap, lots if tap is SENT else lots[:1]), seen.gradient)


SHARED = replace(FED_SDP_CLIENT, share=True)
EACH, MEAN = (replace(FED_CDP, draw=draw) for draw in (Draw.EACH, Draw.MEAN))
BY_STEP = Linear(start=8.0, end=4.0, per=Per.STEP)  # 8 - 4 u / 9 with u = 3 t + l; here t = 1
MEASURED = {
    # method, tap, step: sigma S by hand in the units of a gradient; C = 4, sigma = 6, eta L = 0.3, B = 4, K = 3
    "fed-sdp": (FED_SDP, ARRIVES, 0, 24 / 0.3),
    "fed-sdp-client": (FED_SDP_CLIENT, SENT, 0, 24 / 0.3),
    "fed-sdp-client-arriving": (FED_SDP_CLIENT, ARRIVING, 0, 24 / 0.3),
    "share": (SHARED, SENT, 0, 24 / math.sqrt(3) / 0.3),
    "random-noise": (METHODS["random-noise"].value, SENT, 0, 0.1 / 0.3),
    "sum": (FED_CDP, USED, 0, 24 / 4),
    "mean": (MEAN, USED, 0, 24.0),
    "each": (EACH, USED, 0, 24 / 2),
    "each-single": (EACH, ALONE, 0, 24.0),
    "sum-sent": (FED_CDP, SENT, 0, 24 / 4 / math.sqrt(3)),
    "mean-sent": (MEAN, SENT, 0, 24 / math.sqrt(3)),
    "each-arriving": (EACH, ARRIVES, 0, 24 / 2 / math.sqrt(3)),
    "quantile": (QUANTILE, USED, 0, 24 * 0.8 / 4),
    "slack": (FED_SLACK, USED, 0, 24 * 0.8 / 4),
    "by-step": (replace(FED_CDP, noise=BY_STEP), USED, 0, (8 - 12 / 9) * 4 / 4),
    "by-step-sent": (replace(FED_CDP, noise=BY_STEP), SENT, 0, math.hypot(*(8 - 4 * u / 9 for u in (3, 4, 5))) / 3),
    "by-step-server": (replace(FED_SDP, noise=BY_STEP), ARRIVES, 0, (8 - 12 / 9) * 4 / 0.3),
}


def looks_standard_normal(z):
    """Whether 1160 numbers have deviation 1 to 10 %, five times its error, and pass Kolmogorov and Smirnov."""
    return abs(z.std() - 1) < 0.1 and stats.kstest(z, "norm").pvalue > 1e-3


@pytest.mark.parametrize(("method", "tap", "at", "expected"), MEASURED.values(), ids=MEASURED)
def test_the_noise_on_a_reading_is_what_it_states(method, tap, at, expected):
    plan = plan_of(method)
    seen = taken(plan, tap, step=at)
    np.testing.assert_allclose(spread_of(seen), expected, rtol=1e-5)
    off = flat(seen.gradient) - flat(by_hand(plan, tap))
    assert looks_standard_normal(off / expected)
    assert not looks_standard_normal(off / expected * 1.25)
    assert not looks_standard_normal(off / expected / 1.25)


def test_a_later_step_is_noised_by_its_own_scale():
    plan = plan_of(replace(FED_CDP, noise=BY_STEP))
    first, last = (taken(plan, USED, step=s) for s in (0, 2))
    np.testing.assert_allclose(spread_of(last), 8 - 20 / 9, rtol=1e-5)
    units = [clipped(FED_CDP, gradient_of(last.params, row), ()) for row in last.rows]
    off = flat(last.gradient) - np.mean([flat(unit) for unit in units], axis=0)
    assert looks_standard_normal(off / (8 - 20 / 9))
    assert abs(np.corrcoef(off, flat(first.gradient))[0, 1]) < 5 / math.sqrt(len(off))


@pytest.mark.parametrize(("tap", "divisor"), [(USED, 4), (SENT, 4 * math.sqrt(3)), (ARRIVES, 4 * math.sqrt(3))])
def test_adaclip_noises_each_coordinate_by_its_own_width(tap, divisor):
    plan = plan_of(ADACLIP)
    seen = taken(plan, tap)
    spread = spread_of(seen)
    np.testing.assert_allclose(spread, 6 * flat(begun(plan).clip_state[2]) / divisor, rtol=1e-3)
    off = flat(seen.gradient) - flat(by_hand(plan, tap))
    assert looks_standard_normal(off / spread)
    assert not looks_standard_normal(off / off.std())
    assert not looks_standard_normal(off / spread * 1.25)


NOISED = {
    # surfaces at which what is released carries noise; ? where its scale is private
    "non-private": "",
    "fed-sdp": "0",
    "fed-sdp-client": "01",
    "fed-cdp": "012",
    "fed-alpha-cdp": "012?",
    "fed-alpha-cdp-sigma": "012?",
    "quantile": "012",
    "adaclip": "012",
    "fed-slack": "012",
    "fed-sum": "012",
    "dssgd": "",
    "pruning": "",
    "random-noise": "01",
    "fed-alpha-cdp-as-coded": "012?",
    "dssgd-noisy": "01",
}


def test_every_method_is_expected_here():
    assert set(NOISED) == set(METHODS)


@EVERY
def test_a_method_noises_the_surfaces_it_says_and_no_others(name):
    plan, private = plan_of(name), "?" in NOISED[name]
    for tap in TAPS:
        acts_here = plan.method.surface is tap.surface and not plan.method.idle
        noisy = str(int(tap.surface)) in NOISED[name] and not (acts_here and tap.view == "arriving")
        noisy = noisy and tap.view != "in_memory"
        seen = taken(plan, tap)
        spread = spread_of(seen)
        assert np.isnan(spread).all() if noisy and private else (spread > 0).all() == noisy
        assert (spread == 0).all() != noisy
        if name in PRUNED and tap.surface is not EXAMPLE:
            continue
        off = np.abs(flat(seen.gradient) - flat(by_hand(plan, tap)))
        assert np.median(off) > 1e-2 if noisy else off.max() < 1e-5


FLAT, ROOT = replace(FED_CDP, clip=Flat(4.0)), math.sqrt(2)
FLAT_EACH, FLAT_MEAN = (replace(FLAT, draw=draw) for draw in (Draw.EACH, Draw.MEAN))
MU = {
    # C / n over sigma S share(n), with sigma = 6 and S = C; sqrt(2) for two layers; sqrt(touches)
    "single": (FLAT, {"batch": 1}, ALONE, 1 / 6),
    "one-touch": (FLAT, {"batch": 1}, SENT, 1 / 6),
    "per-layer": (FED_CDP, {"batch": 1}, ALONE, ROOT / 6),
    "sum": (FLAT, {}, USED, 1 / 6),
    "mean": (FLAT_MEAN, {}, USED, 1 / 24),
    "each": (FLAT_EACH, {}, USED, 1 / 12),
    "each-single": (FLAT_EACH, {}, ALONE, 1 / 6),
    "sent": (FLAT, {}, SENT, 1 / 6),
    "arriving": (FLAT, {}, ARRIVING, 1 / 6),
    "arrives": (FLAT, {}, ARRIVES, 1 / 6),
    "mean-sent": (FLAT_MEAN, {}, SENT, 1 / 24),
    "per-layer-sent": (FED_CDP, {}, SENT, ROOT / 6),
    "two-touches": (FLAT, {"local_steps": 6}, SENT, ROOT / 6),
    "two-touches-one-step": (FLAT, {"local_steps": 6}, USED, 1 / 6),
    "poisson": (FLAT, {"sampling": Poisson()}, SENT, math.sqrt(3) / 6),
    "fixed-sensitivity": (replace(FLAT, sensitivity=Fixed(2.0)), {}, USED, 2 / 6),
    "decay": (replace(FLAT, noise=Linear(start=9.0, end=3.0)), {}, USED, 1 / 7),
    "quantile": (QUANTILE, {}, USED, 1 / 6),
    "slack": (FED_SLACK, {}, USED, 1 / 6),
    "adaclip": (ADACLIP, {}, SENT, 1 / 6),
    "server": (FED_SDP, {}, ARRIVES, ROOT / 6),
    "update": (FED_SDP_CLIENT, {}, SENT, ROOT / 6),
    "update-arriving": (FED_SDP_CLIENT, {"local_steps": 7}, ARRIVING, ROOT / 6),
    "share": (SHARED, {}, SENT, ROOT * math.sqrt(3) / 6),
    "dssgd-noisy": (METHODS["dssgd-noisy"].value, {}, SENT, ROOT / 6),
    "not-yet-noised": (FED_SDP, {}, ARRIVING, None),
    "not-noised-there": (FED_SDP_CLIENT, {}, USED, None),
    "in-memory": (FLAT, {}, IN_MEMORY, None),
    "l2-max": (FED_ALPHA_CDP, {}, USED, None),
    "as-coded": (METHODS["fed-alpha-cdp-as-coded"].value, {}, SENT, None),
    "non-private": (NON_PRIVATE, {}, USED, None),
    "pruning": (METHODS["pruning"].value, {}, SENT, None),
    "unclipped": (METHODS["random-noise"].value, {}, SENT, None),
}


@pytest.mark.parametrize(("method", "changes", "tap", "expected"), MU.values(), ids=MU)
def test_mu_is_what_an_example_or_a_client_moves_over_the_noise(method, changes, tap, expected):
    plan = plan_of(method, **changes)
    found = gaussian_mu(plan, 1, tap, len(jax.tree.leaves(begun(plan).params)))
    assert found == (None if expected is None else pytest.approx(expected, rel=1e-6))


def test_mu_of_an_update_allows_for_the_step_with_the_least_noise():
    plan = plan_of(replace(FLAT, noise=BY_STEP))
    assert gaussian_mu(plan, 1, SENT, len(jax.tree.leaves(begun(plan).params))) == pytest.approx(1 / (8 - 20 / 9))


def test_noise_of_a_private_scale_is_not_a_number_and_of_no_noise_is_zero():
    params = begun(PLAN).params
    for method, tap, expected in ((FED_ALPHA_CDP, USED, math.nan), (FED_SDP, ARRIVING, 0.0), (NON_PRIVATE, SENT, 0.0)):
        for leaf in noise(plan_of(method), 0, tap, params, ()):
            np.testing.assert_array_equal(leaf, np.broadcast_to(expected, np.shape(leaf)))


@pytest.mark.parametrize(
    ("surface", "view", "single", "said"),
    [
        (EXAMPLE, "arriving", False, "view = 'arriving': must be released or in_memory at surface 2"),
        (UPDATE, "in_memory", False, "view = 'in_memory': must be released at surface 1"),
        (SERVER, "in_memory", False, "view = 'in_memory': must be released, arriving, aggregate or model at surface 0"),
        (UPDATE, "released", True, "surface 2 only"),
    ],
)
def test_a_view_that_a_surface_does_not_show_is_refused(surface, view, single, said):
    with pytest.raises(BadInput, match=said):
        Tap(surface, view, single)


SINGLES = {
    "non-private": (NON_PRIVATE, 4, "released", True),
    "fed-sdp": (FED_SDP, 4, "released", True),
    "fed-cdp": (FED_CDP, 4, "released", False),
    "fed-cdp-in-memory": (FED_CDP, 4, "in_memory", True),
    "fed-cdp-alone": (FED_CDP, 1, "released", True),
    "each": (EACH, 4, "released", True),
    "mean": (MEAN, 4, "released", False),
}


@pytest.mark.parametrize(("method", "batch", "view", "expected"), SINGLES.values(), ids=SINGLES)
def test_single_examples_are_read_unless_only_their_noised_sum_is_let_out(method, batch, view, expected):
    plan = plan_of(method, batch=batch)
    assert shows_singles(plan, view) == expected
    assert Tap.at(plan, EXAMPLE, view) == Tap(EXAMPLE, view, single=expected)
    assert Tap.at(plan, UPDATE, "released") == SENT


def test_the_views_are_those_of_the_paper_the_harsher_ones_the_sum_and_the_model():
    assert leaks.VIEWS == {
        SERVER: ("released", "arriving", "aggregate", "model"),
        UPDATE: ("released",),
        EXAMPLE: ("released", "in_memory"),
    }


def test_everyone_read_here_takes_part_somewhere():
    assert CLIENT in {int(c) for t in range(3) for c in cohort_of(PLAN, t, ROOTS)}
