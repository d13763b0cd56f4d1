"""What every model promises: pure, compared by value, of the documented size, and equal to the textbook layers."""

import math
from dataclasses import fields
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.errors import BadInput
from gradveil.models.convolution import patches, pool
from gradveil.models.gradients import loss, per_example_gradients
from gradveil.models.networks import MODELS, AttackNet, Cnn, Mlp
from gradveil.models.preparation import NoisedMean, NoisedSecondMoment
from gradveil.models.regression import SoftmaxRegression
from gradveil.tree import size

EXAMPLES = {
    Cnn: ((Cnn(8, 4), (12, 12, 1)), (Cnn(3, 5), (11, 14, 2))),
    Mlp: ((Mlp(), (105,)), (Mlp((7,), bias=True), (4, 4, 1))),
    AttackNet: ((AttackNet(), (8, 8, 1)),),
    SoftmaxRegression: (
        (SoftmaxRegression(), (105,)),
        (SoftmaxRegression(NoisedMean(0.2), NoisedSecondMoment(0.5)), (4, 4, 1)),
    ),
}
PAIRS = [pair for pairs in EXAMPLES.values() for pair in pairs]
ALL = pytest.mark.parametrize(("model", "shape"), PAIRS, ids=[f"{m!r}-{s}" for m, s in PAIRS])
KEY = jax.random.key(3)
RNG = np.random.default_rng(0)


def image(shape):
    return jnp.asarray(np.random.default_rng(1).normal(size=shape), jnp.float32)


def convolve(x, kernel, side, stride=1, padding=0):
    """XLA's own convolution with a kernel stored as [side^2 channels, filters]."""
    filters = kernel.reshape(side, side, x.shape[-1], -1)
    pads = ((padding, padding), (padding, padding))
    return jax.lax.conv_general_dilated(
        x[None], filters, (stride, stride), pads, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )[0]


def reduce_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2, 1), (2, 2, 1), "VALID")


def test_every_model_has_an_example():
    assert set(EXAMPLES) == set(MODELS)


@ALL
def test_it_gives_one_logit_a_class_and_is_pure(model, shape):
    logits_of = jax.jit(lambda key: model.apply(model.init(key, shape, 7), image(shape)))
    logits = logits_of(KEY)
    assert logits.shape == (7,)
    assert np.isfinite(logits).all()
    np.testing.assert_array_equal(logits, logits_of(KEY))
    drawn = not isinstance(model, SoftmaxRegression)  # it starts from zero
    assert np.array_equal(logits, logits_of(jax.random.key(4))) != drawn


@ALL
def test_it_is_compared_and_hashed_by_value(model, shape):
    twin = type(model)(**{field.name: getattr(model, field.name) for field in fields(model)})
    assert twin == model
    assert hash(twin) == hash(model)


@pytest.mark.parametrize(
    ("model", "shape", "classes", "count"),
    [
        (Cnn(), (28, 28, 1), 10, 34_720),
        (Cnn(), (32, 32, 3), 10, 42_336),
        (Cnn(), (32, 32, 3), 62, 162_144),
        (AttackNet(), (28, 28, 1), 10, 17_038),
        (AttackNet(), (32, 32, 3), 10, 19_438),
        (AttackNet(), (32, 32, 3), 62, 59_426),
        (Mlp(), (105,), 2, 123_200),
        (Mlp(), (30,), 2, 78_200),
        (Mlp((600, 100), bias=True), (105,), 2, 123_200 + 702),
        (SoftmaxRegression(), (105,), 2, 212),
        (SoftmaxRegression(NoisedMean(0.2), NoisedSecondMoment(0.5)), (5, 4, 1), 3, 20 + 400 + 63),
    ],
)
def test_it_has_the_documented_number_of_parameters(model, shape, classes, count):
    assert size(jax.eval_shape(lambda k: model.init(k, shape, classes), KEY)) == count


