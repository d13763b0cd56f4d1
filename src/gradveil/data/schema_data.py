"""A user's table as a dataset, encoded by a schema: by public facts only, if the schema says that it is public."""

from pathlib import Path

import numpy as np

from gradveil.data import user_csv
from gradveil.data.dataset import UNCOVERED, Dataset, Split
from gradveil.data.schema_encoding import encode, spans, targets
from gradveil.data.split import quarter_by_place
from gradveil.data.table_schema import NumberTarget, Schema
from gradveil.data.user_columns import TextTable
from gradveil.data.user_csv import Progress
from gradveil.data.user_data import MINIMUM_RECORDS
from gradveil.errors import BadInput

NOT_PUBLIC = f"Ranges, levels or classes of the schema, which does not say that it is public, {UNCOVERED}"
SCHEMA_NOTE = "rows are encoded by a schema, each by itself; numbers beyond its ranges are clipped to them"
_READING = 0.4
"""The fraction of the time for a file that goes into reading it; the rest is encoding."""


def load(path: Path, schema: Schema, target: str | None = None, progress: Progress = lambda share: None) -> Dataset:
    """Read a table and encode it by a schema; a quarter of its rows, chosen by their places, is held out for testing.

    target: must be the schema's own where it is given. Guarantees: what becomes of a row depends on that row, its place
    and the number of rows; so with a public schema `caveats` is empty.
    """
    if path.suffix.lower() != ".csv":
        raise BadInput(f"schema: is only for tables; {path} is none, so leave it out")
    if not path.is_file():
        raise BadInput(f"{path} does not exist or is no file")
    table = user_csv.read_whole(path, lambda share: progress(_READING * share))
    return dataset_of(table, schema, path.resolve().name, target, lambda s: progress(_READING + (1 - _READING) * s))


def dataset_of(
    table: TextTable,
    schema: Schema,
    name: str,
    target: str | None = None,
    progress: Progress = lambda share: None,
) -> Dataset:
    """Return the dataset of a table that is read already."""
    _refuse_target(schema, target)
    x, (y, known) = encode(schema, table, progress), targets(schema, table)
    if known.sum() < MINIMUM_RECORDS:
        raise BadInput(f"{table.path} has {known.sum()} labelled records, and at least {MINIMUM_RECORDS} are needed")
    train, test = (rows[known[rows]] for rows in quarter_by_place(len(y)))
    if not len(test):
        raise BadInput(f"{table.path}: none of the rows held out for testing has a value of {schema.target.name!r}")
    left_out = int(np.sum(~known))
    return Dataset(
        name,
        Split(x[train], y[train]),
        None,
        Split(x[test], y[test]),
        schema.classes,
        own=True,
        notes=(
            SCHEMA_NOTE,
            *[f"{left_out} rows without a value of {schema.target.name!r} are left out"] * (left_out > 0),
        ),
        features=spans(schema),
        caveats=() if schema.public else (NOT_PUBLIC,),
        schema=schema,
    )


def _refuse_target(schema: Schema, target: str | None) -> None:
    if target is not None and target != schema.target.name:
        raise BadInput(f"target = {target!r}: the schema predicts {schema.target.name!r}")
    if isinstance(schema.target, NumberTarget):
        raise BadInput(f"schema: its target {schema.target.name!r} is a number, and only classes can be trained so far")
