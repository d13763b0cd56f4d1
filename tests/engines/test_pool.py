"""The examples on the devices: as they are, or after a preparation, each computed when it changed and not again."""

from dataclasses import replace

import jax
import numpy as np
from jax.sharding import SingleDeviceSharding

from gradveil.engines import pool as module
from gradveil.engines.pool import Pool
from gradveil.models.gradients import per_example_gradients
from gradveil.models.preparation import NoisedMean, NoisedSecondMoment
from gradveil.models.regression import SoftmaxRegression

N, WIDTH, CLASSES = 7, 5, 3
MODEL = SoftmaxRegression(NoisedMean(0.3), NoisedSecondMoment(0.5), radius=2.0, bias=0.4)
X = np.random.default_rng(1).normal(size=(N, WIDTH)).astype(np.float32) * 3
Y = np.arange(N, dtype=np.int32) % CLASSES


def params(seed):
    drawn = np.random.default_rng(seed)
    shapes = [(WIDTH,), (WIDTH, WIDTH), (WIDTH + 1, CLASSES)]
    return tuple(drawn.normal(size=shape).astype(np.float32) for shape in shapes)


def pool_of(x=X):
    return Pool(x, SingleDeviceSharding(jax.devices()[0]))


def by_hand(held):
    def unit(v):
        return v / np.linalg.norm(v, axis=1, keepdims=True)

    v = X.astype(np.float64)
    v = v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 2.0)
    return unit(unit(v - held[0]) @ held[1])


def test_features_are_those_after_the_preparation_and_examples_come_back(monkeypatch):
    monkeypatch.setattr(module, "_CHUNK", 3)  # the last chunk is filled up, and what fills it is dropped
    pool = pool_of()
    np.testing.assert_array_equal(pool.examples(), X)
    np.testing.assert_allclose(pool.features(MODEL, params(0)), by_hand(params(0)), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(pool.examples(), X)


def test_they_are_computed_again_only_if_another_preparation_is_given():
    pool = pool_of()
    first = pool.features(MODEL, params(0))
    moved = (*params(0)[:2], params(3)[2])  # gradients move the last alone
    assert pool.features(MODEL, moved) is first
    other = (params(0)[0], params(1)[1], params(0)[2])
    np.testing.assert_allclose(pool.features(MODEL, other), by_hand(other), rtol=1e-4, atol=1e-5)


def test_the_rest_of_the_model_has_the_gradients_of_the_whole_one():
    at, v = params(2), pool_of().features(MODEL, params(2))
    (whole,) = per_example_gradients(MODEL, at, X, Y)
    (rest,) = per_example_gradients(MODEL.rest, at[2:], v, Y)
    np.testing.assert_allclose(rest, whole, rtol=1e-4, atol=1e-5)
    (wrong,) = per_example_gradients(replace(MODEL.rest, bias=0.1), at[2:], v, Y)
    assert not np.allclose(wrong, whole, rtol=1e-2, atol=1e-2)
