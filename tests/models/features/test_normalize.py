import numpy as np
import pytest
import scipy.fft

from gradveil.models.features.normalize import clip_rows, cosine, group_norm, unit

MAPS = np.random.default_rng(1).standard_normal((3, 7, 6, 5)).astype(np.float32) * 4 + 2


def test_the_cosine_transform_is_scipys_cut_off():
    expected = scipy.fft.dctn(MAPS.astype(np.float64), axes=(2, 3), norm="ortho")
    np.testing.assert_allclose(cosine(MAPS, 4), expected[:, :, :4, :4], atol=1e-5)
    np.testing.assert_allclose(cosine(MAPS, 99), expected, atol=1e-5)


def test_group_norm_standardizes_each_group_of_channels_by_itself():
    normed = np.asarray(group_norm(MAPS, 3))
    for channels in (slice(0, 3), slice(3, 6), slice(6, 7)):
        for one, given in zip(normed[:, channels], MAPS[:, channels].astype(np.float64), strict=True):
            np.testing.assert_allclose(one, (given - given.mean()) / np.sqrt(given.var() + 1e-5), atol=1e-5)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_unit_rows_never_exceed_norm_one(scale):
    rows = np.random.default_rng(2).standard_normal((500, 300)).astype(np.float32) * np.float32(scale)
    norms = np.linalg.norm(np.asarray(unit(rows), np.float64), axis=1)
    assert norms.max() <= 1
    assert scale < 1e-6 or norms.min() > 1 - 1e-5


def test_a_row_of_zeros_stays():
    assert not np.asarray(unit(np.zeros((2, 3), np.float32))).any()


def test_rows_are_clipped_to_a_public_norm_and_divided_by_it():
    rows = np.float32([[3, 4], [0.3, 0.4], [0, 0], [30, 40]])
    clipped = np.asarray(clip_rows(rows, 5.0))
    np.testing.assert_allclose(clipped, [[0.6, 0.8], [0.06, 0.08], [0, 0], [0.6, 0.8]], rtol=2e-6)
    assert np.linalg.norm(clipped.astype(np.float64), axis=1).max() <= 1
