"""A user's own data: a CSV file with a target column, an .npz file with x and y, or a folder of images by class."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gradveil.data import user_csv, user_encoding, user_images, user_npz
from gradveil.data.dataset import UNCOVERED, Array, Dataset, Split
from gradveil.data.split import part, quarter
from gradveil.data.table_schema import ClassTarget, Schema
from gradveil.data.user_csv import Progress
from gradveil.errors import BadInput

MINIMUM_RECORDS = 10
_READING = 0.4
"""The fraction of the time for a CSV file that goes into reading it; the rest is encoding."""

CLASS_NOTE = "the list of classes is taken from the data, and no epsilon covers it"
ENCODED = f"The encoding (scaling, categories, classes) and the choice of test rows {UNCOVERED}"
DIVIDED = f"The list of classes and the choice of test records {UNCOVERED}"


def load(path: Path, target: str | None, progress: Progress = lambda share: None) -> Dataset:
    """Read the data at `path`, a quarter of it held out for testing by a fixed shuffle, class by class.

    `progress` is called with the fraction that is done. Guarantees: scaling and categories are learned from the
    training rows alone; `caveats` says what was taken from the data without being covered by any epsilon. Anything that
    is neither a file nor a folder is refused without waiting.
    """
    kind = _kind(path)
    if kind == ".csv":
        return _csv(path, target, progress)
    if target is not None:
        raise BadInput(f"--target is only for CSV files; {path} is not one, so leave it out")
    x, labels, notes = user_images.read(path) if kind == "folder" else user_npz.read(path)
    y, classes = number(labels, str(path))
    train, test = (part(x, y, records) for records in quarter(y))
    notes = (*notes, CLASS_NOTE)
    return Dataset(path.resolve().name, train, None, test, classes, own=True, notes=notes, caveats=(DIVIDED,))


def _kind(path: Path) -> str:
    """Return "folder", ".csv" or ".npz". A pipe is refused before it is opened, since reading it could block."""
    if not os.path.exists(path):
        raise BadInput(f"{path} does not exist")
    ending = path.suffix.lower()
    if path.is_dir():
        if ending in (".csv", ".npz"):
            raise BadInput(f"{path} is a folder; a name ending in {ending} must be a file")
        return "folder"
    if not path.is_file():
        raise BadInput(f"{path} is a pipe, a socket or a device; data is read only from files and folders")
    if ending not in (".csv", ".npz"):
        raise BadInput(f"{path} is neither a .csv file, an .npz file nor a folder of images by class")
    return ending


def _csv(path: Path, target: str | None, progress: Progress) -> Dataset:
    table = user_csv.read(path, target, lambda share: progress(_READING * share))
    y, classes = number(table.labels, str(path))
    train, test = quarter(y)
    encoded = user_encoding.encode(table, train, test, lambda share: progress(_READING + (1 - _READING) * share))
    x, features, notes, columns = encoded
    return Dataset(
        path.resolve().name,
        Split(x[: len(train)], y[train]),
        None,
        Split(x[len(train) :], y[test]),
        classes,
        own=True,
        notes=(*notes, CLASS_NOTE),
        features=features,
        caveats=(ENCODED,),
        fitted=Schema(ClassTarget(str(target), classes), columns),
    )


def number(labels: Sequence[str], name: str) -> tuple[Array, tuple[str, ...]]:
    """Number the classes in their natural order: y int32 [n] and the names.

    Refused: fewer than 10 records, one class only, or more classes than half the records (a quantity, not a class).
    """
    if len(labels) < MINIMUM_RECORDS:
        raise BadInput(f"{name} has {len(labels)} labelled records, and at least {MINIMUM_RECORDS} are needed")
    classes = tuple(sorted(set(labels), key=_natural))
    if len(classes) == 1:
        raise BadInput(f"{name} has one class only ({classes[0]!r}), and at least two are needed")
    if len(classes) > len(labels) // 2:
        raise BadInput(
            f"{name} has {len(classes)} different labels in {len(labels)} records: the target must be a class, "
            "not a quantity or an identifier of each record"
        )
    index_of = {label: i for i, label in enumerate(classes)}
    return np.array([index_of[label] for label in labels], dtype=np.int32), classes


def _natural(label: str) -> tuple[bool, float, str]:
    # Numbers come first and by size, so that "10" follows "9".
    value = user_csv.as_number(label)
    return math.isnan(value), 0.0 if math.isnan(value) else value, label
