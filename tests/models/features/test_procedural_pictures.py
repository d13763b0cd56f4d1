import numpy as np
import pytest

from gradveil.models.features.glyphs import glyphs
from gradveil.models.features.leaves import leaves, objects

PAINTERS = [
    lambda n, seed: glyphs(n, 2, 28, seed),
    lambda n, seed: leaves(n, 16, 3, seed),
    lambda n, seed: leaves(n, 16, 1, seed),
    lambda n, seed: objects(n, 16, 1, seed),
]


@pytest.mark.parametrize("paint", PAINTERS)
def test_pictures_come_from_the_seed_alone(paint):
    np.random.seed(1)
    one = paint(4, 7)
    np.random.seed(2)
    np.testing.assert_array_equal(one, paint(4, 7))
    assert np.abs(one - paint(4, 8)).max() > 0.1


@pytest.mark.parametrize("paint", PAINTERS)
def test_pictures_are_float32_between_0_and_1_and_not_empty(paint):
    drawn = paint(5, 0)
    assert drawn.dtype == np.float32
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert (drawn.std(axis=tuple(range(1, drawn.ndim))) > 0.01).all()


def test_glyphs_are_centered_by_mass_inside_a_margin():
    drawn = glyphs(40, 2, 28, 3).astype(np.float64)
    place, mass = np.arange(28) - 13.5, drawn.sum(axis=(1, 2))
    assert np.abs(drawn.sum(axis=2) @ place / mass).max() <= 0.5 + 1e-9
    assert np.abs(drawn.sum(axis=1) @ place / mass).max() <= 0.5 + 1e-9
    extent = [np.ptp(np.nonzero(one.any(axis=axis))[0]) + 1 for one in drawn > 0.5 for axis in (0, 1)]
    assert max(extent) <= 23
    assert np.mean(np.maximum(extent[::2], extent[1::2])) > 17


def test_copies_of_a_skeleton_are_nearer_to_each_other_than_to_others():
    drawn = glyphs(60, 2, 28, 1).reshape(60, 2, -1)
    centered = drawn - drawn.mean(axis=(0, 1))
    same = (centered[:, 0] * centered[:, 1]).sum(axis=1).mean()
    other = (centered[:, 0] * np.roll(centered[:, 1], 1, axis=0)).sum(axis=1).mean()
    assert same > 10 * abs(other)
    assert np.abs(drawn[:, 0] - drawn[:, 1]).max(axis=1).min() > 0.3


def test_the_outline_of_an_object_is_its_own_mirror_image_and_stands_on_black():
    drawn = objects(30, 16, 1, 0)[..., 0]
    on = drawn > 0
    assert np.mean(on == on[:, :, ::-1]) > 0.98  # a leaf may be black itself
    assert 0.2 < np.mean(~on) < 0.8
