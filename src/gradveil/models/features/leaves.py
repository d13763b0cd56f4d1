"""Procedural pictures of dead leaves: shapes of random size and shade that cover each other, as in natural images.

Everything comes from a seed; no real picture is used. `objects` cuts such pictures out on black.
"""

from typing import Any

import numpy as np

Pixels = np.ndarray[Any, Any]
_BATCH = 100
"""Pictures painted together; part of what a seed means, since each batch has a generator of its own."""
_MOST_LEAVES = 120
_SMALLEST, _LARGEST, _DECAY = 0.04, 0.6, -1.2
"""Radii as fractions of the side; their density falls as r^(_DECAY - 1)."""
_COLOR_SPREAD = np.array([0.10, 0.04, 0.12], np.float32)

_CORNER, _EXTENT = np.array([[0.15], [0.25]], np.float32), np.array([[0.7], [0.25]], np.float32)
"""Where the centers of the shapes of an outline lie, (down, right): in the left half, which is mirrored."""


def leaves(n: int, side: int, channels: int, seed: int) -> Pixels:
    """Paint n pictures: float32 [n, side, side, channels] in 0 to 1; the same for the same arguments.

    Painted front to back at twice the size, then averaged over 2 x 2. Colors are near gray; one channel is gray alone.
    """
    return np.concatenate([_batch(size, side, channels, g) for size, g in _batches(n, seed)])


def _batches(n: int, seed: int) -> list[tuple[int, np.random.Generator]]:
    starts = range(0, n, _BATCH)
    return [(min(_BATCH, n - start), np.random.default_rng([seed, start // _BATCH])) for start in starts]


def _batch(n: int, side: int, channels: int, generator: np.random.Generator) -> Pixels:
    """Paint n pictures front to back; only points that no leaf covers yet are looked at."""
    fine = 2 * side
    picture = np.zeros((n, fine, fine, channels), np.float32)
    free = np.indices((n, fine, fine), np.int32).reshape(3, -1)  # (picture, row, column) of what is not covered
    for leaf in range(_MOST_LEAVES):
        inside, shade = _leaf(n, fine, free, generator)
        inside |= leaf == _MOST_LEAVES - 1
        color = generator.random((n, 1), np.float32) + _tint(n, channels, generator)
        covered = free[:, inside]
        picture[tuple(covered)] = color[covered[0]] * shade[inside, None]
        free = free[:, ~inside]
    blocks: Pixels = picture.reshape(n, side, 2, side, 2, channels).mean(axis=(2, 4))
    return blocks.clip(0, 1)


def _tint(n: int, channels: int, generator: np.random.Generator) -> Pixels:
    """Return how far the channels of n colors are from gray: [n, channels]."""
    drawn = generator.standard_normal((n, 3), np.float32) * _COLOR_SPREAD
    return drawn if channels == 3 else np.zeros((n, channels), np.float32)


def _leaf(n: int, fine: int, points: Pixels, generator: np.random.Generator) -> tuple[Pixels, Pixels]:
    """Draw one leaf a picture: for points [3, m] whether they are inside, and the leaf's shading there, around 1."""
    centers = generator.random((2, n), np.float32) * np.float32(1.2) - np.float32(0.1)
    low, high = _SMALLEST**_DECAY, _LARGEST**_DECAY
    radii = (low + (high - low) * generator.random(n, np.float32)) ** np.float32(1 / _DECAY)
    slope = generator.standard_normal((2, n), np.float32) * np.float32(0.15)
    which, offsets = points[0], (points[1:] + np.float32(0.5)) / np.float32(fine) - centers[:, points[0]]
    inside = _inside(offsets, _axes(radii, generator), generator.random(n, np.float32) < 0.4, which)
    return inside, 1 + slope[0][which] * offsets[0] + slope[1][which] * offsets[1]


def _axes(radii: Pixels, generator: np.random.Generator) -> Pixels:
    """Draw the two axes of n turned and stretched shapes, divided by their radii: [2, 2, n]."""
    turn = generator.random(len(radii), np.float32) * np.float32(np.pi)
    stretch = np.exp(generator.standard_normal(len(radii), np.float32) * np.float32(0.4))
    along, across = stretch / radii, 1 / (stretch * radii)
    return np.stack([[np.sin(turn) * along, np.cos(turn) * along], [np.cos(turn) * across, -np.sin(turn) * across]])


def _inside(offsets: Pixels, axes: Pixels, box: Pixels, which: Pixels) -> Pixels:
    """Say which points, given as offsets [2, m] from the center of shape `which`, lie in that box or ellipse."""
    turned = [np.square(down[which] * offsets[0] + right[which] * offsets[1]) for down, right in axes]
    inside: Pixels = np.where(box[which], np.maximum(*turned), turned[0] + turned[1]) < 1
    return inside


def objects(n: int, side: int, channels: int, seed: int) -> Pixels:
    """Cut dead leaves out along a mirror-symmetric outline, on black: float32 [n, side, side, channels] in 0 to 1.

    The outline is the union of four shapes and their mirror images. This imitates the published format of
    Fashion-MNIST (one object, seen from the front, on black); no picture of it is used.
    """
    masks = np.concatenate([_outlines(size, side, g) for size, g in _batches(n, seed + 1)])
    cut: Pixels = leaves(n, side, channels, seed) * masks[..., None]
    return cut


def _outlines(n: int, side: int, generator: np.random.Generator) -> Pixels:
    """Return the share of each pixel that lies inside the outline: float32 [n, side, side]."""
    fine = 2 * side
    points = np.indices((n, fine, fine), np.int32).reshape(3, -1)
    mask = np.zeros(n * fine * fine, bool)
    for _ in range(4):
        centers = _CORNER + generator.random((2, n), np.float32) * _EXTENT
        radii = np.float32(0.1) + generator.random(n, np.float32) * np.float32(0.3)
        offsets = (points[1:] + np.float32(0.5)) / np.float32(fine) - centers[:, points[0]]
        mask |= _inside(offsets, _axes(radii, generator), generator.random(n, np.float32) < 0.4, points[0])
    inside = mask.reshape(n, fine, fine)
    shares: Pixels = (inside | inside[:, :, ::-1]).reshape(n, side, 2, side, 2).mean(axis=(2, 4), dtype=np.float32)
    return shares
