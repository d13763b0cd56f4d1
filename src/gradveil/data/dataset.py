"""A dataset: its splits, and public facts about it."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradveil.data import in_memory
from gradveil.data.records import UNCOVERED, Array, Feature, Split, readable
from gradveil.data.table_schema import Schema

__all__ = ["UNCOVERED", "Array", "Dataset", "Feature", "Split", "readable"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Dataset:
    """Three splits and public facts.

    `validation` is a split held out of training for choosing settings (None where the paper has none);
    `test` is what accuracies are reported on. `own` marks a user's own data, for which noise is secret by
    default and true records are not shown. `notes` are sentences for the user (missing values, scaling). `features`
    says which values of a table row belong together; empty for images. `caveats` are sentences that come first in every
    guarantee of a model trained on it: what was taken from the records without noise. Empty where scaling and classes
    are public constants. `features_sha256` names the fixed features that stand in place of the examples, empty for the
    examples themselves. `schema` says how the rows of a table became features, where one was given; new rows are
    encoded by it. `fitted` is the schema that the private rows gave where none was given. `owners` is the number of the
    client that each training row belongs to, int32 [n], where the data say so; `client_names` names the clients.
    `target_range` is (low, high) where a number is to be predicted: labels are float32, low is -1 and high is 1, and
    the one class is the target's name.
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
    owners: Array | None = None
    client_names: tuple[str, ...] = ()
    target_range: tuple[float, float] | None = None

    @staticmethod
    def of(x: Any, y: Any = None, **options: Any) -> "Dataset":
        """Make a dataset of what is in memory or in a file; see `gradveil.data.in_memory.fields_of` for the options.

        x: an array [n, ...], a frame of pandas, polars or pyarrow, a torch Dataset of (example, label), or the path of
        an .npz file, a table or a folder of images. y: labels [n], or the column of the frame or table to predict.

        >>> Dataset.of(np.eye(20, dtype=np.float32), [0, 1] * 10, classes=("no", "yes")).shape
        (20,)
        """
        return Dataset(**in_memory.fields_of(x, y, **options))

    def __repr__(self) -> str:
        sizes = f"{len(self.train)} to train on, {len(self.test)} to test on"
        predicted = f"{len(self.classes)} classes" if self.target_range is None else f"the number {self.classes[0]}"
        return f"Dataset({self.name}: {sizes}, of shape {self.shape}, {predicted})"

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

    @property
    def unit(self) -> float:
        """What 1 in the labels is in the units of a number that is predicted."""
        low, high = self.target_range or (-1.0, 1.0)
        return (high - low) / 2

    def mean_baseline(self) -> float:
        """Return the RMSE on the test split of always predicting the mean of the training split."""
        return self.unit * float(np.sqrt(np.mean(np.square(self.test.y - np.mean(self.train.y)))))

    def digest(self) -> str:
        """Return the SHA-256 over all splits and who owns which row, by which a run folder identifies its data."""
        running = hashlib.sha256()
        for split in (self.train, self.validation, self.test):
            for array in (split.x, split.y) if split is not None else ():
                running.update(str((array.dtype.str, array.shape)).encode())
                running.update(np.ascontiguousarray(array).data)
        if self.owners is not None:
            running.update(self.owners.tobytes())
        return running.hexdigest()
