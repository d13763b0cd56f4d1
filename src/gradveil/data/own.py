"""A user's own data: a CSV file with a target column, an .npz file with x and y, or a folder of images by class."""

import math
import os
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from gradveil.data import own_csv, own_images
from gradveil.data.dataset import Array, Dataset
from gradveil.data.split import part, quarter
from gradveil.errors import BadInput

FEWEST = 10
_LARGEST = 4 * 2**30
_UNREADABLE = (OSError, ValueError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)

CLASS_NOTE = "the list of classes is taken from the data, and no epsilon covers it"


def load(path: Path, target: str | None) -> Dataset:
    """Read the data at `path`, a quarter of it held out for testing by a fixed shuffle, class by class.

    Guarantees: scaling and categories are learned from the training rows alone; a sentence in `notes` says what
    was taken from the data without being covered by any epsilon.
    """
    if not os.path.exists(path):
        raise BadInput(f"{path} does not exist")
    kind = "folder" if path.is_dir() else path.suffix.lower()
    if kind not in ("folder", ".csv", ".npz"):
        raise BadInput(f"{path} is neither a .csv file, an .npz file nor a folder of images by class")
    if kind == ".csv":
        return _csv(path, target)
    if target is not None:
        raise BadInput(f"a target column is only for a CSV file, and {path} is not one: leave it out")
    x, labels, notes = own_images.read(path) if kind == "folder" else _npz(path)
    y, classes = number(labels, str(path))
    return _dataset(path, x, y, classes, notes)


def _csv(path: Path, target: str | None) -> Dataset:
    table = own_csv.read(path, target)
    y, classes = number(table.labels, str(path))
    x, features, notes = own_csv.encode(table, quarter(y)[0])
    return replace(_dataset(path, x, y, classes, notes), features=features)


def _dataset(path: Path, x: Array, y: Array, classes: tuple[str, ...], notes: tuple[str, ...]) -> Dataset:
    train, test = (part(x, y, records) for records in quarter(y))
    return Dataset(path.resolve().name, train, None, test, classes, own=True, notes=(*notes, CLASS_NOTE))


def number(labels: Sequence[str], place: str) -> tuple[Array, tuple[str, ...]]:
    """Number the classes in their natural order: y int32 [n] and the names.

    Refused: fewer than 10 records, one class only, or more classes than half the records (a quantity, not a class).
    """
    if len(labels) < FEWEST:
        raise BadInput(f"{place} has {len(labels)} labelled records, and at least {FEWEST} are needed")
    classes = tuple(sorted(set(labels), key=_natural))
    if len(classes) == 1:
        raise BadInput(f"{place} has one class only ({classes[0]!r}), and at least two are needed")
    if len(classes) > len(labels) // 2:
        raise BadInput(
            f"{place} has {len(classes)} different labels in {len(labels)} records: the target must be a class, "
            "not a quantity or a name of each record"
        )
    place_of = {label: i for i, label in enumerate(classes)}
    return np.array([place_of[label] for label in labels], dtype=np.int32), classes


def _natural(label: str) -> tuple[bool, float, str]:
    # Numbers come first and by size, so that "10" follows "9".
    value = own_csv.as_number(label)
    return math.isnan(value), 0.0 if math.isnan(value) else value, label


def _npz(path: Path) -> tuple[Array, list[str], tuple[str, ...]]:
    """Read x [n, ...] (floats, or uint8 pixels) and y [n] (integers or text); nothing pickled is ever opened."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(member.file_size for member in archive.infolist())
        if size > _LARGEST:
            raise BadInput(f"{path} unpacks to {size} bytes, and at most {_LARGEST} can be read")
        with np.load(path, allow_pickle=False) as arrays:
            names = list(arrays)
            if "x" not in names or "y" not in names:
                raise BadInput(f"{path} must hold arrays named x and y, and holds {', '.join(names) or 'none'}")
            x, y = arrays["x"], arrays["y"]
    except BadInput:
        raise
    except _UNREADABLE as error:
        raise BadInput(f"{path} cannot be read as an .npz file of plain arrays") from error
    return _examples(x, path), _labels(y, len(x) if x.ndim else 0, path), _npz_notes(x)


def _examples(x: Array, path: Path) -> Array:
    if x.dtype != np.uint8 and not np.issubdtype(x.dtype, np.floating):
        raise BadInput(f"x in {path} must be uint8 pixels or floating-point numbers, not {x.dtype}")
    if x.ndim not in (2, 3, 4) or 0 in x.shape[1:]:
        raise BadInput(f"x in {path} must have the shape [n, features] or [n, height, width, channels], not {x.shape}")
    with np.errstate(over="ignore"):
        ready = x if x.dtype == np.uint8 else x.astype(np.float32)
    if ready.dtype == np.float32 and not np.isfinite(ready).all():
        first = int(np.flatnonzero(~np.isfinite(ready.reshape(len(ready), -1)).all(axis=1))[0])
        raise BadInput(f"x in {path} has a value that is not a finite number, first in record {first}")
    return ready[..., None] if ready.ndim == 3 else ready


def _labels(y: Array, records: int, path: Path) -> list[str]:
    if y.dtype.kind not in "iubU":
        raise BadInput(f"y in {path} must be integers or text, not {y.dtype}")
    if y.shape != (records,):
        raise BadInput(f"y in {path} must have one label for each of the {records} records, not the shape {y.shape}")
    return [str(label) for label in y.tolist()]


def _npz_notes(x: Array) -> tuple[str, ...]:
    if x.dtype == np.uint8:
        return ("x is read as pixels, divided by 255",)
    return ("x is used as it is, without scaling",)
