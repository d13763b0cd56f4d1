"""Normalization of one example at a time: no function here looks at a second example, so nothing private is learned.

Square roots have gradient 0 at 0, so that features of a blank picture can be differentiated (attacks do).
"""

from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from gradveil.tree import Array

Matrix = np.ndarray[Any, Any]

LONGEST = np.float32(1 - 1e-6)
"""The norm of a unit row: rounding in float32 must not carry it above 1, on which privacy rests."""
_FLAT = 1e-5
"""What is added to the variance of a group of channels."""


def root(x: Array) -> Array:
    """Return the square root of numbers that are 0 or more, with gradient 0 at 0."""
    positive = x > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1)), 0)


def unit(rows: Array) -> Array:
    """Scale each row to norm 1, or a little less: [n, k] -> [n, k]; a row of zeros stays.

    Guarantees: no row has a norm above 1, rounding included.
    """
    lengths = root(jnp.sum(jnp.square(rows), axis=1, keepdims=True))
    return rows * (LONGEST / jnp.maximum(lengths, 1e-8))


def clip_rows(rows: Array, norm: float) -> Array:
    """Scale each row that is longer than `norm` to it, and divide all by `norm`: [n, k] -> [n, k], norms at most 1."""
    lengths = root(jnp.sum(jnp.square(rows), axis=1, keepdims=True))
    return rows * (LONGEST / jnp.maximum(lengths, norm))


def group_norm(maps: Array, size: int) -> Array:
    """Standardize each group of `size` consecutive channels of each example by its own mean and variance.

    [n, channels, h, w] -> the same; the last group has what is left. (x - mean) / sqrt(variance + 1e-5).
    """
    member = _membership(maps.shape[1], size)
    means = jnp.einsum("nchw,cd->nd", maps, member / (maps.shape[2] * maps.shape[3]))[:, :, None, None]
    centered = maps - means
    variances = jnp.einsum("nchw,cd->nd", jnp.square(centered), member / (maps.shape[2] * maps.shape[3]))
    scaled: Array = centered / jnp.sqrt(variances[:, :, None, None] + _FLAT)
    return scaled


@lru_cache(maxsize=32)
def _membership(channels: int, size: int) -> Matrix:
    """Return [channels, channels]: 1 / (size of the group) where two channels are in the same group."""
    group = np.arange(channels) // size
    same = (group[:, None] == group[None]).astype(np.float32)
    averages: Matrix = same / same.sum(axis=0)
    return averages


def cosine(maps: Array, keep: int) -> Array:
    """Take the orthonormal cosine transform of each map and keep its lowest frequencies.

    [n, channels, h, w] -> [n, channels, min(keep, h), min(keep, w)]. Guarantees: no norm grows.
    """
    rows, columns = (cosines(side)[:keep] for side in maps.shape[2:])
    return jnp.einsum("ah,nchw,bw->ncab", rows, maps, columns)


@lru_cache(maxsize=32)
def cosines(side: int) -> Matrix:
    """Return the orthonormal DCT-II as a matrix float32 [side, side], one frequency a row.

    Row f is sqrt(2 / side) cos(pi f (2 i + 1) / (2 side)); row 0 is divided by sqrt(2).
    """
    grid = np.pi * np.outer(np.arange(side), 2 * np.arange(side) + 1) / (2 * side)
    matrix: Matrix = (np.sqrt(2 / side) * np.cos(grid)).astype(np.float32)
    matrix[0] /= np.sqrt(2)
    return matrix
