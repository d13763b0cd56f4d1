import numpy as np
import pytest

from gradveil.errors import BadInput
from gradveil.models.features.patches import dictionary, half, responses, shares

SETTINGS = {"side": 5, "cells": 4, "threshold": 0.75}


@pytest.fixture(scope="module", params=[1, 3])
def filters(request):
    return dictionary(6, 5, request.param, 8, 0)


def picture(channels, height=12, width=16, seed=0):
    return np.random.default_rng(seed).random((height, width, channels), np.float32)


def slowly(x, filters, threshold, cells):
    """The formula for one picture without mirror images, position by position."""
    rows, columns = x.shape[0] - 4, x.shape[1] - 4
    found = np.zeros((filters.shape[1], rows, columns))
    for i in range(rows):
        for j in range(columns):
            patch = x[i : i + 5, j : j + 5].astype(np.float64).ravel()
            patch = (patch - patch.mean()) / np.sqrt(patch.var() + 0.002)
            found[:, i, j] = np.maximum(patch @ filters - threshold, 0)
    blocks = found.reshape(len(found), cells, rows // cells, cells, columns // cells)
    return np.sqrt(blocks.mean(axis=(2, 4)))


def test_responses_are_those_of_the_formula(filters):
    x = picture(len(filters) // 25)
    expected = slowly(x, filters, 0.75, 4)
    assert (expected > 0).mean() > 0.3
    np.testing.assert_allclose(responses(x, filters, mirror=False, **SETTINGS), expected, atol=1e-5)


def test_with_mirrored_filters_it_is_the_average_over_the_picture_and_its_mirror_image(filters):
    x = picture(len(filters) // 25)
    expected = (slowly(x, filters, 0.75, 4) + slowly(x[:, ::-1], filters, 0.75, 4)) / 2
    np.testing.assert_allclose(responses(x, filters, mirror=True, **SETTINGS), expected, atol=1e-5)


def test_filters_come_from_the_seed_and_are_apart(filters):
    channels = len(filters) // 25
    np.testing.assert_array_equal(filters, dictionary(6, 5, channels, 8, 0))
    assert np.abs(filters - dictionary(6, 5, channels, 8, 1)).max() > 0.01
    assert filters.dtype == np.float32
    np.testing.assert_allclose(filters.sum(axis=0), 0, atol=1e-5)
    unit = filters / np.linalg.norm(filters, axis=0)
    assert np.abs(unit.T @ unit - np.eye(6)).max() < 0.95


def test_more_filters_than_there_are_patches_are_refused():
    with pytest.raises(BadInput, match=r"filters = 4000: only \d+ patches"):
        dictionary(4000, 3, 1, 2, 0)


@pytest.mark.parametrize(("side", "cells"), [(12, 4), (10, 4), (7, 3), (4, 4)])
def test_cells_share_all_positions_equally_and_symmetrically(side, cells):
    matrix = shares(side, cells)
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(matrix.sum(axis=0), cells / side, atol=1e-6)
    np.testing.assert_allclose(matrix, matrix[::-1, ::-1], atol=1e-6)


def test_half_the_size_is_the_mean_of_four_pixels():
    x = np.arange(24, dtype=np.float32).reshape(4, 6, 1)
    np.testing.assert_array_equal(half(x)[..., 0], [[3.5, 5.5, 7.5], [15.5, 17.5, 19.5]])
    assert half(picture(3, 9, 11)).shape == (5, 6, 3)


def test_a_picture_smaller_than_a_patch_is_put_on_black(filters):
    small = picture(len(filters) // 25, 4, 4)
    black = np.pad(small, ((2, 2), (2, 2), (0, 0)))
    np.testing.assert_array_equal(
        responses(small, filters, mirror=True, **SETTINGS), responses(black, filters, mirror=True, **SETTINGS)
    )
