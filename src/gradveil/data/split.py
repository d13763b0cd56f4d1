"""Holding out a quarter of the records for testing, the same quarter every time."""

import numpy as np

from gradveil.data.records import Array, Split

SPLIT_SEED = 2024
"""The seed of every split made here: a constant of the datasets, not the seed of a run, so that all runs agree."""


def quarter(labels: Array) -> tuple[Array, Array]:
    """Return (train, test) record numbers, the test ones ceil(n / 4) of n, every class in proportion.

    The records are shuffled, put in order of their class, and taken at even distances.
    Guarantees: every class has a record in train; a class of one record is never tested on (then, and only if
    most classes are that small, test may be smaller than a quarter).
    """
    n = len(labels)
    shuffled = np.random.default_rng(SPLIT_SEED).permutation(n)
    _, kind, counts = np.unique(labels, return_inverse=True, return_counts=True)
    pool = shuffled[np.argsort(kind[shuffled], kind="stable")]
    pool = pool[counts[kind[pool]] > 1]
    wanted = min(-(-n // 4), len(pool) // 2)
    is_test = np.zeros(n, dtype=bool)
    is_test[pool[(np.arange(wanted) * len(pool)) // max(wanted, 1)]] = True
    return shuffled[~is_test[shuffled]], shuffled[is_test[shuffled]]


def quarter_by_place(n: int) -> tuple[Array, Array]:
    """Return (train, test) numbers of n rows, the test ones ceil(n / 4), by a fixed shuffle of their places.

    Guarantees: whether a row is tested on depends on its place and the number of rows, on nothing that rows hold.
    """
    shuffled = np.random.default_rng(SPLIT_SEED).permutation(n)
    return shuffled[-(-n // 4) :], shuffled[: -(-n // 4)]


def part(x: Array, labels: Array, records: Array) -> Split:
    """Return the records as a split; x stays uint8 or becomes float32, labels become int32, or float32 if fractions."""
    chosen, kind = x[records], np.float32 if labels.dtype.kind == "f" else np.int32
    return Split(chosen if chosen.dtype == np.uint8 else chosen.astype(np.float32), labels[records].astype(kind))
