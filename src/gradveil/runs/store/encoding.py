"""encoding.json of a run folder: how new examples must be given to the model, so that it can be used without its data.

The file is bound to the run: it holds the digest of data.json, with which the chain of the run begins.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from gradveil import codec
from gradveil.data.dataset import Dataset
from gradveil.data.table_schema import Schema
from gradveil.errors import BadInput
from gradveil.runs.store import files
from gradveil.runs.store.folder_records import DataRecord, read_record

ENCODING = "encoding.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingRecord:
    """What a model reads: examples of `shape`, before any features of the plan.

    pixels: whether they were stored as bytes, which are read as x / 255. data: the digest of data.json. table: how rows
    become examples, if the run was trained on a table of the user's own. target_range: (low, high) of a number that is
    predicted, which the model has as -1 and 1.
    """

    shape: tuple[int, ...]
    pixels: bool
    data: str
    table: Schema | None
    target_range: tuple[float, float] | None = field(default=None, metadata=codec.OPTIONAL)


def encoding_of(dataset: Dataset, data: DataRecord) -> EncodingRecord:
    """Return the record of a dataset whose examples are as its source gives them."""
    pixels, table = dataset.train.x.dtype == np.uint8, dataset.schema or dataset.fitted
    return EncodingRecord(
        shape=dataset.shape, pixels=pixels, data=_digest(data), table=table, target_range=dataset.target_range
    )


def write_encoding(folder: Path, record: EncodingRecord) -> None:
    """Write the file, readable by its owner alone: levels and scales may come from private rows."""
    table = None if record.table is None else codec.encode(record.table)
    files.write_sealed(folder / ENCODING, codec.record(replace(record, table=None)) | {"table": table}, owner_only=True)


def read_encoding(folder: Path, data: DataRecord) -> EncodingRecord:
    """Read the file; BadInput if it is missing, damaged or of another run."""
    path = folder / ENCODING
    if not files.exists(path):
        raise BadInput(f"{str(path)!r}: is missing, so new examples cannot be encoded as those of the run were")
    record = read_record(path, EncodingRecord)
    if record.data != _digest(data):
        raise BadInput(f"{str(path)!r}: belongs to another run")
    return record


def _digest(data: DataRecord) -> str:
    return files.digest(codec.record(data))
