"""The scale of columns that is taken from their rows: mean and deviation."""

import numpy as np

from gradveil.data.records import Array

STATISTICS_NOTE = "columns are standardized with the mean and deviation of the training rows, which no epsilon covers"


def moments(x: Array) -> tuple[Array, Array]:
    """Return mean and deviation of each column, ignoring NaN; the deviation of a constant column is 1."""
    known = np.isfinite(x)
    counts = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0.0).sum(axis=0) / counts
    deviation = np.sqrt((np.where(known, x - mean, 0.0) ** 2).sum(axis=0) / counts)
    return mean, np.where(deviation > 0, deviation, 1.0)
