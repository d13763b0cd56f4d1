"""From pictures and rows to features: blocks, map and unit norm, in chunks of a fixed size.

Guarantees: the features of an example do not depend on the examples beside it, since one compiled program goes over
the examples one by one (the map excepted, for which chunks have a fixed size); they have norm at most 1; and they are
differentiable, blank pictures included.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.errors import BadInput
from gradveil.models.features.description import Features, PatchBlock, ScatteringBlock
from gradveil.models.features.maps import Shape
from gradveil.models.features.normalize import clip_rows, group_norm, unit
from gradveil.models.features.patches import compressed, dictionary, half, responses
from gradveil.models.features.scattering import mirrored_channels, scatter_picture
from gradveil.tree import Array

Host = np.ndarray[Any, Any]
Progress = Callable[[float], None]
_CHUNK = 256
_SMALLEST = 8
"""Pictures must have at least so many pixels along each side."""


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """What is computed once: filters float32 [pixels, K] of the patches, the matrix float32 [d, k] of the map."""

    filters: Host | None
    matrix: Host | None


def silent(share: float) -> None:
    """Report nothing."""


def build(features: Features, shape: Shape, progress: Progress = silent) -> Constants:
    """Make filters and map for examples of a shape, from the seed alone; the same every time."""
    _check(features, shape)
    filters = None
    if features.patches is not None:
        block = features.patches
        filters = dictionary(block.filters, block.side, shape[2], block.pictures, features.seed)

    def raw(pictures: Host) -> Host:
        return _in_chunks(features, Constants(filters, None), pictures, progress)

    return Constants(filters, features.map.fit(raw, shape, features.seed))


def _check(features: Features, shape: Shape) -> None:
    if features.table is not None and len(shape) != 1:
        raise BadInput(f"table: needs rows of numbers, not examples of shape {shape}")
    if features.table is None and (len(shape) != 3 or min(shape[:2]) < _SMALLEST):
        raise BadInput(
            f"features = {features.kind}: needs pictures of at least {_SMALLEST} x {_SMALLEST} pixels, "
            f"not shape {shape}"
        )


def transform(features: Features, constants: Constants, x: Array) -> Array:
    """Return the features of examples: uint8 (read as x / 255) or float32 [n, ...] -> float32 [n, k], norms at most 1.

    For compiled programs and gradients; `extract` serves whole datasets. A picture that is scaled by its owner is
    expected in 0 to 1.
    """
    return _mapped(_rows(features, constants.filters, x), constants.matrix)


def _mapped(rows: Array, matrix: Any) -> Array:
    return rows if matrix is None else unit(rows @ matrix)


def _rows(features: Features, filters: Any, x: Array) -> Array:
    """Return the blocks side by side, before the map: [n, ...] -> [n, d], norms at most 1."""
    x = x.astype(jnp.float32) / np.float32(255) if x.dtype == np.uint8 else x
    if features.table is not None:
        return clip_rows(x, features.table.norm)
    parts = []
    if features.scattering is not None:
        parts.append(_scattered(features.scattering, x))
    if features.patches is not None:
        parts += _patched(features.patches, filters, x)
    return unit(jnp.concatenate(parts, axis=1))


def _scattered(block: ScatteringBlock, x: Array) -> Array:
    """Return unit rows [n, channels * keep^2] of the scattering."""
    maps = group_norm(scatter_picture(x, block.scales, block.angles), block.group)
    if block.mirror:
        flipped = maps[:, np.array(mirrored_channels(x.shape[3], block.scales, block.angles)), :, ::-1]
        maps = (maps + flipped) / 2
    return compressed(maps, block.keep)


def _patched(block: PatchBlock, filters: Any, x: Array) -> list[Array]:
    """Return unit rows [n, filters * keep^2] for the picture, and for the picture at half its size."""
    sizes = [x, jax.vmap(half)(x)] if block.half else [x]
    respond = partial(
        responses, filters=filters, side=block.side, cells=block.cells, threshold=block.threshold, mirror=block.mirror
    )
    return [compressed(jax.vmap(respond)(pictures), block.keep) for pictures in sizes]


def width(features: Features, shape: Shape) -> int:
    """Return how many numbers an example of a shape has."""
    return _raw_width(features, shape) if features.k is None else features.k


def _raw_width(features: Features, shape: Shape) -> int:
    """Return how many numbers the blocks give before the map."""
    filters = None
    if features.patches is not None:
        filters = np.zeros((features.patches.side**2 * shape[2], features.patches.filters), np.float32)
    one = jax.ShapeDtypeStruct((1, *shape), np.float32)
    return int(jax.eval_shape(partial(_rows, features, filters), one).shape[1])


def extract(features: Features, x: Host, progress: Progress = silent, constants: Constants | None = None) -> Host:
    """Return the features of all examples: uint8 or float32 [n, ...] -> float32 [n, k].

    `constants` are those of `build`, made here if they are not given. `progress` is called with the share that is done:
    of the procedural pictures, if a map is fitted to some, and then of the examples.
    """
    made = build(features, x.shape[1:], progress) if constants is None else constants
    return _in_chunks(features, made, x, progress)


def _in_chunks(features: Features, constants: Constants, x: Host, progress: Progress) -> Host:
    """Go over all examples, chunk by chunk; the last chunk is filled with zeros."""
    arrays = jax.tree.map(jnp.asarray, (constants.filters, constants.matrix))
    columns = width(features, x.shape[1:]) if constants.matrix is not None else _raw_width(features, x.shape[1:])
    done = np.empty((len(x), columns), np.float32)
    for start in range(0, len(x), _CHUNK):
        chunk = x[start : start + _CHUNK]
        full = np.concatenate([chunk, np.zeros((_CHUNK - len(chunk), *x.shape[1:]), x.dtype)])
        done[start : start + len(chunk)] = _chunk(features, *arrays, full)[: len(chunk)]
        progress(min(1.0, (start + _CHUNK) / len(x)))
    return done


@partial(jax.jit, static_argnums=0)
def _chunk(features: Features, filters: Any, matrix: Any, x: Array) -> Array:
    """Return the features of one chunk; the blocks one example at a time, the map of all at once.

    One at a time, all that belongs to a picture stays in the processor's cache, which is three times as fast.
    """
    return _mapped(jax.lax.map(lambda one: _rows(features, filters, one[None])[0], x), matrix)
