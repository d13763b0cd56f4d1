"""A validation split out of the training rows, by which a run decides when to stop."""

from typing import Any

import numpy as np

from gradveil.data.records import Array, Split
from gradveil.data.split import SPLIT_SEED
from gradveil.errors import BadInput


def validated(train: Split, owners: Array | None, names: tuple[str, ...], fraction: float | None) -> dict[str, Any]:
    """Return the fields of a dataset, a fraction of whose training rows (rounded up) is held out and not trained on.

    Guarantees: which rows are held out depends on their places and their number alone; every client keeps a row.
    """
    if fraction is None:
        return {}
    if not 0 < fraction < 1:
        raise BadInput(f"validation = {fraction}: a fraction of the training rows lies between 0 and 1")
    n = len(train)
    wanted = int(np.ceil(fraction * n))
    if n - wanted < 2:
        raise BadInput(f"validation = {fraction}: leaves {n - wanted} of {n} rows to train on")
    order = np.random.default_rng([SPLIT_SEED, n]).permutation(n)
    moved, kept = np.sort(order[:wanted]), np.sort(order[wanted:])
    splits = {key: Split(train.x[rows], train.y[rows]) for key, rows in (("train", kept), ("validation", moved))}
    return splits | ({} if owners is None else {"owners": _of_all(owners[kept], names, fraction)})


def _of_all(owners: Array, names: tuple[str, ...], fraction: float) -> Array:
    lost = sorted(set(range(len(names))) - set(owners.tolist()))
    if lost:
        raise BadInput(f"validation = {fraction}: leaves the client {names[lost[0]]!r} no row to train on")
    return owners
