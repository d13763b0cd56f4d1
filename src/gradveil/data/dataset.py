"""A dataset: its splits, and public facts about it."""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradveil.data import in_memory
from gradveil.data.records import UNCOVERED, Array, Feature, Split, readable
from gradveil.data.table_schema import Schema
from gradveil.errors import BadInput, quoted
from gradveil.fields import MOST_REAL

__all__ = ["UNCOVERED", "Array", "Dataset", "Feature", "Split", "examples_of", "readable"]


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
    encoded by it. `owners` is the number of the client that each training row belongs to, int32 [n], where the data
    say so; `client_names` names the clients.
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
    owners: Array | None = None
    client_names: tuple[str, ...] = ()

    @staticmethod
    def of(x: Any, y: Any = None, **options: Any) -> "Dataset":
        """Make a dataset of what is in memory; see `gradveil.data.in_memory.fields_of` for the options.

        x: an array [n, ...], a frame of pandas, polars or pyarrow, or a torch Dataset of (example, label). y: labels
        [n], or the column of the frame to predict.

        >>> Dataset.of(np.eye(20, dtype=np.float32), [0, 1] * 10, classes=("no", "yes")).shape
        (20,)
        """
        return Dataset(**in_memory.fields_of(x, y, **options))

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
        """Return the SHA-256 over all splits and who owns which row, by which a run folder identifies its data."""
        running = hashlib.sha256()
        for split in (self.train, self.validation, self.test):
            for array in (split.x, split.y) if split is not None else ():
                running.update(str((array.dtype.str, array.shape)).encode())
                running.update(np.ascontiguousarray(array).data)
        if self.owners is not None:
            running.update(self.owners.tobytes())
        return running.hexdigest()


def examples_of(x: Any, shape: tuple[int, ...]) -> Array:
    """Return the user's examples [n, *shape] as an array; BadInput if they are none."""
    try:
        examples = np.asarray(x)
    except ValueError:
        raise BadInput("x: examples of one shape are expected, and these have several") from None
    if examples.dtype.kind not in "fuib":
        raise BadInput(f"x = {quoted(x)}: numbers are expected")
    if not examples.ndim or examples.shape[1:] != shape:
        raise BadInput(f"x: examples of shape {shape} are expected, not {examples.shape[1:]}")
    if not (np.abs(examples.astype(np.float64)) <= MOST_REAL).all():
        raise BadInput(f"x: finite numbers of at most {MOST_REAL:g} are expected")
    return examples
