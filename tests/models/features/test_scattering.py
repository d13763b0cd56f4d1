import jax
import numpy as np
import pytest
from kymatio.scattering2d.frontend.numpy_frontend import ScatteringNumPy2D

from gradveil.models.features import scattering
from gradveil.models.features.scattering import mirrored_channels

scatter = jax.jit(scattering.scatter, static_argnums=(1, 2), static_argnames="order")
scatter_picture = jax.jit(scattering.scatter_picture)


def pictures(*shape):
    return np.random.default_rng(5).random(shape, np.float32)


def orders(channels, scales, angles):
    """How many convolutions are behind each channel."""
    first = scales * angles
    return np.array([1] + [2] * first + [3] * (channels - 1 - first))[:, None, None]


@pytest.mark.parametrize(
    ("size", "scales", "angles"),
    [((28, 28), 2, 8), ((32, 32), 2, 8), ((20, 30), 2, 4), ((16, 24), 3, 5), ((9, 8), 1, 3)],
)
def test_it_is_the_scattering_of_kymatio(size, scales, angles):
    x = pictures(2, *size)
    theirs = ScatteringNumPy2D(J=scales, shape=size, L=angles)(x)
    ours = np.asarray(scatter(x, scales, angles))
    assert ours.shape == theirs.shape
    # kymatio divides each filter by 2 * 3.1415 ..., which is not quite 2 pi
    ratio = (3.1415 / np.pi) ** orders(theirs.shape[1], scales, angles)
    np.testing.assert_allclose(ours, theirs * ratio, rtol=2e-5, atol=2e-6)


def test_an_mnist_digit_has_81_channels_of_7_by_7_in_float32():
    maps = scatter(pictures(1, 28, 28))
    assert maps.shape == (1, 81, 7, 7)
    assert maps.dtype == np.float32


def test_one_order_is_the_beginning_of_two():
    x = pictures(2, 16, 16)
    np.testing.assert_array_equal(scatter(x, order=1), scatter(x)[:, :17])


def test_a_color_picture_is_luma_in_two_orders_and_two_chromas_in_one():
    x = pictures(2, 16, 16, 3)
    red, green, blue = np.moveaxis(x.astype(np.float64), 3, 0)
    luma = 0.299 * red + 0.587 * green + 0.114 * blue
    maps = np.asarray(scatter_picture(x))
    assert maps.shape == (2, 81 + 17 + 17, 4, 4)
    np.testing.assert_allclose(maps[:, :81], scatter(luma.astype(np.float32)), atol=1e-5)
    np.testing.assert_allclose(
        maps[:, 81:98], scatter(((blue - luma) / 2 + 0.5).astype(np.float32), order=1), atol=1e-5
    )
    np.testing.assert_allclose(maps[:, 98:], scatter(((red - luma) / 2 + 0.5).astype(np.float32), order=1), atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_a_mirrored_picture_has_mirrored_angles(channels):
    x = pictures(4, 32, 32, channels)
    x[..., 1:] = x[..., :1] * 0.5  # some chroma of the same structure
    totals = [np.asarray(scatter_picture(v)).mean(axis=(0, 2, 3)) for v in (x, x[:, :, ::-1])]
    order = np.array(mirrored_channels(channels, 2, 8))
    assert sorted(order) == list(range(len(totals[0])))
    # The coarse grid is not symmetric, so the means agree but for what the edges see.
    unlike = np.abs(totals[0][order] - totals[1]).mean() / np.abs(totals[0] - totals[1]).mean()
    assert unlike < 0.5


def test_a_blank_picture_has_a_finite_gradient():
    gradient = jax.grad(lambda x: scatter(x).sum())(np.zeros((1, 16, 16), np.float32))
    assert np.isfinite(gradient).all()
