"""Patch features: how much each filter of a dictionary finds in each cell of a picture (after Coates and Ng 2012).

The dictionary comes from procedural dead leaves alone. A filter and its mirror image are both in it, so the average
over a picture and its mirror image needs no second pass.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np

from gradveil.errors import BadInput
from gradveil.models import convolution
from gradveil.models.features.leaves import leaves
from gradveil.models.features.normalize import cosine, root, unit
from gradveil.tree import Array

Filters = np.ndarray[Any, Any]

_FLAT = 0.002
"""What is added to the variance of a patch: patches that are flatter than that are not blown up to full contrast."""
_SIDE, _CANDIDATES = 32, 75
"""Pixels along the side of a dead-leaves picture, and patches cut out of each on average."""
_DULL, _CLOSE = 0.03, 0.7
"""Patches of less contrast are not candidates; filters closer than this cosine to an earlier one are left out."""
_RIDGE = 0.1
"""Added to the eigenvalues before whitening, times their mean."""


def dictionary(filters: int, side: int, channels: int, pictures: int, seed: int) -> Filters:
    """Make filters from some pictures of dead leaves: float32 [side * side * channels, filters].

    Patches are normalized in contrast and whitened (ZCA) by their own statistics; then the first ones that are not
    close to an earlier one or its mirror image are taken. The product of a filter with a normalized patch is the cosine
    in the whitened space, times the norm of the whitened patch. Rows are ordered as `convolution.patches` lays them.
    """
    generator = np.random.default_rng([seed, 2])
    patches = normalized(_candidates(leaves(pictures, _SIDE, channels, seed), side, generator))
    values, vectors = np.linalg.eigh(patches.T @ patches / len(patches))
    whiten = (vectors / np.sqrt(np.maximum(values, 0) + _RIDGE * values.mean())) @ vectors.T
    white = patches @ whiten
    white /= np.linalg.norm(white, axis=1, keepdims=True)
    chosen = white[_apart(white, mirrored(white.T, side, channels).T, filters)] @ whiten
    centered: Filters = (chosen - chosen.mean(axis=1, keepdims=True)).T.astype(np.float32)
    return centered


def _candidates(pictures: Filters, side: int, generator: np.random.Generator) -> Filters:
    """Cut patches out at random places and keep those with contrast: float64 [candidates, side * side * channels]."""
    n = _CANDIDATES * len(pictures)
    which = generator.integers(len(pictures), size=n)[:, None, None]
    down, right = generator.integers(pictures.shape[1] - side + 1, size=(2, n, 1, 1))
    rows, columns = down + np.arange(side)[:, None], right + np.arange(side)
    patches = pictures[which, rows, columns].reshape(n, -1).astype(np.float64)
    kept: Filters = patches[patches.std(axis=1) > _DULL]
    return kept


def normalized(patches: Any) -> Any:
    """Give each patch (NumPy or JAX, [n, pixels]) mean 0 and contrast about 1: (p - mean) / sqrt(variance + 0.002)."""
    centered = patches - patches.mean(axis=1, keepdims=True)
    return centered / ((centered**2).mean(axis=1, keepdims=True) + _FLAT) ** 0.5


def mirrored(filters: Any, side: int, channels: int) -> Any:
    """Mirror filters (NumPy or JAX) [side * side * channels, n] from left to right."""
    return filters.reshape(side, side, channels, -1)[:, ::-1].reshape(filters.shape)


def _apart(white: Filters, mirrors: Filters, wanted: int) -> list[int]:
    """Return the first `wanted` rows of which none has a cosine above 0.7 with an earlier one or its mirror image."""
    kept = np.zeros((2 * wanted, white.shape[1]))
    chosen: list[int] = []
    for i, row in enumerate(white):
        if len(chosen) == wanted:
            return chosen
        if not chosen or np.abs(kept[: 2 * len(chosen)] @ row).max() <= _CLOSE:
            kept[2 * len(chosen) : 2 * len(chosen) + 2] = row, mirrors[i]
            chosen.append(i)
    raise BadInput(f"filters = {wanted}: only {len(chosen)} patches of this size are different enough")


def responses(picture: Array, filters: Array, side: int, cells: int, threshold: float, mirror: bool) -> Array:
    """Return the square root of the mean of relu(filter response - threshold) in each cell of one picture.

    picture [h, w, c], filters [side * side * c, K] -> [K, cells, cells]. With `mirror` it is the average of that
    over the picture and its mirror image (exactly, if the width is even).
    """
    both = jnp.concatenate([filters, mirrored(filters, side, picture.shape[2])], axis=1) if mirror else filters
    cut = convolution.patches(_at_least(picture, side + cells - 1), side)
    rows, columns = cut.shape[:2]
    activations = jnp.maximum(normalized(cut.reshape(rows * columns, -1)) @ both - threshold, 0)
    means = root(_cell_means(activations.reshape(rows, columns, -1), cells))
    if not mirror:
        return means
    one, other = jnp.split(means, 2)
    return (one + other[:, :, ::-1]) / 2


def _cell_means(activations: Array, cells: int) -> Array:
    """Average [rows, columns, K] over cells x cells blocks: [K, cells, cells]; a position may belong to two in part."""
    down, across = (shares(side, cells) for side in activations.shape[:2])
    return jnp.einsum("ar,rck,bc->kab", down, activations, across)


def shares(side: int, cells: int) -> Filters:
    """Return the matrix [cells, side] that averages `side` positions over `cells` cells of equal length."""
    edges = np.linspace(0, side, cells + 1)
    overlap = np.minimum(edges[1:, None], np.arange(side) + 1) - np.maximum(edges[:-1, None], np.arange(side))
    matrix: Filters = (np.maximum(overlap, 0) * cells / side).astype(np.float32)
    return matrix


def half(picture: Array) -> Array:
    """Return a picture [h, w, c] at half its size, each pixel the mean of four; an odd last row is doubled."""
    height, width, channels = picture.shape
    even = jnp.pad(picture, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return even.reshape(-(-height // 2), 2, -(-width // 2), 2, channels).mean(axis=(1, 3))


def _at_least(picture: Array, side: int) -> Array:
    """Put a picture that is smaller than side x side on black, in the middle."""
    extra = [max(0, side - length) for length in picture.shape[:2]]
    extra = [more + more % 2 for more in extra]  # as much on the left as on the right
    return jnp.pad(picture, ((extra[0] // 2,) * 2, (extra[1] // 2,) * 2, (0, 0)))


def compressed(maps: Array, keep: int) -> Array:
    """Return [n, K, cells, cells] as unit rows of their lowest spatial frequencies: [n, K * keep * keep]."""
    return unit(cosine(maps, keep).reshape(len(maps), -1))
