"""Procedural glyphs: random skeletons of Bezier strokes, each drawn several times by an unsteady hand.

Everything comes from a seed; no real picture is used. The format is the one that MNIST publishes: strokes of a pen
inside a box of 20 of 28 pixels, centered by mass, white on black. What two copies of a skeleton share is what should
count in a feature; how they differ is what should not.
"""

from typing import Any

import numpy as np

Values = np.ndarray[Any, Any]
_BATCH = 300
"""Glyphs drawn together; part of what a seed means, since each batch has a generator of its own."""
_POINTS = 48
"""Points a stroke."""
_JITTER, _AFFINE, _TURN, _SHEAR, _WAVE = 0.07, 0.15, 0.12, 0.2, 0.03
"""How unsteady the hand is: standard deviations, for skeletons inside the unit square."""
_BOX, _MARGIN = 18 / 28, 0.2
_THINNEST, _THICKEST, _EDGE = 0.4 / 28, 1.7 / 28, 1.2 / 28
"""Half the width of the pen, and how far its edge fades; fractions of the side."""


def glyphs(skeletons: int, copies: int, side: int, seed: int) -> Values:
    """Draw copies of random skeletons: float32 [skeletons * copies, side, side] in 0 to 1, copies of one in a row."""
    controls, strokes = _skeletons(skeletons, np.random.default_rng([seed, 0]))
    controls, strokes = np.repeat(controls, copies, axis=0), np.repeat(strokes, copies)
    drawn = []
    for batch, start in enumerate(range(0, len(strokes), _BATCH)):
        some, generator = slice(start, start + _BATCH), np.random.default_rng([seed, 1, batch])
        drawn.append(_ink(_hand(controls[some], strokes[some], generator), side, generator))
    return np.concatenate(drawn)


def _skeletons(n: int, generator: np.random.Generator) -> tuple[Values, Values]:
    """Draw control points [n, 3, 4, 2] in the unit square and how many strokes are used: 1, 2 or 3.

    Seven strokes of ten begin where the one before ends.
    """
    controls = generator.random((n, 3, 4, 2))
    joined = generator.random((n, 3)) < 0.7
    for i in (1, 2):
        controls[:, i, 0] = np.where(joined[:, i, None], controls[:, i - 1, 3], controls[:, i, 0])
    return controls, generator.choice([1, 2, 3], n, p=[0.3, 0.45, 0.25])


def _hand(controls: Values, strokes: Values, generator: np.random.Generator) -> Values:
    """Draw each skeleton once, deformed: points [n, 3 * 48, 2] as (down, right); a stroke not used repeats the first.

    Control points are jittered, the glyph is stretched, turned and sheared, and bent along smooth waves.
    """
    moved = controls + _JITTER * generator.standard_normal(controls.shape)
    for i in (1, 2):
        joined = (controls[:, i, 0] == controls[:, i - 1, 3]).all(axis=1)
        moved[:, i, 0] = np.where(joined[:, None], moved[:, i - 1, 3], moved[:, i, 0])
    curves = np.einsum("pc,nscd->nspd", _bernstein(), moved)
    used = np.arange(3) < strokes[:, None]
    points = np.where(used[:, :, None, None], curves, curves[:, :1]).reshape(len(curves), -1, 2)
    return _bent(points @ _linear(len(points), generator), generator)


def _bernstein() -> Values:
    """Return the weights of the four control points of a cubic curve at evenly spaced times: [48, 4]."""
    t = np.linspace(0, 1, _POINTS)[:, None]
    return np.concatenate([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t**2 * (1 - t), t**3], axis=1)


def _linear(n: int, generator: np.random.Generator) -> Values:
    """Draw a linear map a glyph, to be applied from the right: [n, 2, 2]."""
    stretch = np.eye(2) + _AFFINE * generator.standard_normal((n, 2, 2))
    angle = _TURN * generator.standard_normal(n)
    turn = np.moveaxis(np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]), 2, 0)
    shear = np.broadcast_to(np.eye(2), (n, 2, 2)).copy()
    shear[:, 0, 1] = _SHEAR * generator.standard_normal(n)
    mapped: Values = stretch @ turn @ shear
    return mapped


def _bent(points: Values, generator: np.random.Generator) -> Values:
    """Move points [n, p, 2] along sine waves of both coordinates."""
    n = len(points)
    height = _WAVE * generator.standard_normal((n, 1, 2, 2))
    phase = 2 * np.pi * generator.random((n, 1, 2, 2))
    waves = height * np.sin(6 * points[:, :, None, :] + phase)
    bent: Values = points + waves.sum(axis=3)
    return bent


def _ink(points: Values, side: int, generator: np.random.Generator) -> Values:
    """Draw points [n, p, 2] with a round pen of random width: float32 [n, side, side], centered by mass."""
    low, high = points.min(axis=1, keepdims=True), points.max(axis=1, keepdims=True)
    size = np.maximum((high - low).max(axis=2, keepdims=True), _MARGIN)
    placed = ((points - (low + high) / 2) / size * _BOX * side + (side - 1) / 2).astype(np.float32)
    squares = np.square(np.arange(side, dtype=np.float32) - placed[..., None])  # [n, p, 2, side]
    nearest = np.full((len(points), side, side), np.inf, np.float32)
    for down, right in zip(np.moveaxis(squares[:, :, 0], 1, 0), np.moveaxis(squares[:, :, 1], 1, 0), strict=True):
        np.minimum(nearest, down[:, :, None] + right[:, None, :], out=nearest)
    pen = side * generator.uniform(_THINNEST, _THICKEST, (len(points), 1, 1)).astype(np.float32)
    return _centered(np.clip(1 - (np.sqrt(nearest) - pen) / np.float32(side * _EDGE), 0, 1))


def _centered(pictures: Values) -> Values:
    """Shift each picture by whole pixels, around the edges, so that its center of mass is in the middle."""
    side = pictures.shape[1]
    line = np.arange(side) - (side - 1) / 2
    mass = np.maximum(pictures.sum(axis=(1, 2)), 1e-6)
    down = np.rint(pictures.sum(axis=2) @ line / mass).astype(int)
    right = np.rint(pictures.sum(axis=1) @ line / mass).astype(int)
    place = np.arange(side)
    rows, columns = (place + down[:, None]) % side, (place + right[:, None]) % side
    shifted: Values = pictures[np.arange(len(pictures))[:, None, None], rows[:, :, None], columns[:, None, :]]
    return shifted
