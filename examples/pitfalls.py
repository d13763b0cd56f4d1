"""Mistakes of private training as small mechanisms, for `gradveil audit --mechanism`; docs/pitfalls.md explains them.

    gradveil audit --mechanism examples.pitfalls:sound --noise-multiplier 2              # consistent, exit code 0
    gradveil audit --mechanism examples.pitfalls:mean_clipped --noise-multiplier 2       # refuted, exit code 1

Units are [n, d], clipped to C = 1; a lot is expected to hold 16. All but `sound` claim a noise multiplier of 2 and have
less. Run from the root of the repository.
"""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Z, EXPECTED, LAYERS = 2.0, 16, 4


def clipped(units: Array) -> Array:
    """Return units [n, d] with norms of at most 1."""
    norms = np.linalg.norm(units, axis=1, keepdims=True)
    return units * np.minimum(1.0, 1.0 / np.maximum(norms, 1e-30))


def noise(seed: int, size: int) -> Array:
    """Return the noise that the claim needs on a sum."""
    return Z * np.random.default_rng(seed).standard_normal(size)


def sound(units: Array, seed: int) -> Array:
    """Clip every unit, sum, add the noise, divide by the expected number."""
    return (clipped(units).sum(axis=0) + noise(seed, units.shape[1])) / EXPECTED


def noise_from_the_data(units: Array, seed: int) -> Array:
    """Scale the noise to the largest clipped unit rather than to the bound."""
    cut = clipped(units)
    largest = np.linalg.norm(cut, axis=1).max(initial=0.01)
    return (cut.sum(axis=0) + largest * noise(seed, units.shape[1])) / EXPECTED


def mean_clipped(units: Array, seed: int) -> Array:
    """Clip the mean of the lot in place of every unit, with noise as for a mean of clipped units."""
    mean = units.sum(axis=0, keepdims=True) / EXPECTED
    return clipped(mean)[0] + noise(seed, units.shape[1]) / EXPECTED


def count_of_the_lot(units: Array, seed: int) -> Array:
    """Divide the sum by how many units there happen to be, and noise it for the expected number."""
    return clipped(units).sum(axis=0) / max(len(units), 1) + noise(seed, units.shape[1]) / EXPECTED


def layers_one_by_one(units: Array, seed: int) -> Array:
    """Clip each of four layers to C and noise as if the whole were clipped to C: sqrt(4) is forgotten."""
    sums = [clipped(part).sum(axis=0) for part in np.split(units, LAYERS, axis=1)]
    return (np.concatenate(sums) + noise(seed, units.shape[1])) / EXPECTED


def batch_normalized(units: Array, seed: int) -> Array:
    """Center units by the lot's mean before clipping: one unit changes what all others contribute."""
    centered = units - units.mean(axis=0, keepdims=True)
    return (clipped(centered).sum(axis=0) + noise(seed, units.shape[1])) / EXPECTED


def scaled_by_the_lot(units: Array, seed: int) -> Array:
    """Scale units by the largest that is there before clipping, as a scaler that is fitted to private rows does."""
    largest = np.linalg.norm(units, axis=1).max(initial=1e-30)
    return (clipped(units / largest).sum(axis=0) + noise(seed, units.shape[1])) / EXPECTED


def divided_twice(units: Array, seed: int) -> Array:
    """Divide the noise by the lot's size, and then the noised sum once more."""
    return (clipped(units).sum(axis=0) + noise(seed, units.shape[1]) / EXPECTED) / EXPECTED


def same_key_every_round(units: Array, seed: int) -> Array:
    """Draw the noise of two rounds from one key: their difference has none."""
    halves = units[0::2], units[1::2]
    return np.stack([(clipped(half).sum(axis=0) + noise(seed, units.shape[1])) / EXPECTED for half in halves])


def known_seed(units: Array, seed: int) -> Array:
    """Draw the noise from a seed that is always the same, and so can be subtracted."""
    return sound(units, 7)
