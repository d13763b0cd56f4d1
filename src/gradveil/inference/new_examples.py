"""New examples from a file: arrays as they are, rows of a table encoded as those of the run were."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.data.arrow_table import ENDINGS, frame_table, read_whole_arrow
from gradveil.data.natural_clients import without
from gradveil.data.schema_encoding import encode
from gradveil.data.table_schema import Schema
from gradveil.data.user_csv import read_whole
from gradveil.errors import BadInput
from gradveil.inference.examples import Array, array_of
from gradveil.runs.store import EncodingRecord

_UNREADABLE = (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def read_new(path: Path, encoding: EncodingRecord, client_column: str | None = None) -> Array:
    """Return the examples [n, ...] of a file; a large .npy file is read from the disk only where it is used.

    client_column: a column of the run's table that named clients, which need not be there.
    """
    if not path.is_file():
        raise BadInput(f"{str(path)!r}: {'is not a file' if path.exists() else 'does not exist'}")
    ending, table = path.suffix.lower(), encoding.table
    if table is not None and ending in (".csv", *ENDINGS):
        return encoded(read_whole(path) if ending == ".csv" else read_whole_arrow(path), table, client_column)
    if ending not in (".npy", ".npz"):
        rows = "a .csv or .parquet file with the columns of the run, " if table is not None else ""
        raise BadInput(f"{str(path)!r}: new examples of this run come from {rows}a .npy file, or an .npz file with x")
    return array_of(_array(path), encoding.shape)


def from_frame(frame: Any, encoding: EncodingRecord, client_column: str | None) -> Array:
    """Return the examples of a frame's rows."""
    if encoding.table is None:
        raise BadInput("x: this run was trained on arrays, so it takes an array, and no frame with columns")
    return encoded(frame_table(frame, "x"), encoding.table, client_column)


def encoded(table: Any, schema: Schema, client_column: str | None) -> Array:
    """Return the rows of a table as the run's schema has them, each by itself."""
    known = {column.name for column in schema.columns}
    return encode(schema, table if client_column in known else without(table, client_column), by="the run")


def _array(path: Path) -> Any:
    """Return the array of a file of plain numbers; pickles are never opened."""
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            return loaded
        with loaded:
            if "x" not in loaded:
                raise BadInput(f"{str(path)!r}: must hold an array named x, and holds {', '.join(loaded) or 'none'}")
            return loaded["x"]
    except BadInput:
        raise
    except _UNREADABLE:
        raise BadInput(f"{str(path)!r}: cannot be read as an array of numbers") from None
