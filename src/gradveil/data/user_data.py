"""A user's own data: a table with a target column, an .npz file of arrays, or a folder of images by class."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.data import arrow_table, user_csv, user_encoding, user_images, user_npz
from gradveil.data.arrow_table import ArrowTable
from gradveil.data.class_names import number
from gradveil.data.natural_clients import SIZES, client_texts, numbered, refuse_target, without
from gradveil.data.records import UNCOVERED, Split
from gradveil.data.split import part, quarter
from gradveil.data.table_schema import ClassTarget, Schema
from gradveil.data.user_csv import CsvTable, Progress
from gradveil.errors import BadInput

_READING = 0.4
"""The fraction of the time for a CSV file that goes into reading it; the rest is encoding."""

CLASS_NOTE = "the list of classes is taken from the data, and no epsilon covers it"
ENCODED = f"The encoding (scaling, categories, classes) and the choice of test rows {UNCOVERED}"
DIVIDED = f"The list of classes and the choice of test records {UNCOVERED}"
LISTED = f"The list of classes {UNCOVERED}"
TABLES = (".csv", *arrow_table.ENDINGS)
FILES = (*TABLES, ".npz")


def fields_of(
    path: Path, target: str | None, progress: Progress = lambda share: None, client_column: str | None = None
) -> dict[str, Any]:
    """Return the fields of the data at `path`, a quarter of it held out for testing by a fixed shuffle, by class.

    `progress` is called with the fraction that is done. `client_column` names the client of each row of a table.
    Guarantees: scaling and categories are learned from the training rows alone; `caveats` says what was taken from the
    data without being covered by any epsilon. Anything that is neither a file nor a folder is refused without waiting.
    """
    ending = kind(path)
    if ending in TABLES:
        return _table(path, target, progress, client_column)
    if client_column is not None:
        raise BadInput(f"client_column = {client_column!r}: is only for tables; {path} is not one, so leave it out")
    if target is not None:
        raise BadInput(f"--target is only for tables; {path} is not one, so leave it out")
    x, labels, notes, tested = (*user_images.read(path), None) if ending == "folder" else user_npz.read(path)
    y, classes = number(labels, str(path))
    parts = quarter(y) if tested is None else (np.flatnonzero(~tested), np.flatnonzero(tested))
    train, test = (part(x, y, records) for records in parts)
    caveat = DIVIDED if tested is None else LISTED
    notes = (*notes, CLASS_NOTE)
    name = path.resolve().name
    fields = {"name": name, "train": train, "validation": None, "test": test, "classes": classes}
    return fields | {"own": True, "notes": notes, "caveats": (caveat,)}


def kind(path: Path) -> str:
    """Return "folder" or the file's ending. A pipe is refused before it is opened, since reading it could block."""
    if not os.path.exists(path):
        raise BadInput(f"{path} does not exist")
    ending = path.suffix.lower()
    if path.is_dir():
        if ending in FILES:
            raise BadInput(f"{path} is a folder; a name ending in {ending} must be a file")
        return "folder"
    if not path.is_file():
        raise BadInput(f"{path} is a pipe, a socket or a device; data is read only from files and folders")
    if ending not in FILES:
        raise BadInput(f"{path} is neither a {', '.join(FILES)} file nor a folder of images by class")
    return ending


def _table(path: Path, target: str | None, progress: Progress, client_column: str | None) -> dict[str, Any]:
    refuse_target(client_column, target)
    table: CsvTable | ArrowTable
    if path.suffix.lower() == ".csv":
        table = user_csv.read(path, target, lambda share: progress(_READING * share))
    else:
        table = arrow_table.read_arrow(path, target)
    y, classes = number(table.labels, str(path))
    train, test = quarter(y)
    owners, names = (None, ()) if client_column is None else numbered(client_texts(table, client_column), len(y), train)
    table = without(table, client_column)
    encoded = user_encoding.encode(table, train, test, lambda share: progress(_READING + (1 - _READING) * share))
    x, features, notes, columns = encoded
    return {
        "name": path.resolve().name,
        "train": Split(x[: len(train)], y[train]),
        "validation": None,
        "test": Split(x[len(train) :], y[test]),
        "classes": classes,
        "own": True,
        "notes": (*notes, CLASS_NOTE),
        "features": features,
        "caveats": (ENCODED, *[SIZES] * (owners is not None)),
        "fitted": Schema(ClassTarget(str(target), classes), columns),
        "owners": owners,
        "client_names": names,
    }
