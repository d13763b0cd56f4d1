"""Tables that are not CSV: Parquet and Arrow files, and frames of pandas, polars or pyarrow, as columns of text."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.data.records import Array
from gradveil.data.user_csv import labelled
from gradveil.errors import BadInput, quoted

ENDINGS = (".parquet", ".arrow", ".feather")
"""Files that Arrow reads, by how their names end."""


@dataclass(frozen=True, slots=True, eq=False)
class ArrowTable:
    """Columns of text by name, and the rows that have a label, as `CsvTable` has them."""

    path: object
    columns: dict[str, Any]
    labels: list[str]
    records: Array
    notes: tuple[str, ...]

    def texts(self, name: str) -> Any:
        """Return a column at the labelled rows, as one Arrow array of text."""
        texts = self.columns[name].combine_chunks()
        return texts if len(self.records) == len(texts) else texts.take(self.records)

    def line(self, row: int) -> str:
        """Return where a row is, counted from 0: "row 11"."""
        return f"row {self.records[row]}"


def read_arrow(path: Path, target: str | None) -> ArrowTable:
    """Read a Parquet or Arrow file; `target` is the label's column."""
    whole = read_whole_arrow(path)
    return ArrowTable(path, *labelled(path, whole.columns, target))


def read_whole_arrow(path: Path) -> ArrowTable:
    """Read a Parquet or Arrow file with all its columns and rows, none of them a target."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.read_table(path) if path.suffix.lower() == ".parquet" else _read_arrow_file(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise BadInput(f"{path} cannot be read as a Parquet or Arrow file ({str(error).splitlines()[0]})") from error
    return _whole(path, table)


def _read_arrow_file(path: Path) -> Any:
    """Read an Arrow file, or a stream as it was written to a file."""
    import pyarrow as pa
    from pyarrow import feather

    try:
        return feather.read_table(path)
    except pa.ArrowInvalid as error:
        try:
            with pa.OSFile(str(path)) as stored, pa.ipc.open_stream(stored) as stream:
                return stream.read_all()
        except pa.ArrowInvalid:
            raise error from None


def is_frame(value: object) -> bool:
    """Whether a value is a table with named columns that Arrow can take over: a frame of pandas, polars or pyarrow."""
    return hasattr(value, "__arrow_c_stream__") and hasattr(value, "columns")


def frame_table(frame: Any, name: str = "the frame") -> ArrowTable:
    """Return a frame as a table of text."""
    import pyarrow as pa

    try:
        table = pa.table(frame)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError, ValueError, ImportError) as error:
        raise BadInput(f"{name} cannot be read as a table ({str(error).splitlines()[0]})") from error
    index = [column for column in table.column_names if column.startswith("__index_level_")]
    return _whole(name, table.drop_columns(index))


def _whole(path: object, table: Any) -> ArrowTable:
    names = table.column_names
    if not names or len(set(names)) < len(names):
        raise BadInput(f"{path} has no columns, or two of the same name")
    columns = {name: _as_text(path, name, table.column(name)) for name in names}
    return ArrowTable(path, columns, [], np.arange(len(table)), ())


def _as_text(path: object, name: str, column: Any) -> Any:
    """Return a column as text, "" where it is null: numbers in the fewest digits that state them, dates as ISO."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    try:
        return pc.fill_null(plain.cast(pa.string()), "")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise BadInput(f"the column {quoted(name)} of {path} holds {plain.type}, which is no number or text") from error
