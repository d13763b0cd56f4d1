"""Whether a guess explains what was read: an attack that did not fit says nothing about what leaks."""

import jax
import numpy as np

from gradveil.attacks.distance import Likelihood
from gradveil.attacks.leak import Reading, Stage

FAR = 4.0
"""How many times the expected squared residual still counts as explained by the noise."""
REST = 0.05
"""The share of the reading that may be left over all the same: noise below it hides nothing from the eye."""


def fits(stage: Stage, readings: Reading, distance: Likelihood, loss: float, values: int) -> bool:
    """Whether the loss that an attack ended with is near what the truth itself would have had.

    readings: stacked [R, ...]; values: how many numbers were guessed. Where the law is right, the truth has twice the
    loss d + values on average: d coordinates with their noise, and as much again for every value under a prior of
    variance 1. A loss of FAR times that, or a residual of REST of the reading, still fits.
    """
    size, d = 0.0, 0
    for y, std in zip(jax.tree.leaves(readings.gradient), jax.tree.leaves(readings.std), strict=True):
        y, std = np.asarray(y, np.float64), np.asarray(std, np.float64)
        visible = (y != 0) if stage.sparse else np.ones(y.shape, bool)
        d += int(visible.sum())
        size += float(np.sum(visible * np.square(y / np.maximum(_aligned(std, y), _least(readings, distance)))))
    return 2 * loss <= max(FAR * (d + values), REST**2 * size)


def _least(readings: Reading, distance: Likelihood) -> float:
    """Return the noise that a reading without any is taken to have, as the distance does."""
    squares = [np.square(np.asarray(y, np.float64)) for y in jax.tree.leaves(readings.gradient)]
    return distance.least * float(np.sqrt(sum(s.sum() for s in squares) / sum(s.size for s in squares))) + 1e-12


def _aligned(std: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the noise [R] or [R, ...] of stacked readings so that it broadcasts to y [R, ...]."""
    return std.reshape(std.shape + (1,) * (y.ndim - std.ndim)) if std.ndim < y.ndim else std
