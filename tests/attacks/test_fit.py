"""An attack says whether its guess explains what was read, and tries further labels and another optimizer if not."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.attacks.distance import Likelihood
from gradveil.attacks.fit import fits
from gradveil.attacks.labels import Granted
from gradveil.attacks.lbfgs import Lbfgs
from gradveil.attacks.leak import Leak, Public, Reading, Stage
from gradveil.attacks.zoo import CPL, UNROLLED
from gradveil.errors import BadInput
from gradveil.models.gradients import per_example_gradients
from gradveil.surface import Surface

CLASSES, FEATURES, STEPS = 3, 6, 3


@dataclass(frozen=True)
class Linear:
    def apply(self, params, x):
        return x @ params[0] + params[1]


@dataclass(frozen=True)
class Walk:
    """Plain SGD over single examples at a high rate."""

    def __call__(self, params, clip_state, x, y):
        at = params
        for i in range(x.shape[0]):
            lot = per_example_gradients(Linear(), at, x[i : i + 1], y[i : i + 1])
            at = jax.tree.map(lambda p, g: p - g[0], at, lot)
        return jax.tree.map(lambda after, before: (before - after) / x.shape[0], at, params)


@dataclass(frozen=True)
class Told:
    """Labels that somebody made up."""

    labels: tuple

    def __call__(self, leak, n):
        return np.array(self.labels)


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
RIGHT, WRONG, WORSE = (0, 1, 2), (0, 1, 1), (2, 2, 0)


def examples(n, seed):
    random, y = np.random.default_rng(seed), np.arange(n) % CLASSES
    return (np.eye(CLASSES, FEATURES)[y] + 0.1 * random.normal(size=(n, FEATURES))).astype(np.float32), y


@pytest.fixture(scope="module")
def leak():
    x, y = examples(STEPS, 1)
    gradient = jax.device_get(STAGE.replay(PARAMS, (), x, y))
    silent = jax.tree.map(lambda a: np.zeros((), np.float32), gradient)
    return Leak(STAGE, (Reading(PARAMS, (), gradient, silent),), Public(*examples(60, 0)))


def attack(labels, *hypotheses, signed=0, optimizer=UNROLLED.optimizer):
    return replace(
        UNROLLED, labels=Told(labels), hypotheses=tuple(map(Told, hypotheses)), signed=signed, optimizer=optimizer
    )


def run(attack, leak):
    return attack(leak, jax.random.key(0))


def test_labels_that_cannot_explain_the_reading_do_not_fit_and_the_right_ones_do(leak):
    assert run(attack(RIGHT), leak).fitted is True
    assert run(attack(WRONG), leak).fitted is False


@pytest.mark.parametrize("order", [(RIGHT, WRONG), (WRONG, RIGHT), (WORSE, WRONG, RIGHT)])
def test_of_several_hypotheses_the_one_that_fits_is_kept(order, leak):
    found = run(attack(*order), leak)
    assert (tuple(found.labels), found.fitted) == (RIGHT, True)


def test_where_none_fits_the_least_loss_is_kept_and_said_not_to_fit(leak):
    alone = [run(attack(labels), leak) for labels in (WORSE, WRONG)]
    found = run(attack(WORSE, WRONG), leak)
    assert found.loss[-1] == min(one.loss[-1] for one in alone)
    assert found.fitted is False


def test_labels_that_are_told_are_not_doubted(leak):
    told = replace(attack(WRONG, RIGHT), labels=Granted())
    assert tuple(run(told, replace(leak, labels=np.array(WRONG))).labels) == WRONG


def test_signed_adam_goes_on_where_the_line_search_gave_up(leak):
    lame = Lbfgs(inner=1, least_gain=0.9)  # stops at once
    stuck = run(attack(RIGHT, optimizer=lame), leak)
    helped = run(attack(RIGHT, signed=400, optimizer=lame), leak)
    assert stuck.fitted is False
    assert helped.loss[-1] < stuck.loss[-1] / 100
    assert (np.diff(helped.loss[1:]) <= 0).all()  # the best guess so far, not the last


def test_an_attack_whose_loss_has_no_scale_does_not_say(leak):
    one = replace(leak, stage=replace(STAGE, steps=1, batch=STEPS))
    assert CPL(one, jax.random.key(0)).fitted is None


def test_a_negative_number_of_signed_steps_is_refused():
    with pytest.raises(BadInput, match=r"^signed = -1"):
        replace(UNROLLED, signed=-1)


def reading(signal, noise, seed=0, d=4000):
    """One reading of d coordinates, stacked as attacks stack them."""
    random = np.random.default_rng(seed)
    true = signal * random.normal(size=(1, d))
    return true, Reading((), (), (true + noise * random.normal(size=(1, d)),), (np.full(1, noise),))


@pytest.mark.parametrize(
    ("signal", "noise", "missed", "expected"),
    [
        (1.0, 0.1, 0.0, True),  # the truth itself
        (1.0, 0.1, 1.0, False),  # nothing of it
        (1.0, 0.1, 0.5, False),
        (0.1, 1.0, 1.0, True),  # noise hides that nothing was found
        (1.0, 0.0, 0.01, True),  # a hundredth is left of a reading without noise
        (1.0, 0.0, 0.3, False),
    ],
)
def test_a_guess_fits_if_noise_or_little_of_the_reading_is_left(signal, noise, missed, expected):
    true, read = reading(signal, noise)
    guess = true * (1 - missed)
    least = noise or 1e-3 * np.sqrt(np.mean(np.square(read.gradient[0])))
    loss = np.sum(np.square((read.gradient[0] - guess) / least)) / 2
    assert fits(STAGE, read, Likelihood(), float(loss), values=100) is expected


def test_coordinates_that_were_held_back_explain_nothing():
    _, read = reading(1.0, 0.1)
    held = np.where(np.arange(4000) < 3900, 0.0, read.gradient[0])
    loss = 3 * 4000 / 2.0  # within four times the noise of all coordinates, not of those that are left
    assert fits(STAGE, read._replace(gradient=(held,)), Likelihood(), loss, values=100)
    assert not fits(replace(STAGE, sparse=True), read._replace(gradient=(held,)), Likelihood(), loss, values=100)
