"""Which of n: for every method the identifier is as good as can be, by a simulation in NumPy of its mechanism alone."""

import math
from dataclasses import dataclass, replace
from functools import cache

import jax
import numpy as np
import pytest
from scipy import stats

from gradveil.data.dataset import Dataset, Split
from gradveil.data.partition import Iid
from gradveil.federation.leaks import Tap
from gradveil.federation.plan import Plan
from gradveil.leakage import scenes
from gradveil.leakage.attack_run import leak_of, public_half
from gradveil.leakage.identification import identification
from gradveil.methods import FED_ALPHA_CDP, FED_CDP, FED_SLACK, FED_SUM, METHODS
from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.clip import Flat, OwnNorm, PerLayer, Unclipped
from gradveil.privacy.draw import Draw
from gradveil.privacy.prune import Dssgd, Smallest
from gradveil.privacy.schedule import Constant
from gradveil.privacy.sensitivity import ClipBound, Fixed, L2Max, L2MaxAsCoded, L2MaxOfMean
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface

SHAPE, CLASSES, BATCH, CLIENTS, RATE, N = (6, 6, 1), 4, 3, 30, 0.1, 10
DRAWS = 40
"""Of the simulation, for each of the CLIENTS x BATCH trials."""


@dataclass(frozen=True)
class Softmax:
    """x W + b: 36 x 4 + 4 coordinates in two layers."""

    def init(self, key, shape, classes):
        first, second = jax.random.split(key)
        return 0.3 * jax.random.normal(first, (math.prod(shape), classes)), jax.random.normal(second, (classes,))

    def apply(self, params, x):
        return x.reshape(-1) @ params[0] + params[1]


@cache
def dataset():
    """Pictures of very different brightness, so that the norms of gradients differ."""
    random = np.random.default_rng(0)

    def split(n):
        y = random.integers(0, CLASSES, n).astype(np.int32)
        x = random.uniform(0, 255, (n, *SHAPE)) * random.uniform(0.2, 1, (n, 1, 1, 1))
        return Split(x.astype(np.uint8), y)

    return Dataset("tiny", split(CLIENTS * BATCH), None, split(60), tuple("abcd"))


def tuned(method):
    """The method at a scale at which some records are told and some are not, and its clip is felt."""
    small = method.surface is not Surface.EXAMPLE
    changes = {} if method.noise.silent else {"noise": Constant(NOISE.get(method.name, 0.4))}
    match method.clip:
        case PerLayer():
            follows = not isinstance(method.sensitivity, ClipBound)
            changes["clip"] = PerLayer(50.0 if follows else 0.03 if small else 0.5)
            if isinstance(method.prune, Dssgd):  # which coordinates are shared would decide how far they are clipped
                changes["clip"] = PerLayer(0.2)
        case Quantile():
            changes["clip"] = Quantile(0.5)
        case Slack():
            changes["clip"] = Slack(2.0)
    if isinstance(method.prune, Dssgd):
        changes["prune"] = Dssgd(fraction=0.3, threshold=1e-3, bound=1e-2)
    return replace(method, **changes)


NOISE = {"random-noise": 0.02, "fed-alpha-cdp": 2.0, "fed-alpha-cdp-sigma": 2.0, "fed-alpha-cdp-as-coded": 2.0} | {
    "each": 4.0,
    "of-mean": 4.0,
    "share": 0.4 * math.sqrt(3),
    "dssgd-noisy": 0.02,
    "aggregate": 0.2,
}
CASES = {name: tuned(entry.value) for name, entry in METHODS.items()} | {
    "each": tuned(replace(FED_ALPHA_CDP, name="each", draw=Draw.EACH)),
    "mean": tuned(replace(FED_CDP, draw=Draw.MEAN)),
    "of-mean": tuned(replace(FED_ALPHA_CDP, name="of-mean", sensitivity=L2MaxOfMean())),
    "slack-per-layer": replace(tuned(FED_SLACK), clip=Slack(2.0, per_layer=True)),
    "pruned": tuned(replace(FED_CDP, prune=Smallest(0.6))),
    "share": tuned(replace(FED_SUM, name="share", share=True, honest=0.75)),  # each of 3 honest clients of 4
    "aggregate": tuned(replace(FED_CDP, name="aggregate")),
}
SUMS = {"aggregate": 4}
"""Cases in which only the sum over so many clients is read."""

IN_SECONDS = ("fed-cdp", "fed-alpha-cdp", "dssgd-noisy", "fed-slack", "share")
"""Cases of every kind of law: `make test` tries these, the slow suite all others."""


@cache
def scene(name):
    return scene_of(CASES[name], Tap(Surface.SERVER, "aggregate") if name in SUMS else Tap(CASES[name].surface))


def scene_of(method, tap):
    plan = Plan(
        dataset="tiny",
        method=method,
        clients=CLIENTS,
        cohort=4,
        rounds=2,
        local_steps=1,
        batch=BATCH,
        client_size=BATCH,
        learning_rate=RATE,
        model=Softmax(),
        partition=Iid(),
        seed=3,
    )
    return scenes.fresh(plan, dataset(), tap)


