"""Datasets that have only the shape of a missing one: for trying the code, never for comparing with the paper."""

import numpy as np

from gradveil.data.dataset import Dataset, Feature, Split

SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "mnist": ((28, 28, 1), 10),
    "cifar10": ((32, 32, 3), 10),
    "lfw": ((32, 32, 3), 62),
    "adult": ((105,), 2),
    "cancer": ((30,), 2),
}
"""The shape of one example, and the number of classes."""


def stand_in(name: str, train: int = 2000, held_out: int = 400) -> Dataset:
    """Draw examples around one centre a class, as bytes for pictures and as numbers for tables."""
    shape, classes = SHAPES[name]
    random = np.random.default_rng([len(name), classes])
    centres = random.uniform(0.2, 0.8, (classes, *shape))

    def split(n: int) -> Split:
        y = random.permutation(np.arange(n) % classes).astype(np.int32)
        x = np.clip(centres[y] + 0.1 * random.standard_normal((n, *shape)), 0, 1)
        return Split((255 * x).astype(np.uint8) if len(shape) == 3 else x.astype(np.float32), y)

    features = () if len(shape) == 3 else tuple(Feature(f"feature {i}", i, i + 1) for i in range(shape[0]))
    held = split(held_out) if name == "mnist" else None
    names = tuple(f"class {c}" for c in range(classes))
    return Dataset(f"stand-in for {name}", split(train), held, split(held_out), names, features=features)
