"""A user's file as a dataset, encoded by a schema: by public facts only, if the schema says that it is public."""

from pathlib import Path
from typing import Any

from gradveil.data import arrow_table, user_csv
from gradveil.data.table_rows import rows_of
from gradveil.data.table_schema import Schema
from gradveil.data.user_columns import TextTable
from gradveil.data.user_csv import Progress
from gradveil.data.user_data import TABLES, kind
from gradveil.errors import BadInput

_READING = 0.4
"""The fraction of the time for a file that goes into reading it; the rest is encoding."""


def fields_of(
    path: Path,
    schema: Schema,
    target: str | None = None,
    client_column: str | None = None,
    test: Path | None = None,
    progress: Progress = lambda share: None,
    validation: Path | None = None,
) -> dict[str, Any]:
    """Return the fields of the dataset of a table that a schema encodes.

    target: must be the schema's own where it is given. client_column: names each row's client. test: a table of rows to
    test on; by default a quarter of the rows is held out, chosen by their places. validation: a table of rows to stop
    by.
    """
    if target is not None and target != schema.target.name:
        raise BadInput(f"target = {target!r}: the schema predicts {schema.target.name!r}")
    if kind(path) not in TABLES:
        raise BadInput(f"schema: is only for tables; {path} is none, so leave it out")
    table = read_table(path, lambda share: progress(_READING * share))
    held_out, stopping = (None if other is None else read_table(other) for other in (test, validation))
    fields = rows_of(
        table,
        schema,
        held_out,
        validation=stopping,
        client_column=client_column,
        progress=lambda share: progress(_READING + (1 - _READING) * share),
    )
    return {"name": path.resolve().name} | fields


def read_table(path: Path, progress: Progress = lambda share: None) -> TextTable:
    """Read a table with all its columns and rows: a CSV, Parquet or Arrow file."""
    ending = kind(path)
    if ending not in TABLES:
        raise BadInput(f"{path} is no table: a {', '.join(TABLES[:-1])} or {TABLES[-1]} file is expected")
    return user_csv.read_whole(path, progress) if ending == ".csv" else arrow_table.read_whole_arrow(path)