@pytest.mark.parametrize(("model", "tensors"), [(Cnn(), 3), (AttackNet(), 10), (Mlp(), 3), (Mlp(bias=True), 6)])
def test_it_has_the_documented_number_of_tensors(model, tensors):
    assert len(jax.eval_shape(lambda k: model.init(k, (28, 28, 1), 10), KEY)) == tensors


@pytest.mark.parametrize(
    ("shape", "side", "stride"), [((9, 7, 3), 3, 1), ((8, 8, 1), 5, 2), ((9, 12, 2), 5, 2), ((5, 5, 1), 5, 1)]
)
def test_patches_times_a_matrix_is_a_convolution(shape, side, stride):
    x, kernel = image(shape), jnp.asarray(RNG.normal(size=(side * side * shape[-1], 4)), jnp.float32)
    ours = jax.jit(lambda x: patches(x, side, stride) @ kernel)(x)
    np.testing.assert_allclose(ours, convolve(x, kernel, side, stride), atol=1e-4)


@pytest.mark.parametrize("shape", [(8, 8, 1), (7, 9, 3), (2, 2, 2), (3, 2, 1)])
def test_pool_is_the_maximum_of_windows(shape):
    np.testing.assert_array_equal(pool(image(shape)), reduce_pool(image(shape)))


