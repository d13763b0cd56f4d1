"""The noise is normal far into its tails: against quantiles of scipy, and with wrong laws that tests must reject."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binomtest, kstest, norm

from gradveil import normals, tree

COUNT = 4_000_000


@pytest.fixture(scope="module")
def drawn():
    return np.asarray(jax.jit(lambda key: normals.normals(key, COUNT))(jax.random.key(7)))


def test_the_magnitude_of_a_tail_probability_is_the_quantile():
    p = np.exp(-np.linspace(math.log(2), 17.3, 200_001)).astype(np.float32)
    found = np.asarray(jax.jit(normals._magnitude)(jnp.asarray(p)), float)
    np.testing.assert_allclose(found, -ndtri(p.astype(float)), rtol=1.5e-6, atol=3e-6)


def test_the_magnitude_of_a_refined_tail_probability_is_the_quantile_to_nine_deviations():
    p = np.exp(-np.linspace(16.7, 65 * math.log(2), 100_001)).astype(np.float32)
    found = np.asarray(jax.jit(normals._far_magnitude)(jnp.asarray(p)), float)
    np.testing.assert_allclose(found, -ndtri(p.astype(float)), rtol=1e-6)
    assert found.max() > 9


def test_draws_follow_the_normal_law_and_a_scale_off_by_six_thousandths_does_not(drawn):
    assert kstest(drawn, "norm").pvalue > 0.01
    assert kstest(drawn[: COUNT // 2] * 1.006, "norm").pvalue < 1e-3


@pytest.mark.parametrize("at", [3.0, 4.0, 4.5, 5.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_extremes_are_as_frequent_as_they_should_be(drawn, at, sign):
    assert binomtest(int(np.sum(sign * drawn > at)), COUNT, norm.sf(at)).pvalue > 1e-3


def words_of(high, sign=0):
    """Make words whose magnitude has these 31 bits."""
    return jnp.asarray((np.asarray(high, np.uint64) | (sign << 31)).astype(np.uint32))


@pytest.mark.parametrize("sign", [0, 1])
def test_the_rarest_words_are_spread_over_the_whole_tail(sign):
    """All words below 1/2^31: their draws must follow the normal law beyond 6.2 deviations, not end there."""
    count = 400_000
    far = np.asarray(jax.jit(normals._refined)(jax.random.key(3), words_of(np.zeros(count), sign)), float)
    tails = norm.sf(np.abs(far)) * 2.0**32  # uniform on 0..1 if the law is right
    assert (far < 0).all() == bool(sign)
    assert kstest(tails, "uniform").pvalue > 0.01
    assert kstest(norm.sf(np.abs(far) * 1.001) * 2.0**32, "uniform").pvalue < 1e-3
    assert np.abs(far).max() > 8


def test_a_draw_with_a_rare_word_among_others_changes_that_one_alone():
    high = np.full(1000, 123_456_789)
    high[17] = 5
    plain, refined = (np.asarray(f(jax.random.key(1), words_of(high))) for f in (normals._plain, normals._refined))
    assert np.flatnonzero(plain != refined).tolist() == [17]
    assert norm.sf(refined[17]) * 2.0**32 == pytest.approx(5.5, abs=0.51)


@pytest.mark.parametrize("count", [1, 2, 7, 1000, 1001])
def test_the_words_are_those_of_jax(count):
    key = jax.random.fold_in(jax.random.key(5), count)
    with jax.threefry_partitionable(False):
        expected = jax.random.bits(key, (count,), jnp.uint32)
    np.testing.assert_array_equal(jax.jit(normals._words, static_argnums=1)(key, count), expected)


def test_refining_starts_below_the_smallest_word_and_not_above():
    """`normals` itself takes the refining branch: a key whose words include a rare one gives a refined draw."""

    def rare(key):
        with jax.threefry_partitionable(False):
            return normals._high(jax.random.bits(key, (200_000,), jnp.uint32))

    smallest = jax.jit(lambda seed: jnp.min(rare(jax.random.key(seed))))
    seed = next(s for s in range(500) if int(smallest(s)) < 256)
    key = jax.random.key(seed)
    at = int(np.argmin(np.asarray(rare(key))))
    with jax.threefry_partitionable(False):
        words = jax.random.bits(key, (200_000,), jnp.uint32)
    found = np.asarray(normals.normals(key, 200_000))
    assert found[at] == np.asarray(normals._refined(key, words))[at]
    assert found[at] != np.asarray(normals._plain(key, words))[at]


def test_a_tree_gets_one_draw_a_coordinate_and_none_twice():
    like = {"a": jnp.zeros((3, 4)), "b": jnp.zeros(5)}
    drawn = tree.gaussian(jax.random.key(0), like)
    assert jax.tree.map(jnp.shape, drawn) == {"a": (3, 4), "b": (5,)}
    assert len(np.unique(np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(drawn)]))) == 17