@cache
def identified(name):
    public = public_half(dataset())
    held = [leak_of(scene(name), client, public) for client in range(CLIENTS // SUMS.get(name, 1))]
    found = {one.n: one for one in identification([leak for leak, _ in held], [truth for _, truth in held], seed=1)}
    return held, found[N]


# The mechanism and its best adversary, in NumPy


def gradient_of(params, x, y):
    """The gradient of the cross-entropy of softmax(x W + b), in one row."""
    w, b = (np.asarray(p, np.float64) for p in params)
    odds = np.exp(x.ravel().astype(np.float64) @ w + b)
    off = odds / odds.sum() - np.eye(CLASSES)[y]
    return np.concatenate([np.outer(x.ravel(), off).ravel(), off])


EDGE = math.prod(SHAPE) * CLASSES
"""Where the second layer begins."""


def layers(row):
    return np.array([np.linalg.norm(row[:EDGE]), np.linalg.norm(row[EDGE:])])


def by_layer(factors):
    return np.repeat(factors, [EDGE, CLASSES])


def clipped(method, unit, state):
    """A unit, in the space of the clip, and after clipping."""
    norms = layers(unit)
    match method.clip:
        case Unclipped():
            return unit, unit
        case PerLayer(c):
            return unit, unit * by_layer(np.minimum(1, c / norms))
        case Flat(c):
            return unit, unit * min(1, c / np.linalg.norm(unit))
        case OwnNorm(low, high):
            return unit, unit * by_layer(np.minimum(1, min(max(norms.max(), low), high) / norms))
        case Quantile() | Slack(per_layer=False):
            return unit, unit * min(1, float(state) / np.linalg.norm(unit))
        case Slack(per_layer=True):
            return unit, unit * by_layer(np.minimum(1, float(state) / norms))
        case AdaClip(radius):
            m, b = (np.concatenate([np.ravel(a) for a in state[i]]).astype(np.float64) for i in (0, 2))
            white = (unit - m) / b
            return white, white * min(1, radius / np.linalg.norm(white))
    raise AssertionError(f"write down what {method.clip} does")


def slots(method, unit, state):
    """What a slack clip writes beside a unit: t_k = C / sqrt(2)^k in slot k if the norm is at most that."""
    if not isinstance(method.clip, Slack):
        return np.zeros(0)
    norms = layers(unit) if method.clip.per_layer else [np.linalg.norm(unit)]
    levels = float(state) / np.sqrt(2.0) ** np.arange(1, 5)
    return np.concatenate([[t if n <= t else 0.0 for t in levels] for n in norms])


def scale(method, before, after, state):
    """S of a lot."""
    match method.sensitivity:
        case Fixed(value):
            return value
        case ClipBound():
            match method.clip:
                case PerLayer(c) | Flat(c):
                    return c
                case Quantile() | Slack():
                    return float(state)
                case AdaClip(radius):
                    return radius
        case L2Max():
            return min(method.clip.c, max(layers(row).max() for row in after))
        case L2MaxOfMean():
            return layers(np.sum(after, axis=0) / BATCH).max()
        case L2MaxAsCoded(low, high):
            return np.mean([min(max(layers(row).max(), low), high) for row in before])
    raise AssertionError(f"write down what {method.sensitivity} does")


def released(method, params, state, batch):
    """What a batch of examples releases: mean and noise of each coordinate, or what a random prune may do to it."""
    units = [gradient_of(params, x, y) for x, y in batch]
    if method.surface is not Surface.EXAMPLE:
        units = [-RATE * np.sum(units, axis=0) / BATCH]
    chances = np.ones_like(units[0])
    match method.prune:
        case Smallest(mu):
            rank = math.floor(mu * len(units[0]))
            units = [np.where(np.abs(u) > np.sort(np.abs(u))[rank - 1], u, 0) for u in units]
        case Dssgd(fraction, threshold, bound):
            (unit,) = units
            chances = np.where(np.abs(unit) > threshold, fraction, 0)
            units = [np.clip(unit, -bound, bound)]
    before, after = zip(*(clipped(method, unit, state) for unit in units), strict=True)
    n = len(units) if method.surface is not Surface.EXAMPLE else BATCH
    part = {Draw.SUM: 1 / n, Draw.EACH: 1 / math.sqrt(n), Draw.MEAN: 1}[method.draw]
    part /= math.sqrt(3) if method.share else 1
    beside = np.sum([slots(method, unit, state) for unit in units], axis=0) / n
    mean, chances = np.append(np.sum(after, axis=0) / n, beside), np.append(chances, np.ones_like(beside))
    return mean, chances, method.noise.sigma * scale(method, before, after, state) * part


def summed(name, params, state, batch):
    """What is read of a batch: of one client, or the mean over several that noise their parts on their own."""
    parts = [batch[i : i + BATCH] for i in range(0, len(batch), BATCH)]
    means, chances, stds = zip(*(released(CASES[name], params, state, part) for part in parts), strict=True)
    return np.mean(means, axis=0), chances[0], math.sqrt(np.sum(np.square(stds))) / len(parts)


def log_densities(y, law):
    """Of draws y [draws, d]."""
    mean, chances, std = law
    if std == 0:  # nothing but the choice of coordinates is random
        matches = np.isclose(y, mean, rtol=1e-9, atol=1e-12)
        with np.errstate(divide="ignore"):
            return np.log(np.where(matches, chances, 0) + np.where(y == 0, 1 - chances, 0)).sum(axis=1)
    kept = np.exp(-(((y - mean) / std) ** 2) / 2)
    away = np.exp(-((y / std) ** 2) / 2)
    return np.log(chances * kept + (1 - chances) * away).sum(axis=1) - len(mean) * np.log(std)


@cache
def optimum(name):
    """How often the likeliest candidate is the true one, over trials and draws of the mechanism."""
    held, _ = identified(name)
    random, hits = np.random.default_rng(5), []
    public = public_half(dataset())
    for leak, truth in held:
        reading = leak.readings[0]
        for place in range(len(truth.y)):
            rows = random.choice(len(public.x), N - 1, replace=False)
            others = [(public.x[row], public.y[row]) for row in rows]
            batch = list(zip(truth.x, truth.y, strict=True))
            lots = [batch] + [[*batch[:place], other, *batch[place + 1 :]] for other in others]
            laws = [summed(name, reading.params, reading.clip_state, lot) for lot in lots]
            mean, chances, std = laws[0]
            shape = (DRAWS, len(mean))
            y = np.where(random.uniform(size=shape) < chances, mean, 0) + std * random.normal(size=shape)
            scores = np.stack([log_densities(y, law) for law in laws])
            hits.append(scores[0] > scores[1:].max(axis=0))
    return float(np.mean(hits))


@pytest.mark.parametrize(
    "name", [*IN_SECONDS, *(pytest.param(n, marks=pytest.mark.slow) for n in CASES if n not in IN_SECONDS)]
)
def test_the_true_record_is_picked_as_often_as_the_best_adversary_picks_it(name):
    held, found = identified(name)
    best = optimum(name)
    assert found.trials == sum(len(truth.y) for _, truth in held) >= 28 * BATCH
    hits = round(found.success * found.trials)
    low, high = stats.binom.ppf((0.0005, 0.9995), found.trials, best)
    assert low <= hits <= high, (hits, best)
    assert found.optimum == pytest.approx(best, abs=0.05)
    assert best > 0.2  # a case in which nothing can be told would say nothing


@pytest.mark.parametrize("name", ["fed-slack", "slack-per-layer"])
def test_slots_are_read_as_the_mechanism_writes_them(name):
    """Readings and redrawn readings, less what NumPy expects of their slots, in units of the noise: N(0, 1)."""
    held, _ = identified(name)
    off, again = [], []
    for client, (leak, truth) in enumerate(held):
        reading = leak.readings[0]
        mean, _, std = released(CASES[name], reading.params, reading.clip_state, zip(truth.x, truth.y, strict=True))
        beside = mean[EDGE + CLASSES :]
        off.append((np.ravel(reading.slots) - beside) / std)
        public = reading.params, reading.clip_state, reading.sigmas, truth.x, truth.y
        again.append((np.ravel(leak.stage.draw(*public, jax.random.key(client))[1]) - beside) / std)
    for values in (np.concatenate(off), np.concatenate(again)):
        assert len(values) == CLIENTS * 4 * (2 if name == "slack-per-layer" else 1)
        assert abs(values.mean()) < 4 / math.sqrt(len(values))
        assert values.std() == pytest.approx(1, abs=4 / math.sqrt(2 * len(values)))


def optimum_of(method, tap):
    leak, truth = leak_of(scene_of(method, tap), 0, public_half(dataset()))
    return identification([leak], [truth], seed=1)[0].optimum


NOISY = CASES["dssgd-noisy"]
"""Of 144 + 4 coordinates within 1e-2: at most 0.12 in a layer, 0.1217 in all."""


@pytest.mark.parametrize(
    ("method", "tap", "known"),
    [
        (NOISY, Tap(Surface.UPDATE), True),
        (replace(NOISY, clip=Flat(0.122)), Tap(Surface.UPDATE), True),
        (replace(NOISY, clip=PerLayer(0.119)), Tap(Surface.UPDATE), False),
        (replace(NOISY, clip=Flat(0.121)), Tap(Surface.UPDATE), False),
        (replace(NOISY, clip=PerLayer(0.02)), Tap(Surface.SERVER), False),
        (replace(NOISY, clip=PerLayer(0.02)), Tap(Surface.EXAMPLE, "released", True), True),  # before all of it
        (replace(NOISY, clip=PerLayer(0.02), prune=Smallest(0.6)), Tap(Surface.UPDATE), True),  # nothing is random
        (replace(FED_CDP, prune=NOISY.prune, clip=PerLayer(50.0)), Tap(Surface.EXAMPLE), False),  # three are added up
    ],
)
def test_no_optimum_is_claimed_where_a_random_choice_decides_more_than_what_is_held_back(method, tap, known):
    assert (optimum_of(method, tap) is not None) is known


def test_every_method_is_tried():
    assert set(METHODS) <= set(CASES)
