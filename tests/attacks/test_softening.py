"""Attacks that follow a guess from a smooth network to the true one."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.attacks.attack import mount
from gradveil.attacks.labels import Granted
from gradveil.attacks.leak import Leak, Public, Reading, Stage
from gradveil.attacks.softening import SNAPSHOTS, Softening, follow, tempered
from gradveil.attacks.zoo import UNROLLED
from gradveil.errors import BadInput
from gradveil.models.gradients import batch_gradient
from gradveil.models.networks import Mlp
from gradveil.models.softened import Softened
from gradveil.surface import Surface

MODEL, FEATURES, CLASSES, STEPS, RATE = Mlp((24,)), 6, 3, 2, 0.5


@dataclass(frozen=True)
class Walk:
    """Plain SGD over single examples, in the units of a gradient; `soft` takes the sharpness before the parameters."""

    soft: bool = False

    def __call__(self, params, clip_state, x, y):
        model, before = (Softened(MODEL), params[1:]) if self.soft else (MODEL, params)
        at = before
        for i in range(STEPS):
            given = (params[0], *at) if self.soft else at
            gradient = batch_gradient(model, given, x[i : i + 1], y[i : i + 1], jnp.ones(1))
            at = jax.tree.map(lambda p, g: p - RATE * g, at, gradient)
        return jax.tree.map(lambda a, b: (a - b) / (RATE * STEPS), before, at)


STAGE = Stage(
    model=MODEL, shape=(FEATURES,), classes=CLASSES, surface=Surface.UPDATE, view="released", batch=1, steps=STEPS,
    replay=Walk(), soft=Walk(soft=True),
)  # fmt: skip
PARAMS = jax.device_get(MODEL.init(jax.random.key(3), (FEATURES,), CLASSES))


def leak_of(noise=0.0, beyond=0.0):
    """What two examples show; `beyond` is added to their values, which public ones have between 0 and 1."""
    random = np.random.default_rng(0)
    centers = random.uniform(0.2, 0.8, (CLASSES, FEATURES))
    y = np.arange(90) % CLASSES
    public = Public((centers[y] + 0.15 * random.normal(size=(90, FEATURES))).clip(0, 1).astype(np.float32), y)
    labels = np.array([0, 2])
    x = (centers[labels] + 0.15 * random.normal(size=(2, FEATURES))).clip(0, 1).astype(np.float32)
    x = x + np.float32(beyond)
    shown = jax.device_get(STAGE.replay(PARAMS, (), x, labels))
    noised = jax.tree.map(lambda g: (g + noise * random.normal(size=g.shape)).astype(np.float32), shown)
    std = jax.tree.map(lambda g: np.float32(noise), shown)
    return Leak(STAGE, (Reading(PARAMS, (), noised, std),), public, labels), x


SOFT = replace(UNROLLED, labels=Granted(), signed=0, softening=Softening(steps=200))


def by_path(leak):
    return SOFT._by_labels(leak, leak.labels, jax.random.key(0), SOFT.softening)


def test_the_path_leads_to_the_examples_that_were_used_and_noise_ends_that():
    leak, x = leak_of()
    error = np.sqrt(np.mean(np.square(by_path(leak).x[-1] - x)))
    assert error < 0.02
    hidden, _ = leak_of(noise=100.0)
    centers = np.stack([hidden.public.x[hidden.public.y == c].mean(axis=0) for c in hidden.labels])
    np.testing.assert_allclose(by_path(hidden).x[-1], centers, atol=0.05)


@dataclass(frozen=True)
class Flat:
    """The walk, without the slope that an optimizer could follow."""

    def __call__(self, params, clip_state, x, y):
        return jax.lax.stop_gradient(Walk()(params, clip_state, x, y))


def test_the_path_follows_slopes_of_the_smooth_network_alone():
    leak, x = leak_of()
    flat = replace(leak, stage=replace(STAGE, replay=Flat()))
    assert np.sqrt(np.mean(np.square(by_path(flat).x[-1] - x))) < 0.02


def test_a_path_whose_network_never_becomes_sharp_ends_elsewhere():
    leak, x = leak_of()
    blurred = replace(SOFT, softening=replace(SOFT.softening, sharpness=(2.0, 2.0)))
    found = blurred._by_labels(leak, leak.labels, jax.random.key(0), blurred.softening)
    assert np.sqrt(np.mean(np.square(found.x[-1] - x))) > 0.04


def test_values_beyond_public_ones_cost_what_the_box_says():
    leak, x = leak_of(beyond=0.5)
    boxed = replace(SOFT, softening=replace(SOFT.softening, box=1e8))
    found = boxed._by_labels(leak, leak.labels, jax.random.key(0), boxed.softening).x[-1]
    high = leak.public.x.max()
    assert x.max() > high + 0.3
    assert found.max() < high + 0.05
    assert SOFT.softening.outside(jnp.array([-0.1, 0.5, 1.2]), 0.0, 1.0) == pytest.approx(3000 * (0.01 + 0.04))


def test_it_is_taken_where_the_optimizer_did_not_fit():
    leak, x = leak_of()
    stuck = replace(SOFT, optimizer=replace(SOFT.optimizer, inner=1), iterations=1)
    without, with_path = (mount(replace(stuck, softening=path), [leak], 0)[0] for path in (None, SOFT.softening))
    assert without.fitted is False
    assert with_path.loss[-1] < without.loss[-1]
    assert np.abs(with_path.x[-1] - x).max() < np.abs(without.x[-1] - x).max()


def test_a_path_ends_at_its_best_snapshot_and_follows_both_schedules():
    seen = []

    def smooth(z, sharpness, tau):
        jax.debug.callback(lambda s, t: seen.append((float(s), float(t))), sharpness, tau)
        return jnp.sum((z - 1) ** 2)

    path = Softening(steps=40, sharpness=(2.0, 8.0), tau=(0.1, 0.01))
    found = follow(path, smooth, lambda z: jnp.abs(z[0] - 0.5), lambda z: z, jnp.zeros(1))
    jax.effects_barrier()
    assert (found.x.shape, found.iterations[-1]) == ((SNAPSHOTS + 1, 1), 40)
    assert found.loss[-1] == found.loss.min()
    seen.sort()
    assert seen[0] == pytest.approx((2.0, 0.1))
    assert seen[-1] == pytest.approx((8.0, 0.01))


def test_noise_of_a_layer_is_its_own_and_a_share_of_its_norm():
    y = (np.array([3.0, 4.0]), np.array([1.0]))
    g = (np.array([2.0, 4.0]), np.array([3.0]))
    std = (np.float32(0.5), np.float32(0.0))
    wanted = 1 / (2 * (0.25 + 0.01 * 25)) + 4 / (2 * 0.01 * 1)
    assert float(tempered(y, g, std, jnp.float32(0.1))) == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("wrong", [{"steps": 1}, {"sharpness": (0.0, 1.0)}, {"tau": (1.0, -1.0)}, {"box": -1.0}])
def test_senseless_numbers_are_refused(wrong):
    with pytest.raises(BadInput):
        Softening(**wrong)
