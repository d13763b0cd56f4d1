"""Gradients against the obvious: one example at a time, with the loss written out."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.models.factors import BLOCK, gradient_sums, in_products, plain_gradient
from gradveil.models.gradients import batch_gradient, joined, loss, per_example_gradients, trained
from gradveil.models.networks import MODELS, AttackNet, Cnn, Mlp
from gradveil.models.preparation import NoisedMean, NoisedSecondMoment
from gradveil.models.regression import SoftmaxRegression

EXAMPLES = {
    Cnn: ((Cnn(3, 4), (12, 11, 2)),),
    Mlp: ((Mlp((7, 5)), (9,)), (Mlp((6,), bias=True), (3, 4, 1))),
    AttackNet: ((AttackNet(), (9, 8, 1)),),
    SoftmaxRegression: (
        (SoftmaxRegression(), (9,)),
        (SoftmaxRegression(NoisedMean(0.2), NoisedSecondMoment(0.5)), (3, 4, 1)),
    ),
}
PAIRS = [pair for pairs in EXAMPLES.values() for pair in pairs]
ALL = pytest.mark.parametrize(("model", "shape"), PAIRS, ids=[f"{m!r}" for m, _ in PAIRS])
B, CLASSES = 5, 4


def problem(model, shape):
    rng = np.random.default_rng(0)
    params = model.init(jax.random.key(1), shape, CLASSES)
    x = jnp.asarray(rng.normal(size=(B, *shape)), jnp.float32)
    return params, x, jnp.asarray(rng.integers(0, CLASSES, B), jnp.int32)


@cache
def one_at_a_time(model, shape):
    """Gradients by a loop, through softmax and logarithm instead of the log-sum-exp."""
    params, x, y = problem(model, shape)

    @jax.jit
    @jax.grad
    def gradient(weights, example, label):
        return -jnp.log(jax.nn.softmax(model.apply(joined(model, params, weights), example))[label])

    return [gradient(trained(model, params), x[j], y[j]) for j in range(B)]


def test_every_model_has_an_example():
    assert set(EXAMPLES) == set(MODELS)


@ALL
def test_per_example_gradients_are_those_of_a_loop(model, shape):
    params, x, y = problem(model, shape)
    lot = jax.jit(lambda p: per_example_gradients(model, p, x, y))(params)
    for j, alone in enumerate(one_at_a_time(model, shape)):
        for units, layer in zip(lot, alone, strict=True):
            assert units.shape == (B, *layer.shape)
            np.testing.assert_allclose(units[j], layer, rtol=1e-4, atol=1e-5)
            assert float(jnp.abs(layer).max()) > 0


@ALL
def test_the_batch_gradient_is_the_weighted_sum_of_the_loop(model, shape):
    params, x, y = problem(model, shape)
    alone = one_at_a_time(model, shape)
    compiled = jax.jit(lambda w: batch_gradient(model, params, x, y, w))
    for weights in (np.full(B, 1 / B), np.array([1, 0, 1, 1, 0]) / 4, np.zeros(B)):
        for m, layer in enumerate(compiled(jnp.asarray(weights, jnp.float32))):
            expected = sum(w * np.asarray(g[m], np.float64) for w, g in zip(weights, alone, strict=True))
            np.testing.assert_allclose(layer, expected, rtol=1e-4, atol=1e-5)


IN_PRODUCTS = [(model, shape) for model, shape in PAIRS if in_products(model)]
MANY = BLOCK + 3
"""A batch of a convolutional network that is taken in blocks, the last of which has to be filled up."""


@cache
def repeated(model, shape):
    """A batch of MANY examples and its gradients by the loop: those of the problem, over and over."""
    params, x, y = problem(model, shape)
    rows = np.arange(MANY) % B
    alone = one_at_a_time(model, shape)
    return params, x[rows], y[rows], [[np.asarray(g, np.float64) for g in alone[j]] for j in rows]


@pytest.mark.parametrize(("model", "shape"), IN_PRODUCTS, ids=[f"{m!r}" for m, _ in IN_PRODUCTS])
def test_norms_and_clipped_sums_without_the_gradients_are_those_of_the_loop(model, shape):
    params, x, y, alone = repeated(model, shape)
    mask = np.ones(MANY)
    mask[[2, MANY - 1]] = 0
    norms = np.array([[np.linalg.norm(g) for g in layers] for layers in alone])
    bound = np.median(norms, axis=0)
    weights = np.minimum(1, bound / norms) * mask[:, None]

    @jax.jit
    def sums(params, x, y, mask):
        weigh = lambda norms, real: jnp.minimum(1, jnp.asarray(bound, jnp.float32) / norms) * real[:, None]  # noqa: E731
        return gradient_sums(model, params, x, y, mask, weigh)

    found, total = sums(params, x, y, jnp.asarray(mask, jnp.float32))
    np.testing.assert_allclose(found, norms, rtol=1e-4)
    for m, layer in enumerate(total):
        expected = sum(w[m] * g[m] for w, g in zip(weights, alone, strict=True))
        np.testing.assert_allclose(layer, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(("model", "shape"), [IN_PRODUCTS[0], IN_PRODUCTS[1]], ids=["convolutions", "dense"])
def test_an_example_that_overflows_is_left_out_of_the_sum_if_its_weight_is_zero(model, shape):
    params, x, y, _ = repeated(model, shape)
    broken = x.at[1].set(jnp.inf)

    @jax.jit
    def sums(x, mask):
        weigh = lambda norms, real: jnp.isfinite(norms).all(axis=1, keepdims=True) * real[:, None]  # noqa: E731
        return gradient_sums(model, params, x, y, mask, weigh)[1]

    without = jnp.ones(MANY).at[1].set(0)
    for found, expected in zip(sums(broken, jnp.ones(MANY)), sums(x, without), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_large_batch_of_plain_training_is_the_weighted_sum_of_the_loop():
    model, shape = IN_PRODUCTS[0]
    params, x, y, alone = repeated(model, shape)
    weights = np.linspace(0, 1, MANY)
    for m, layer in enumerate(jax.jit(lambda w: plain_gradient(model, params, x, y, w))(jnp.float32(weights))):
        expected = sum(w * g[m] for w, g in zip(weights, alone, strict=True))
        np.testing.assert_allclose(layer, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max())


def test_the_loss_is_the_cross_entropy_and_does_not_overflow():
    model = Mlp((3,))
    params = (jnp.eye(3), jnp.asarray([[1.0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]))
    for scale in (1.0, 1e4):
        got = float(loss(model, params, scale * jnp.asarray([1.0, 2, 3]), jnp.asarray(1)))
        logits = scale * np.array([1.0, 2, 3, 0])
        expected = np.log(np.exp(logits - logits.max()).sum()) + logits.max() - logits[1]
        assert got == pytest.approx(expected, rel=1e-5)
