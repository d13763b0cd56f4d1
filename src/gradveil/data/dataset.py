"""A dataset: its splits, and public facts about it."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradveil.data.table_schema import Schema

Array = np.ndarray[Any, Any]

UNCOVERED = "were taken from the private records themselves, which no epsilon here covers."
"""How every caveat of a dataset ends: what precedes it depends on the records."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Examples and labels: x [n, ...] uint8 (pixels, read as x / 255) or float32 (read as it is); y int32 [n]."""

    x: Array
    y: Array

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"x has {len(self.x)} examples and y {len(self.y)} labels")
        if self.x.dtype not in (np.uint8, np.float32) or self.y.dtype != np.int32:
            raise ValueError(f"x must be uint8 or float32 and y int32, not {self.x.dtype} and {self.y.dtype}")

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a table and its values start..stop-1 in a row: a number has one, a category one per level."""

    name: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Three splits and public facts.

    `validation` is a split held out of training for choosing settings (None where the paper has none);
    `test` is what accuracies are reported on. `own` marks a user's own data, for which noise is secret by
    default and true records are not shown. `notes` are sentences for the user (missing values, scaling). `features`
    says which values of a table row belong together; empty for images. `caveats` are sentences that come first in every
    guarantee of a model trained on it: what was taken from the records without noise. Empty where scaling and classes
    are public constants. `features_sha256` names the fixed features that stand in place of the examples, empty for the
    examples themselves. `schema` says how the rows of a table became features, where one was given; new rows are
    encoded by it. `fitted` is the schema that the private rows gave where none was given.
    """

    name: str
    train: Split
    validation: Split | None
    test: Split
    classes: tuple[str, ...]
    own: bool = False
    notes: tuple[str, ...] = ()
    features: tuple[Feature, ...] = ()
    caveats: tuple[str, ...] = ()
    features_sha256: str = ""
    schema: Schema | None = None
    fitted: Schema | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one example: (height, width, channels) for images, (features,) for tables."""
        return tuple(self.train.x.shape[1:])

    @property
    def is_image(self) -> bool:
        """Whether one example has height, width and channels."""
        return len(self.shape) == 3

    def majority_baseline(self) -> float:
        """Return the test accuracy of always predicting the majority class of the training split."""
        counts = np.bincount(self.train.y, minlength=len(self.classes))
        return float(np.mean(self.test.y == np.argmax(counts)))

    def digest(self) -> str:
        """Return the SHA-256 over all splits, by which a run folder identifies its data."""
        running = hashlib.sha256()
        for split in (self.train, self.validation, self.test):
            for array in (split.x, split.y) if split is not None else ():
                running.update(str((array.dtype.str, array.shape)).encode())
                running.update(np.ascontiguousarray(array).data)
        return running.hexdigest()


def readable(x: Any) -> Any:
    """Return stored examples (NumPy or JAX) as a model reads them: bytes become x / 255, numbers stay."""
    return x.astype(np.float32) / np.float32(255) if x.dtype == np.uint8 else x
