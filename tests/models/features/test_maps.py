import numpy as np
import pytest
import scipy.linalg

from gradveil.errors import BadInput
from gradveil.models.features.glyphs import glyphs
from gradveil.models.features.leaves import leaves
from gradveil.models.features.maps import GlyphMap, LeafMap, NoMap, RandomMap

SHAPE = (12, 12, 1)


def pixels(pictures):
    """Features before the map that any test can compute: a few pixels, scaled."""
    return pictures.reshape(len(pictures), -1)[:, ::3] / 12


FITTED = [
    RandomMap(5),
    GlyphMap(5, skeletons=30, copies=3),
    LeafMap(5, pictures=40),
    LeafMap(5, pictures=40, objects=True),
]


@pytest.mark.parametrize("chosen", FITTED)
def test_a_map_comes_from_its_seed_alone(chosen):
    matrix = chosen.fit(pixels, SHAPE, 3)
    assert matrix.shape == (48, 5)
    assert matrix.dtype == np.float32
    np.testing.assert_array_equal(matrix, chosen.fit(pixels, SHAPE, 3))
    assert np.abs(matrix - chosen.fit(pixels, SHAPE, 4)).max() > 1e-3


@pytest.mark.parametrize("chosen", FITTED)
def test_the_sign_of_a_column_is_settled_by_its_largest_entry(chosen):
    matrix = chosen.fit(pixels, SHAPE, 0)
    assert (matrix.max(axis=0) >= -matrix.min(axis=0)).all()


def test_a_random_map_has_orthonormal_columns():
    matrix = RandomMap(7).fit(pixels, SHAPE, 0).astype(np.float64)
    np.testing.assert_allclose(matrix.T @ matrix, np.eye(7), atol=1e-5)


def test_no_map_is_no_matrix():
    assert NoMap().fit(pixels, SHAPE, 0) is None


def test_a_leaf_map_is_the_principal_components_scaled_by_their_variance():
    matrix = LeafMap(4, power=0.3, pictures=60).fit(pixels, SHAPE, 1).astype(np.float64)
    rows = pixels(leaves(60, 12, 1, 1 + 1_000_003)).astype(np.float64)
    values, vectors = np.linalg.eigh(np.cov(rows.T, bias=True))
    for column, value, vector in zip(matrix.T, values[::-1], vectors.T[::-1], strict=False):
        expected = vector * (value + 1e-4) ** -0.3
        assert min(np.abs(column - expected).max(), np.abs(column + expected).max()) < 1e-4


def test_a_glyph_map_has_the_directions_that_tell_skeletons_apart_best():
    matrix = GlyphMap(3, skeletons=50, copies=2).fit(pixels, SHAPE, 2).astype(np.float64)
    rows = pixels(glyphs(50, 2, 12, 2)[..., None]).astype(np.float64)
    rows -= rows.mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    gaps = (rows[::2] - rows[1::2]) / np.sqrt(2)  # of two copies: the spread within is half their squared gap
    within = gaps.T @ gaps / 50 + 1e-4 * np.eye(48)
    total = rows.T @ rows / 100
    values, vectors = np.linalg.eig(scipy.linalg.solve(within, total))
    best = np.argsort(-values.real)[:3]
    for column, i in zip(matrix.T, best, strict=True):
        np.testing.assert_allclose(total @ column, values[i].real * (within @ column), atol=1e-4)
        assert column @ within @ column == pytest.approx(np.sqrt(values[i].real), rel=1e-3)
        assert abs(np.corrcoef(column, vectors[:, i].real)[0, 1]) > 0.999


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: RandomMap(0), "k = 0: must be at least 1"),
        (lambda: LeafMap(10, power=1.5), "power = 1.5: must be between 0 and 1"),
        (lambda: LeafMap(10, pictures=10), "k = 10: must be below the number of pictures, 10"),
        (lambda: GlyphMap(5, copies=1), "copies = 1: must be at least 2"),
        (lambda: RandomMap(49).fit(pixels, SHAPE, 0), "k = 49: these features have only 48 numbers"),
        (lambda: LeafMap(49, pictures=60).fit(pixels, SHAPE, 0), "k = 49: these features have only 48 numbers"),
        (lambda: GlyphMap(49, skeletons=30).fit(pixels, SHAPE, 0), "k = 49: these features have only 48 numbers"),
    ],
)
def test_impossible_maps_are_refused(make, sentence):
    with pytest.raises(BadInput, match=sentence):
        make()


def test_pictures_that_are_no_squares_have_maps_too():
    seen = []

    def raw(pictures):
        seen.append(pictures)
        return pictures.reshape(len(pictures), -1)

    for chosen in (GlyphMap(2, skeletons=9), LeafMap(2, pictures=9)):
        assert chosen.fit(raw, (10, 14, 3), 0).shape == (420, 2)
    assert [one.shape for one in seen] == [(27, 10, 14, 3), (9, 10, 14, 3)]
    np.testing.assert_array_equal(seen[0][:, :, 2:12, 1], glyphs(9, 3, 10, 0))
