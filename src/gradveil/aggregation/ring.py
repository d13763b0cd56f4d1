"""Sums of bounded vectors as whole numbers modulo 2^64, and how far one record can move them.

A node clips the vector of each record to norm C, adds them up in float64 and rounds the sum once, to whole units of
C / 2^24. Whole numbers add up to the same bits in any order, and masks cancel in them exactly.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

Units = np.ndarray[Any, np.dtype[np.uint64]]
Reals = np.ndarray[Any, np.dtype[np.float64]]
RESOLUTION = 2**24
"""Units that stand for the clipping bound C."""
_LARGEST = 2.0**62
_SURE = 12.0
"""Standard deviations beyond which Gaussian noise lies with probability 4e-33 a coordinate."""


def bounded_sum(vectors: Reals, bound: float) -> Reals:
    """Return sum_j min(1, C / ||v_j||) v_j / C over records, float64 [m, d] -> [d].

    A vector that is not finite counts as zero, so that nothing fails because of a record; so does one whose square
    overflows.
    """
    kept = np.where(np.isfinite(vectors).all(axis=1, keepdims=True), vectors, 0.0).astype(np.float64)
    with np.errstate(over="ignore"):
        norms = np.sqrt(np.sum(np.square(kept), axis=1, keepdims=True))
    total: Reals = np.sum(kept / np.maximum(norms, bound), axis=0)
    return total


def encode(total: Reals) -> Units:
    """Return round(2^24 x) modulo 2^64 for a sum in units of C, clamped to +-2^62; [d] -> [d]."""
    largest = _LARGEST / RESOLUTION
    clamped = np.clip(np.nan_to_num(np.asarray(total, np.float64)), -largest, largest) * RESOLUTION
    return np.rint(clamped).astype(np.int64).view(np.uint64)


def decode(units: Units, bound: float) -> Reals:
    """Return what a sum of encoded vectors stands for: signed units times C / 2^24."""
    return units.view(np.int64).astype(np.float64) * (bound / RESOLUTION)


def sensitivity(size: int, records: int) -> float:
    """Return Delta, the most units by which one record of m moves the encoded sum of d coordinates in the l2 norm.

        Delta = 2^24 (1 + 2^-20) + sqrt(d) (1 + 2 (m + 3) m 2^24 2^-53)

    The first term is the record itself, clipped with an error far below 2^-20; the others are what rounding can add,
    since |round(a + v) - round(a)| <= |v| + 1, and twice the error of a float64 sum of m numbers of at most 1.
    """
    rounding = 1 + 2 * (records + 3) * records * RESOLUTION * 2.0**-53
    return RESOLUTION * (1 + 2.0**-20) + math.sqrt(size) * rounding


def total(answers: Iterable[Units]) -> Units:
    """Return the sum modulo 2^64, the same bits in any order."""
    summed: Units = np.add.reduce(np.stack(list(answers)), axis=0, dtype=np.uint64)
    return summed


def plausible(units: Units, records: int, deviation: float) -> bool:
    """Whether a sum over so many records with noise of this standard deviation, in units, can have these coordinates.

    A sum in which a mask is left is uniform: each coordinate passes with probability 2 limit / 2^64.
    """
    limit = records * RESOLUTION * (1 + 2.0**-20) + records + _SURE * deviation
    signed = units.view(np.int64).astype(np.float64)
    return bool(np.all(np.abs(signed) <= limit))
