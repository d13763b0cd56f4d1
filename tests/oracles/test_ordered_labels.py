"""Labels of several local steps, against every sequence of labels tried out; and updates too long to be unrolled."""

from dataclasses import dataclass, replace
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.attacks.class_mix import likelihood
from gradveil.attacks.labels import Granted, Joint
from gradveil.attacks.leak import Leak, Public, Reading, Stage
from gradveil.attacks.ordered import Ordered
from gradveil.attacks.zoo import MAP, UNROLLED
from gradveil.errors import BadInput
from gradveil.models.gradients import per_example_gradients
from gradveil.surface import Surface

CLASSES, FEATURES, STEPS = 3, 6, 4


@dataclass(frozen=True)
class Linear:
    def apply(self, params, x):
        return x @ params[0] + params[1]


@dataclass(frozen=True)
class Walk:
    """Plain SGD over single examples at a rate so high that the order is plain to see."""

    rate: float = 1.0

    def __call__(self, params, clip_state, x, y):
        at = params
        for i in range(x.shape[0]):
            lot = per_example_gradients(Linear(), at, x[i : i + 1], y[i : i + 1])
            at = jax.tree.map(lambda p, g: p - self.rate * g[0], at, lot)
        return jax.tree.map(lambda after, before: (before - after) / (self.rate * x.shape[0]), at, params)


STAGE = Stage(
    model=Linear(),
    shape=(FEATURES,),
    classes=CLASSES,
    surface=Surface.SERVER,
    view="released",
    batch=1,
    steps=STEPS,
    replay=Walk(),
)
PARAMS = (jnp.zeros((FEATURES, CLASSES)), jnp.zeros(CLASSES))


def public():
    random = np.random.default_rng(0)
    y = np.arange(60) % CLASSES
    centres = np.eye(CLASSES, FEATURES)
    return Public((centres[y] + 0.1 * random.normal(size=(60, FEATURES))).astype(np.float32), y)


PUBLIC = public()
MEANS = np.stack([PUBLIC.x[PUBLIC.y == c].mean(axis=0) for c in range(CLASSES)])


def leak_of(labels, stage=STAGE, told=None):
    random = np.random.default_rng(1)
    labels = np.asarray(labels)
    x = (np.eye(CLASSES, FEATURES)[labels] + 0.1 * random.normal(size=(len(labels), FEATURES))).astype(np.float32)
    gradient = jax.device_get(STAGE.replay(PARAMS, (), x, labels))
    silent = jax.tree.map(lambda a: np.zeros((), np.float32), gradient)
    return Leak(stage, (Reading(PARAMS, (), gradient, silent),), PUBLIC, told)


def fit(leak, guess):
    """How well a sequence explains a reading, each class's public mean standing for its examples."""
    shown = STAGE.replay(PARAMS, (), MEANS[list(guess)], np.asarray(guess))
    return float(likelihood(leak.readings[0].gradient, shown, leak.readings[0].std))


@pytest.mark.parametrize("labels", [(0, 1, 2, 2), (2, 0, 0, 1), (1, 1, 0, 1)])
@pytest.mark.parametrize("told", [(0, 0, 0, 0), (2, 1, 0, 0)])
def test_no_change_of_one_label_explains_the_reading_better(labels, told):
    leak = leak_of(labels, told=np.array(told))
    found = Ordered(Granted(), sweeps=6)(leak, STEPS)
    best = fit(leak, found)
    assert best >= fit(leak, told)
    for place, other in product(range(STEPS), range(CLASSES)):
        changed = found.copy()
        changed[place] = other
        assert fit(leak, changed) <= best


@pytest.mark.parametrize("labels", [(0, 0, 0, 1), (0, 1, 2, 2)])
def test_no_trade_of_two_labels_explains_the_reading_better(labels):
    leak = leak_of(labels, told=np.zeros(STEPS, int))
    found = Ordered(Granted(), sweeps=6)(leak, STEPS)
    for i, j in product(range(STEPS), range(STEPS)):
        traded = found.copy()
        traded[[i, j]] = traded[[j, i]]
        assert fit(leak, traded) <= fit(leak, found)


def test_an_order_that_no_change_of_one_label_mends_is_mended_by_a_trade():
    # From (0, 0, 0, 0) single changes end at (0, 0, 1, 0): every other label at one place explains less.
    leak, stuck = leak_of((0, 0, 0, 1), told=np.zeros(STEPS, int)), (0, 0, 1, 0)
    changes = [(*stuck[:i], c, *stuck[i + 1 :]) for i, c in product(range(STEPS), range(CLASSES))]
    assert all(fit(leak, one) <= fit(leak, stuck) for one in changes)
    assert Ordered(Granted())(leak, STEPS).tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("labels", [(0, 1, 2, 2), (2, 0, 0, 1), (1, 1, 0, 1)])
def test_a_label_that_was_wrong_is_mended(labels):
    told = np.array(labels)
    told[1] = (told[1] + 1) % CLASSES
    assert sorted(Ordered(Granted())(leak_of(labels, told=told), STEPS)) == sorted(labels)


@pytest.mark.parametrize(("stage", "n"), [(replace(STAGE, steps=1, batch=STEPS), STEPS), (STAGE, STEPS - 1)])
def test_where_nothing_can_be_replayed_the_first_rule_stands(stage, n):
    told = np.array([2, 2, 1, 0])
    assert Ordered(Granted())(leak_of((0, 1, 2, 2), stage, told), n).tolist() == told[:n].tolist()


def test_a_rule_that_names_no_labels_is_left_alone():
    assert Ordered(Joint())(leak_of((0, 1, 2, 2)), STEPS) is None


def test_no_sweep_at_all_is_refused():
    with pytest.raises(BadInput, match=r"^sweeps = 0"):
        Ordered(sweeps=0)


@pytest.mark.parametrize("attack", [MAP, UNROLLED], ids=["map", "unrolled"])
def test_an_update_longer_than_can_be_unrolled_is_matched_as_one_big_batch(attack):
    short = replace(attack, longest=STEPS - 1, iterations=3)
    found = short(leak_of((0, 1, 2, 2)), jax.random.key(0))
    assert found.finite
    assert found.x.shape[1:] == (STEPS, FEATURES)
