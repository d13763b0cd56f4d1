"""The laws of features: an example's depend on nothing beside it, have norm at most 1, and are the same every time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.errors import BadInput
from gradveil.models.features.description import Features, PatchBlock, ScatteringBlock, TableBlock
from gradveil.models.features.extract import build, extract, transform, width
from gradveil.models.features.maps import GlyphMap, LeafMap, RandomMap

SCATTERING, PATCHES = ScatteringBlock(angles=4, keep=2), PatchBlock(filters=5, pictures=4)
GRAY, COLOR, TABLE = (12, 12, 1), (12, 16, 3), (9,)
EXAMPLES = {
    "gray": (Features(SCATTERING, map=GlyphMap(6, skeletons=20)), GRAY),
    "color": (Features(ScatteringBlock(angles=2, mirror=True), PATCHES, map=LeafMap(7, pictures=30)), COLOR),
    "patches": (Features(patches=PATCHES, seed=4), GRAY),
    "table": (Features(table=TableBlock(2.0), map=RandomMap(4)), TABLE),
}


@pytest.fixture(scope="module", params=EXAMPLES)
def case(request):
    """Features, what was built for them, and 300 examples: more than a chunk."""
    features, shape = EXAMPLES[request.param]
    generator = np.random.default_rng(0)
    x = generator.integers(0, 256, (300, *shape), np.uint8)
    x = generator.standard_normal((300, *shape)).astype(np.float32) if features.table else x
    x[7] = 0
    made = build(features, shape)
    return features, made, x, extract(features, x, constants=made)


def test_features_of_an_example_do_not_depend_on_the_others_nor_on_its_place(case):
    features, made, x, whole = case
    order = np.random.default_rng(1).permutation(len(x))
    np.testing.assert_array_equal(extract(features, x[order], constants=made), whole[order])
    np.testing.assert_array_equal(extract(features, x[40:43], constants=made), whole[40:43])
    assert len(np.unique(whole.round(5), axis=0)) == len(x)


def test_no_row_is_longer_than_one(case):
    *_, whole = case
    norms = np.linalg.norm(whole.astype(np.float64), axis=1)
    assert np.isfinite(whole).all()
    assert norms.max() <= 1
    assert np.median(norms) > 0.9


def test_width_is_known_before_anything_is_computed(case):
    features, _, x, whole = case
    assert whole.shape == (len(x), width(features, x.shape[1:]))
    assert whole.dtype == np.float32


def test_the_same_is_built_again_from_the_seed(case):
    features, _, x, whole = case
    np.testing.assert_array_equal(extract(features, x[:5]), whole[:5])


def test_a_compiled_transform_gives_the_same(case):
    features, made, x, whole = case
    inside = jax.jit(lambda x: transform(features, made, x))
    np.testing.assert_allclose(inside(jnp.asarray(x[:20])), whole[:20], atol=1e-5)  # another program rounds otherwise


@pytest.mark.slow
def test_it_can_be_differentiated_at_a_blank_picture_too(case):
    features, made, x, _ = case
    read = x[5:9].astype(np.float32) / (1 if features.table else 255)
    gradient = jax.jit(jax.grad(lambda x: jnp.sum(transform(features, made, x) ** 3)))(jnp.asarray(read))
    assert np.isfinite(gradient).all()
    assert np.abs(gradient).max() > 0


def test_pixels_as_bytes_and_as_numbers_are_the_same_picture():
    features, shape = Features(SCATTERING), GRAY
    x = np.random.default_rng(2).integers(0, 256, (3, *shape), np.uint8)
    np.testing.assert_allclose(extract(features, x), extract(features, x.astype(np.float32) / 255), atol=1e-6)


def test_blocks_stand_side_by_side_with_the_same_weight():
    x = np.random.default_rng(3).random((4, *GRAY), np.float32)
    alone = extract(Features(SCATTERING), x)
    both = extract(Features(SCATTERING, PATCHES), x)
    norms = [np.linalg.norm(part, axis=1) for part in np.split(both, [alone.shape[1], alone.shape[1] + 45], axis=1)]
    np.testing.assert_allclose(norms, 3**-0.5, rtol=1e-4)
    np.testing.assert_allclose(both[:, : alone.shape[1]], alone / 3**0.5, atol=1e-5)


def test_patches_are_the_same_for_a_picture_and_its_mirror_image():
    x = np.random.default_rng(3).random((4, *COLOR), np.float32)
    features = Features(patches=PatchBlock(filters=5, pictures=4, keep=1))
    made = build(features, COLOR)
    np.testing.assert_allclose(
        extract(features, x, constants=made), extract(features, x[:, :, ::-1], constants=made), atol=1e-5
    )


def test_progress_goes_up_to_one():
    seen = []
    extract(Features(table=TableBlock()), np.zeros((700, 2), np.float32), seen.append)
    assert seen == sorted(seen)
    assert len(seen) == 3
    assert seen[-1] == 1


def test_no_example_has_no_features():
    assert extract(Features(table=TableBlock()), np.zeros((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize(
    ("features", "shape", "sentence"),
    [
        (Features(SCATTERING), (9,), "needs pictures of at least 8 x 8 pixels"),
        (Features(patches=PATCHES), (7, 9, 1), "needs pictures of at least 8 x 8 pixels"),
        (Features(table=TableBlock()), (8, 8, 1), "table: needs rows of numbers"),
    ],
)
def test_examples_of_the_wrong_shape_are_refused(features, shape, sentence):
    with pytest.raises(BadInput, match=sentence):
        extract(features, np.zeros((2, *shape), np.float32))
