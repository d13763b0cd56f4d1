"""Sums as whole numbers: exact against fractions, and never moved by one record further than Delta."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradveil.aggregation import ring

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def nearest(value):
    """Round a fraction to a whole number, a half to the even one."""
    low = math.floor(value)
    rest = value - low
    return low + (rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low % 2 == 1))


@given(st.lists(FINITE | st.integers(-9, 9).map(lambda k: (k + 0.5) / 2**24), min_size=1, max_size=20))
def test_encoding_is_rounding_of_the_exact_product(values):
    exact = [nearest(Fraction(value) * 2**24) % 2**64 for value in values]
    assert ring.encode(np.array(values)).tolist() == exact


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=20), st.sampled_from([0.3, 1.0, 7.25]))
def test_decoding_is_the_signed_number_times_the_unit(numbers, bound):
    decoded = ring.decode(np.array(numbers, np.int64).view(np.uint64), bound)
    for got, k in zip(decoded.tolist(), numbers, strict=True):
        assert got == pytest.approx(float(Fraction(k) * Fraction(bound) / 2**24), rel=1e-15)


@given(st.lists(st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=3), min_size=1, max_size=12), st.randoms())
def test_a_sum_is_that_of_whole_numbers_modulo_2_to_the_64_in_any_order(vectors, random):
    exact = [sum(column) % 2**64 for column in zip(*vectors, strict=True)]
    shuffled = random.sample(vectors, len(vectors))
    assert ring.total(np.array(v, np.uint64) for v in shuffled).tolist() == exact


def test_what_is_not_finite_or_too_large_neither_fails_nor_wraps():
    odd = ring.encode(np.array([np.nan, np.inf, -np.inf, 1e300, -1e300])).view(np.int64)
    assert odd.tolist() == [0, 2**62, -(2**62), 2**62, -(2**62)]
    vectors = np.array([[3.0, 4.0], [np.nan, 1.0], [np.inf, 0.0], [1e200, 0.0], [0.3, 0.4]])
    assert ring.bounded_sum(vectors, 1.0) == pytest.approx([0.6 + 0.3, 0.8 + 0.4])
    assert ring.bounded_sum(np.zeros((0, 2)), 1.0).tolist() == [0.0, 0.0]


def test_a_record_counts_with_at_most_the_bound_and_in_units_of_it():
    one = np.random.default_rng(1).normal(size=(1, 9))
    for bound in (0.01, 1.0, 100.0):
        scale = min(1.0, bound / math.hypot(*one[0])) / bound
        assert ring.bounded_sum(one.astype(np.float32), bound) == pytest.approx(one[0] * scale, rel=1e-6)


def moved(vectors):
    """Give by how many units the sum moves if the first record is zeroed, as a whole number squared."""
    without = vectors.copy()
    without[0] = 0.0
    first, second = (ring.encode(ring.bounded_sum(v, 1.0)).view(np.int64) for v in (vectors, without))
    return sum((int(a) - int(b)) ** 2 for a, b in zip(first, second, strict=True))


def edges(random, size, records):
    """Records whose sums lie a hair from where rounding jumps, so that one of norm 1 moves every coordinate by more."""
    others = (random.integers(-3, 4, (records, size)) + 0.5 - 2.0**-29) / 2**24
    others[1:] /= records
    others[0] = 1 / math.sqrt(size)
    others[1] = (0.5 - 2.0**-20) / 2**24 - (others[0] % 2.0**-24) / 2
    return others


@pytest.mark.parametrize("size", [1, 10, 400])
@pytest.mark.parametrize("records", [2, 50])
def test_one_record_never_moves_the_sum_further_than_delta(size, records):
    random, limit = np.random.default_rng(size), ring.sensitivity(size, records) ** 2
    for _ in range(20):
        assert moved(random.normal(size=(records, size)) * 10.0 ** random.integers(-4, 4)) <= limit
        assert moved(edges(random, size, records)) <= limit


def test_rounding_can_move_the_sum_by_more_than_the_record_and_delta_covers_that():
    size = 2500
    vectors = np.zeros((2, size))
    vectors[0] = 1 / math.sqrt(size)  # 335544.32 units a coordinate
    vectors[1] = 0.3 / 2**24  # with it .62 is rounded up, alone it is rounded down
    assert moved(vectors) == size * 335545**2
    assert (2**24 * (1 + 2**-20)) ** 2 < moved(vectors) <= ring.sensitivity(size, 2) ** 2


@settings(max_examples=30)
@given(st.integers(1, 100_000), st.integers(1, 60_000))
def test_delta_covers_the_record_the_rounding_and_the_error_of_summing(size, records):
    unit, half_ulp = Fraction(2**24), Fraction(1, 2**53)
    summing = 2 * records * (records + 1) * unit * half_ulp  # two sums of m numbers of at most 1, and their scaling
    least = float(unit) + math.sqrt(size) * float(1 + summing)
    assert least <= ring.sensitivity(size, records) <= least * (1 + 2e-6) + 0.01 * math.sqrt(size)


def test_a_sum_of_honest_size_is_plausible_and_a_uniform_one_is_not():
    records, deviation = 1000, 1e8
    largest = int(records * 2**24 + 11 * deviation)
    honest = np.array([largest, -largest, 0], np.int64).view(np.uint64)
    assert ring.plausible(honest, records, deviation)
    for wrong in (2 * largest, -2 * largest, -(2**63)):
        assert not ring.plausible(np.array([0, wrong], np.int64).view(np.uint64), records, deviation)
    uniform = np.random.default_rng(0).integers(0, 2**64, 40, np.uint64)
    assert not ring.plausible(uniform, records, deviation)