@pytest.mark.parametrize("shape", [(8, 8, 1), (7, 9, 3), (6, 4, 2)])
def test_the_gradient_of_a_pool_goes_to_the_maxima_of_each_window_in_equal_shares(shape):
    """Pixels are 0, 1 or 2, so that windows have one to four maxima; a loop over windows says what each gets."""
    pixels = np.random.default_rng(2).integers(0, 3, shape).astype(np.float32)
    pull = np.random.default_rng(3).normal(size=(shape[0] // 2, shape[1] // 2, shape[2])).astype(np.float32)
    expected, tied = np.zeros(shape, np.float32), set()
    for row, column, channel in np.ndindex(pull.shape):
        at = slice(2 * row, 2 * row + 2), slice(2 * column, 2 * column + 2), channel
        largest = pixels[at] == pixels[at].max()
        tied.add(int(largest.sum()))
        expected[at] = np.where(largest, pull[row, column, channel] / largest.sum(), 0)
    found = jax.jit(jax.grad(lambda x: jnp.vdot(pull, pool(x))))(jnp.asarray(pixels))
    assert len(tied) > 1
    np.testing.assert_array_equal(found, expected)


def test_a_pool_can_be_differentiated_twice_as_attacks_do():
    """The Hessian of a sum of cubes of maxima, forward over reverse, is the one that JAX finds without our rule."""

    def cubes(largest, x):
        return jnp.sum(largest(x) ** 3)

    def own(x):
        return jnp.max(x.reshape(2, 2, 2, 2, 1), axis=(1, 3))

    ours, theirs = (jax.hessian(partial(cubes, largest))(image((4, 4, 1))) for largest in (pool, own))
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert np.abs(ours).max() > 0


@pytest.mark.parametrize("shape", [(28, 28, 1), (11, 14, 2), (13, 12, 1)])
def test_cnn_is_the_textbook_network(shape):
    def textbook(params, x):
        hidden = reduce_pool(jax.nn.relu(convolve(x, params[0], 3)))
        return reduce_pool(jax.nn.relu(convolve(hidden, params[1], 3))).ravel() @ params[2]

    model = Cnn(4, 6)
    params = model.init(KEY, shape, 10)
    ours, theirs = (jax.jit(f)(params, image(shape)) for f in (model.apply, textbook))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


def test_attack_net_is_the_textbook_network():
    shape = (9, 10, 3)

    def textbook(params, x):
        for i, stride in enumerate((2, 2, 1, 1)):
            x = jax.nn.sigmoid(convolve(x, params[2 * i], 5, stride, padding=2) + params[2 * i + 1])
        return x.ravel() @ params[8] + params[9]

    params = AttackNet().init(KEY, shape, 10)
    ours, theirs = (jax.jit(f)(params, image(shape)) for f in (AttackNet().apply, textbook))
    np.testing.assert_allclose(ours, theirs, atol=1e-4)


@pytest.mark.parametrize("bias", [False, True])
def test_mlp_is_the_textbook_network(bias):
    model = Mlp((5, 4), bias=bias)
    params = tuple(p + 0.1 for p in model.init(KEY, (3, 2), 2))
    weights, biases = (params[::2], params[1::2]) if bias else (params, (0.0, 0.0, 0.0))
    hidden = np.ravel(image((3, 2)))
    for w, b in zip(weights[:-1], biases[:-1], strict=True):
        hidden = np.maximum(hidden @ np.asarray(w) + np.asarray(b), 0)
    expected = hidden @ np.asarray(weights[-1]) + np.asarray(biases[-1])
    np.testing.assert_allclose(model.apply(params, image((3, 2))), expected, rtol=1e-4, atol=1e-6)


def test_weights_fill_glorots_interval():
    for tensor, (fan_in, fan_out) in zip(
        Cnn().init(KEY, (28, 28, 1), 10), [(9, 9 * 32), (9 * 32, 9 * 64), (1600, 10)], strict=True
    ):
        limit = math.sqrt(6 / (fan_in + fan_out))
        assert 0.95 * limit < float(jnp.abs(tensor).max()) <= limit
        assert abs(float(tensor.mean())) < 0.1 * limit
    for tensor in AttackNet().init(KEY, (28, 28, 1), 10):
        assert float(jnp.abs(tensor).max()) <= 0.5
        assert tensor.size < 100 or float(jnp.abs(tensor).max()) > 0.45


@pytest.mark.parametrize(("model", "smallest"), [(Cnn(3, 5), 10), (AttackNet(), 8), (Mlp((4,)), 1)], ids=repr)
def test_an_image_is_refused_by_its_size_or_reaches_every_layer(model, smallest):
    for side in range(1, 14):
        if side < smallest:
            with pytest.raises(BadInput, match="pixels"):
                model.init(KEY, (side, 13, 1), 3)
        else:
            params = jax.eval_shape(lambda k, side=side: model.init(k, (side, 13, 1), 3), KEY)
            assert min(math.prod(tensor.shape) for tensor in params) > 0


@pytest.mark.parametrize("model", [Cnn(), AttackNet()], ids=repr)
def test_a_table_is_no_image(model):
    with pytest.raises(BadInput, match="images"):
        model.init(KEY, (30,), 2)


@pytest.mark.parametrize(
    "make", [lambda: Cnn(0, 4), lambda: Cnn(4, 0), lambda: Mlp(()), lambda: Mlp((3, 0)), lambda: AttackNet(0.0)]
)
def test_a_senseless_size_is_refused(make):
    with pytest.raises(BadInput, match="= "):
        make()


@pytest.mark.parametrize("model", [Mlp((5,)), SoftmaxRegression()], ids=["Mlp", "SoftmaxRegression"])
def test_of_a_number_the_loss_is_the_squared_error_and_its_gradient_that_of_least_squares(model):
    params, x, y = model.init(KEY, (6,), 1), jnp.stack([image((6,)), -image((6,))]), jnp.asarray([0.3, -0.2])
    predicted = np.array([float(model.apply(params, one)[0]) for one in x])
    losses = [float(loss(model, params, one, value)) for one, value in zip(x, y, strict=True)]
    assert losses == pytest.approx(((predicted - np.asarray(y)) ** 2).tolist(), rel=1e-5)


def test_sums_of_a_regression_on_numbers_are_those_of_its_gradients():
    model = SoftmaxRegression()
    params, x, y = model.init(KEY, (6,), 1), jnp.stack([image((6,)), -image((6,))]), jnp.asarray([0.3, -0.2])
    norms, summed = model.sums(params, x, y, None)
    lot = np.asarray(per_example_gradients(model, params, x, y)[0])
    np.testing.assert_allclose(norms[:, 0], np.linalg.norm(lot.reshape(2, -1), axis=1), rtol=1e-5)
    np.testing.assert_allclose(summed(jnp.ones((2, 1)))[0], lot.sum(axis=0), rtol=1e-5)
