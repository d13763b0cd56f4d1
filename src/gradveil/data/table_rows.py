"""The rows of a table as the fields of a dataset: encoded by a schema, divided into splits, and dealt to clients."""

from typing import Any

import numpy as np

from gradveil.data.class_names import MINIMUM_RECORDS
from gradveil.data.natural_clients import SIZES, client_texts, numbered, refuse_target, without
from gradveil.data.records import UNCOVERED, Array, Split
from gradveil.data.schema_encoding import encode, spans, targets
from gradveil.data.split import quarter_by_place
from gradveil.data.table_schema import NumberTarget, Schema
from gradveil.data.user_columns import TextTable
from gradveil.data.user_csv import Progress
from gradveil.errors import BadInput

NOT_PUBLIC = f"Ranges, levels or classes of the schema, which does not say that it is public, {UNCOVERED}"
SCHEMA_NOTE = "rows are encoded by a schema, each by itself; numbers beyond its ranges are clipped to them"


def rows_of(
    table: TextTable,
    schema: Schema,
    test: TextTable | None = None,
    *,
    validation: TextTable | None = None,
    client_column: str | None = None,
    owners: Array | None = None,
    progress: Progress = lambda share: None,
) -> dict[str, Any]:
    """Return all fields of a dataset but its name.

    test: a table of rows to test on; without one, a quarter of the rows is held out, chosen by their places.
    validation: a table of rows to stop by, none of which is trained on.
    client_column: the column that names each row's client, which becomes no feature; or owners, those names.
    Guarantees: what becomes of a row depends on that row, its place and the number of rows, so with a public schema
    `caveats` is empty.
    """
    target = schema.target
    refuse_target(client_column, target.name)
    x, y, known = _encoded(without(table, _unused(schema, client_column)), schema, progress)
    parts = (np.arange(len(y)), np.arange(0)) if test is not None else quarter_by_place(len(y))
    train = parts[0][known[parts[0]]]
    held_out = _part(x, y, parts[1][known[parts[1]]]) if test is None else _other(test, schema, client_column)
    if len(train) < MINIMUM_RECORDS or not len(held_out):
        raise BadInput(
            f"{table.path} has {len(train)} labelled rows to train on and {len(held_out)} to test on, and at least "
            f"{MINIMUM_RECORDS} and 1 are needed"
        )
    named = client_texts(table, client_column) if client_column is not None else owners
    numbers, names = (None, ()) if named is None else numbered(named, len(y), train)
    left_out = int(np.sum(~known))
    dropped = f"{left_out} rows without a value of {schema.target.name!r} are left out"
    return {
        "train": _part(x, y, train),
        "validation": None if validation is None else _other(validation, schema, client_column),
        "test": held_out,
        "classes": schema.classes or (target.name,),
        "target_range": (target.low, target.high) if isinstance(target, NumberTarget) else None,
        "own": True,
        "notes": (SCHEMA_NOTE, *[dropped] * (left_out > 0)),
        "features": spans(schema),
        "caveats": (*[NOT_PUBLIC] * (not schema.public), *[SIZES] * (numbers is not None)),
        "schema": schema,
        "owners": numbers,
        "client_names": names,
    }


def _encoded(table: TextTable, schema: Schema, progress: Progress) -> tuple[Array, Array, Array]:
    return encode(schema, table, progress), *targets(schema, table)


def _unused(schema: Schema, client_column: str | None) -> str | None:
    """Return the client's column if the schema does not name it: then it is no unknown column."""
    return None if client_column in {column.name for column in schema.columns} else client_column


def _other(table: TextTable, schema: Schema, client_column: str | None) -> Split:
    """Return the labelled rows of another table than the one that is trained on; BadInput if there is none."""
    x, y, known = _encoded(without(table, _unused(schema, client_column)), schema, lambda share: None)
    if not known.any():
        raise BadInput(f"{table.path} has no row with a value of {schema.target.name!r}")
    return _part(x, y, np.flatnonzero(known))


def _part(x: Array, y: Array, rows: Array) -> Split:
    return Split(x[rows], y[rows])
