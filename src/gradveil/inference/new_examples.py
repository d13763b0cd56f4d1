"""New examples from a file: arrays as they are, rows of a table encoded as those of the run were."""

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.data.schema_encoding import encode
from gradveil.data.user_csv import read_whole
from gradveil.errors import BadInput
from gradveil.inference.examples import Array, array_of
from gradveil.runs.store import EncodingRecord

_UNREADABLE = (ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error)


def read_new(path: Path, encoding: EncodingRecord) -> Array:
    """Return the examples [n, ...] of a file; a large .npy file is read from the disk only where it is used."""
    if not path.is_file():
        raise BadInput(f"{str(path)!r}: {'is not a file' if path.exists() else 'does not exist'}")
    ending, table = path.suffix.lower(), encoding.table
    if ending == ".csv" and table is not None:
        return encode(table, read_whole(path))
    if ending not in (".npy", ".npz"):
        rows = "a .csv file with the columns of the run, " if table is not None else ""
        raise BadInput(f"{str(path)!r}: new examples of this run come from {rows}a .npy file, or an .npz file with x")
    return array_of(_array(path), encoding.shape)


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
