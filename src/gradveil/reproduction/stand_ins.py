"""Datasets by name for the tables; a missing one may be replaced by synthetic examples of its shape.

A stand-in is for trying the code, never for comparing with the paper.
"""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gradveil.data.dataset import Dataset, Feature, Split
from gradveil.data.sources import load
from gradveil.errors import BadInput

SHAPES: dict[str, tuple[tuple[int, ...], int]] = {
    "mnist": ((28, 28, 1), 10),
    "cifar10": ((32, 32, 3), 10),
    "lfw": ((32, 32, 3), 62),
    "adult": ((105,), 2),
    "cancer": ((30,), 2),
}
"""The shape of one example, and the number of classes."""


def stand_in(name: str, train: int = 2000, test: int = 400) -> Dataset:
    """Draw examples around one center a class, as bytes for pictures and as numbers for tables."""
    shape, classes = SHAPES[name]
    random = np.random.default_rng([len(name), classes])
    centers = random.uniform(0.2, 0.8, (classes, *shape))

    def split(n: int) -> Split:
        y = random.permutation(np.arange(n) % classes).astype(np.int32)
        x = np.clip(centers[y] + 0.1 * random.standard_normal((n, *shape)), 0, 1)
        return Split((255 * x).astype(np.uint8) if len(shape) == 3 else x.astype(np.float32), y)

    features = () if len(shape) == 3 else tuple(Feature(f"feature {i}", i, i + 1) for i in range(shape[0]))
    validation = split(test) if name == "mnist" else None
    names = tuple(f"class {c}" for c in range(classes))
    return Dataset(f"stand-in for {name}", split(train), validation, split(test), names, features=features)


def is_stand_in(dataset: Dataset) -> bool:
    """Whether a dataset only has the shape of the one that it is named after."""
    return dataset.name.startswith("stand-in")


@dataclass(slots=True)
class DatasetFinder:
    """Finds datasets by name, once each; a missing one is replaced by a stand-in if the scale allows it."""

    folder: Path | None
    stands_in: bool
    _datasets: dict[str, Dataset | BadInput] = field(default_factory=dict)

    def __call__(self, name: str) -> Dataset:
        """Return a dataset; raises BadInput where there is none."""
        if name not in self._datasets:
            self._datasets[name] = self._load(name)
        dataset = self._datasets[name]
        if isinstance(dataset, BadInput):
            raise dataset
        return dataset

    def _load(self, name: str) -> Dataset | BadInput:
        """Look once: a search for what is not there takes its time."""
        try:
            return load(name, data_dir=self.folder, allow_download=not self.stands_in)
        except BadInput as error:
            return stand_in(name) if self.stands_in else error
