"""Data that is in memory already: arrays, frames of pandas, polars or pyarrow, and datasets of torch."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.data import arrow_table
from gradveil.data.arrow_table import ArrowTable
from gradveil.data.class_names import number
from gradveil.data.given_options import classes_of, column_of, range_of, refuse, schema_of
from gradveil.data.held_out import validated
from gradveil.data.in_files import arrays_of, given_fields, given_path
from gradveil.data.natural_clients import SIZES, numbered, refuse_one, refuse_target
from gradveil.data.records import UNCOVERED, Array
from gradveil.data.schema_draft import drafted
from gradveil.data.split import part, quarter, quarter_by_place
from gradveil.data.table_rows import rows_of
from gradveil.data.table_schema import Schema
from gradveil.data.user_npz import alike, examples_of, joined, labels_of, notes_on
from gradveil.errors import BadInput, quoted
from gradveil.fields import scalar

PREFIX = "memory:"
"""How the name of every dataset begins that is in memory and cannot be loaded by its name."""
DIVIDED = f"The list of classes and the choice of test records {UNCOVERED}"
LISTED = f"The list of classes {UNCOVERED}"
SPLIT = f"The choice of test records {UNCOVERED}"
_TARGET = "target"


def fields_of(
    x: Any,
    y: Any = None,
    *,
    test: Any = None,
    schema: Schema | str | Path | None = None,
    clients: Any = None,
    classes: Sequence[str] | None = None,
    name: str | None = None,
    validation: float | None = None,
    target_range: tuple[float, float] | None = None,
    target: str | None = None,
) -> dict[str, Any]:
    """Return the fields of the dataset of what is in memory, or in a file whose path is x.

    test: held-out records in the form of x, as (x, y) or, for frames with the target in them, as a frame, or the path
    of a file where x is one; a quarter of x by default. schema: how the columns of a frame become features, or its
    path; a draft from its rows by default, with a caveat. A table in a file is read as `gradveil.dataset` reads it.
    clients: the client of each row, or the column that names it. classes: all classes, as a public fact. target: the
    column to predict, as y. validation: the fraction of the training rows that is held out to decide when to stop.
    target_range: (low, high) of a number to predict, as a public fact: y holds numbers then, which are clipped to it.
    Guarantees: `caveats` says what was taken from the records; nothing, with `classes` and `test`, or a public schema.
    """
    y, by, path = column_of(y, target), schema_of(schema), given_path(x)
    usual = "data" if path is None else path.resolve().name
    named = scalar(str, usual if name is None else name, "name")
    if path is not None and path.suffix.lower() != ".npz":
        refuse("is said by the schema of a table, and by the names in a folder", classes=classes)
        refuse("is said by the schema of a table", target_range=target_range)
        fields = given_fields(path, y, by, clients, test)
        refuse_one(fields.get("client_names", ()))
    elif arrow_table.is_frame(x):
        refuse("is said by the schema for a frame", classes=classes, target_range=target_range)
        fields = _of_frame(x, y, test, by, clients)
    else:
        refuse("names columns, so x must be a frame of pandas, polars or pyarrow, or the path of a table", schema=by)
        arrays, tested = _arrays(x, y, target, test, path)
        if target_range is None:
            fields = _of_arrays(arrays, tested, clients, None if classes is None else classes_of(classes))
        else:
            fields = _of_numbers(arrays, tested, clients, range_of(target_range))
    fraction = None if validation is None else scalar(float, validation, "validation")
    moved = validated(fields["train"], fields.get("owners"), fields.get("client_names", ()), fraction)
    return fields | {"name": PREFIX + named} | moved


def _arrays(
    x: Any, y: Any, target: str | None, test: Any, path: Path | None
) -> tuple[tuple[Array, Array], tuple[Array, Array] | None]:
    """Return examples and labels to train on, and those to test on, from memory or from an .npz file."""
    if target is not None:
        raise BadInput(f"target = {quoted(target)}: names a column, so x must be a frame, or the path of a table")
    if path is None:
        return _pair(x, y, "x"), None if test is None else _tested(test)
    if y is not None:
        raise BadInput(f"y: is in the file {path}; leave it out")
    arrays, tested = arrays_of(path, test)
    return arrays, None if tested is None else _tested(tested)


def _tested(test: Any) -> tuple[Array, Array]:
    if not isinstance(test, tuple | list):
        return _pair(test, None, "test")
    if len(test) != 2:
        raise BadInput("test: a pair of examples and labels is expected")
    return _pair(test[0], test[1], "test")


def _of_arrays(
    arrays: tuple[Array, Array], tested: tuple[Array, Array] | None, clients: Any, classes: tuple[str, ...] | None
) -> dict[str, Any]:
    if tested is None:
        x = examples_of(arrays[0], "memory")
        labels, notes = labels_of(arrays[1], len(x), "memory"), notes_on(x)
    else:
        x, labels, notes, mask = joined(arrays, tested, "memory")
    y, names = number(labels, "y") if classes is None else _known(labels, classes)
    train, test = quarter(y) if tested is None else (np.flatnonzero(~mask), np.flatnonzero(mask))
    owners, client_names = (None, ()) if clients is None else numbered(clients, len(arrays[1]), train)
    refuse_one(client_names)
    taken = {(True, True): DIVIDED, (True, False): LISTED, (False, True): SPLIT}
    caveat = taken.get((classes is None, tested is None))
    return {
        "train": part(x, y, train),
        "validation": None,
        "test": part(x, y, test),
        "classes": names,
        "own": True,
        "notes": notes,
        "caveats": (*[caveat] * (caveat is not None), *[SIZES] * (owners is not None)),
        "owners": owners,
        "client_names": client_names,
    }


def _of_numbers(
    arrays: tuple[Array, Array], tested: tuple[Array, Array] | None, clients: Any, target_range: tuple[float, float]
) -> dict[str, Any]:
    """Return the fields of arrays whose labels are numbers; which are tested on depends on their places alone."""
    low, high = target_range
    x, y = examples_of(arrays[0], "memory"), _numbers(arrays[1], len(arrays[0]), low, high)
    train, test = quarter_by_place(len(y)) if tested is None else (np.arange(len(y)), np.arange(0))
    split, held_out = part(x, y, train), part(x, y, test)
    if tested is not None:
        values = _numbers(tested[1], len(tested[0]), low, high)
        held_out = part(examples_of(tested[0], "memory"), values, np.arange(len(values)))
    alike(split.x, held_out.x, "memory")
    owners, names = (None, ()) if clients is None else numbered(clients, len(y), train)
    return {
        "train": split,
        "validation": None,
        "test": held_out,
        "classes": (_TARGET,),
        "own": True,
        "notes": notes_on(x),
        "caveats": (*[SIZES] * (owners is not None),),
        "owners": owners,
        "client_names": names,
        "target_range": (low, high),
    }


def _numbers(labels: Array, count: int, low: float, high: float) -> Array:
    """Return labels as float32 with low at -1 and high at 1, clipped; BadInput if they are no finite numbers."""
    labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.dtype.kind not in "fiub" or labels.shape != (count,) or not np.isfinite(labels.astype(float)).all():
        raise BadInput(f"y: a finite number for each of {count} examples is expected")
    scaled: Array = ((np.clip(labels.astype(float), low, high) - low) / (high - low) * 2 - 1).astype(np.float32)
    return scaled


def _known(labels: list[str], classes: tuple[str, ...]) -> tuple[Array, tuple[str, ...]]:
    """Number labels by a list of classes; numbers below their count may stand for them."""
    by_class = {name: i for i, name in enumerate(classes)}
    numbers = {str(i): i for i in range(len(classes))} | by_class
    if len(by_class) < max(2, len(classes)):
        raise BadInput(f"classes = {quoted(classes)}: at least two are expected, each once")
    unknown = next((label for label in labels if label not in numbers), None)
    if unknown is not None:
        raise BadInput(f"y: {quoted(unknown)} is no class of {quoted(classes)}")
    return np.array([numbers[label] for label in labels], np.int32), classes


def _of_frame(frame: Any, y: Any, test: Any, schema: Schema | None, clients: Any) -> dict[str, Any]:
    table, target = _with_target(frame, y, schema, "the frame")
    column = clients if isinstance(clients, str) else None
    refuse_target(column, target)
    table_schema = schema or drafted(_only(table, column), target)
    tested = None
    if test is not None:
        pair = test if isinstance(test, tuple | list) else (test, None if y is None or isinstance(y, str) else ())
        tested, _ = _with_target(pair[0], y if pair[1] is None else pair[1], table_schema, "the test frame")
    owners = None if isinstance(clients, str) or clients is None else np.asarray(clients)
    fields = rows_of(table, table_schema, tested, client_column=column, owners=owners)
    refuse_one(fields["client_names"])
    return fields


def _only(table: ArrowTable, column: str | None) -> ArrowTable:
    columns = {name: texts for name, texts in table.columns.items() if name != column}
    return ArrowTable(table.path, columns, table.labels, table.records, table.notes)


def _with_target(frame: Any, y: Any, schema: Schema | None, name: str) -> tuple[ArrowTable, str]:
    """Return a frame with its target as one of its columns, and the name of that column."""
    if not arrow_table.is_frame(frame):
        raise BadInput(f"{name} = {quoted(frame)}: a frame of pandas, polars or pyarrow is expected")
    table = arrow_table.frame_table(frame, name)
    if y is None or isinstance(y, str):
        target = y if isinstance(y, str) else None if schema is None else schema.target.name
        if target is None or target not in table.columns:
            raise BadInput(f"y = {quoted(y)}: must be labels, or a column of {name}: {', '.join(table.columns)}")
        return table, target
    import pyarrow as pa

    target = _free(table) if schema is None else schema.target.name
    if target in table.columns:
        raise BadInput(
            f"y: {name} has a column {target!r} of its own, which the schema predicts; leave one of them out"
        )
    labels = np.asarray(y)
    texts = _number_texts if labels.dtype.kind == "f" else labels_of
    columns = table.columns | {
        target: pa.chunked_array([pa.array(texts(labels, len(table.records), name), pa.string())])
    }
    return ArrowTable(name, columns, [], table.records, ()), target


def _number_texts(y: Array, records: int, name: str) -> list[str]:
    """Return numbers as a column of them reads: "nan" for a missing one."""
    if y.shape != (records,):
        raise BadInput(f"y in {name} must have one number for each of the {records} records, not the shape {y.shape}")
    return [f"{value:.17g}" for value in y.tolist()]


def _free(table: ArrowTable) -> str:
    """Return a name for the target that no column has."""
    name = _TARGET
    while name in table.columns:
        name += "_"
    return name


def _pair(x: Any, y: Any, name: str) -> tuple[Array, Array]:
    """Return examples and labels as arrays; a dataset that yields (example, label) is gone through."""
    if y is None:
        listed = hasattr(x, "__len__") and hasattr(x, "__getitem__")
        if isinstance(x, np.ndarray | str) or not (listed or hasattr(x, "__iter__")):
            raise BadInput(f"{name} = {quoted(x)}: labels y are missing")
        x, y = _gone_through(x, name)
    try:
        return np.asarray(x), np.asarray(y)
    except (ValueError, TypeError):
        raise BadInput(f"{name}: examples of one shape are expected, and these have several") from None


def _gone_through(pairs: Any, name: str) -> tuple[Array, Array]:
    try:
        listed = hasattr(pairs, "__len__") and hasattr(pairs, "__getitem__")
        items = [pairs[i] for i in range(len(pairs))] if listed else list(pairs)
        examples, labels = zip(*((np.asarray(one), np.asarray(label)) for one, label in items), strict=True)
        return np.stack(examples), np.stack(labels)
    except (TypeError, ValueError, RuntimeError):  # the last from tensors that are not on this machine's memory
        raise BadInput(f"{name}: pairs of an example and its label are expected, examples all of one shape") from None
