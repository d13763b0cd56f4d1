"""A user's table: the rows of a CSV file as columns of text, read in blocks by Arrow and checked strictly."""

import csv
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.data import free_memory
from gradveil.data.records import Array
from gradveil.errors import BadInput

Progress = Callable[[float], None]
"""Called with the fraction of the work that is done, 0 to 1."""

MISSING = ("", "?", "na", "n/a", "nan", "null", "<na>")
_BLOCK = 8 * 2**20
"""Bytes read at a time, and the longest row that can be read."""


@dataclass(frozen=True, slots=True, eq=False)
class CsvTable:
    """Columns of text by name as they stand in the file, and the rows that have a label.

    columns: Arrow arrays of text, one value a record of the file. labels: the labels of the labelled records, whose
    numbers are `records`. separator: what divides the fields.
    """

    path: Path
    separator: str
    columns: dict[str, Any]
    labels: list[str]
    records: Array
    notes: tuple[str, ...]

    def texts(self, name: str) -> Any:
        """Return a column at the labelled records, as one Arrow array."""
        texts = self.columns[name].combine_chunks()
        return texts if len(self.records) == len(texts) else texts.take(self.records)

    def line(self, row: int) -> str:
        """Return where the labelled row ends in the file, as "line 12"; the file is read again up to it."""
        with _records(self.path, self.separator) as records:
            for record, (line, _) in enumerate(records):
                if record == self.records[row]:
                    return f"line {line}"
        raise BadInput(f"{self.path} was changed while it was being read")


def read_whole(path: Path, progress: Progress = lambda share: None) -> CsvTable:
    """Read a CSV file with all its columns and rows, none of them a target."""
    header, separator, more = _header(path)
    columns = _columns(path, header, separator, progress) if more else {name: _nothing() for name in header}
    count = len(next(iter(columns.values())))
    return CsvTable(path, separator, columns, [], np.arange(count), ())


def _nothing() -> Any:
    import pyarrow as pa

    return pa.chunked_array([pa.array([], pa.string())])


def read(path: Path, target: str | None, progress: Progress) -> CsvTable:
    """Read a CSV file (comma, semicolon or tab) whose first line names the columns; `target` is the label's column."""
    header, separator, more = _header(path)
    refuse_target(path, header, target)
    columns = _columns(path, header, separator, progress) if more else {name: _nothing() for name in header}
    return CsvTable(path, separator, *labelled(path, columns, target))


def refuse_target(path: object, names: Sequence[str], target: str | None) -> None:
    """Refuse a target that is not among the columns, or stands there alone."""
    listed = ", ".join(names)
    if target is None:
        raise BadInput(f"--target: name the column of {path} to predict; its columns are {listed}")
    if target not in names:
        raise BadInput(f"{path} has no column {target!r}; its columns are {listed}")
    if len(names) < 2:
        raise BadInput(f"{path} has no column besides the target {target!r} to predict it from")


def labelled(
    path: object, columns: dict[str, Any], target: str | None
) -> tuple[dict[str, Any], list[str], Array, tuple[str, ...]]:
    """Return the columns but the target, the labels of the rows that have one, the numbers of these rows, and notes."""
    refuse_target(path, list(columns), target)
    labels = without_missing(columns[str(target)].combine_chunks()).to_pylist()
    records = np.flatnonzero(np.array([label != "" for label in labels], dtype=bool))
    dropped = len(labels) - len(records)
    notes = (f"{dropped} rows without a value of {target!r} are left out",) if dropped else ()
    features = {name: column for name, column in columns.items() if name != target}
    return features, [label for label in labels if label != ""], records, notes


def without_missing(texts: Any) -> Any:
    """Return an Arrow array of text without the space around it, and with every way to write "missing" as ""."""
    import pyarrow as pa
    import pyarrow.compute as pc

    plain = pc.utf8_trim_whitespace(texts)
    return pc.if_else(pc.is_in(pc.utf8_lower(plain), value_set=pa.array(MISSING)), "", plain)


def as_number(text: str) -> float:
    """Return the finite number that the text states, NaN if it states none."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def _header(path: Path) -> tuple[list[str], str, bool]:
    """Return the names in the first line, the separator that line uses most, and whether anything follows it."""
    with _refusing(path), path.open(encoding="utf-8-sig", newline="") as file:
        first = file.readline(_BLOCK)
        file.seek(0)
        separator = max(",;\t", key=first.count)
        names = [name.strip() for name in next(csv.reader(file, delimiter=separator, strict=True), [])]
        more = file.read(1) != ""
    if not names:
        raise BadInput(f"{path} is empty: its first line must name the columns")
    if all(not math.isnan(as_number(name)) for name in names):
        raise BadInput(f"the first line of {path} holds numbers: it must name the columns")
    twice = [name for i, name in enumerate(names) if name in names[:i]] if len(set(names)) < len(names) else []
    if twice:
        raise BadInput(f"the first line of {path} names the column {twice[0]!r} more than once")
    return names, separator, more


def _columns(path: Path, header: list[str], separator: str, progress: Progress) -> dict[str, Any]:
    """Return the columns by name. Arrow accepts text after a closing quote, so a file with quotes is checked."""
    import pyarrow as pa

    with _refusing(path):
        size = path.stat().st_size
        free_memory.refuse_beyond(2 * size, str(path), "use fewer rows or columns, or an .npz file of float32")
        quoted = _has_quotes(path)
        if quoted:
            _inspect(path, separator, len(header))
        try:
            read = _arrow(
                path, len(header), separator, quoted, lambda blocks: progress(min(1.0, blocks * _BLOCK / size))
            )
        except pa.ArrowInvalid as error:
            _inspect(path, separator, len(header))
            raise BadInput(f"{path} cannot be read as CSV ({str(error).splitlines()[0]})") from error
    return dict(zip(header, read.columns, strict=True))


def _arrow(path: Path, fields: int, separator: str, quoted: bool, done: Callable[[int], None]) -> Any:
    """Read all fields as text, block by block; `done` is called with the blocks so far. The first line is skipped."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    names = [str(i) for i in range(fields)]
    with pa.OSFile(str(path)) as file:
        reader = arrow.open_csv(
            file,
            arrow.ReadOptions(column_names=names, skip_rows_after_names=1, block_size=_BLOCK),
            arrow.ParseOptions(delimiter=separator, newlines_in_values=quoted),
            arrow.ConvertOptions(column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False),
        )
        batches = []
        for batch in reader:
            batches.append(batch)
            done(len(batches))
    return pa.Table.from_batches(batches, reader.schema)


def _has_quotes(path: Path) -> bool:
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(b'"') >= 0


def _inspect(path: Path, separator: str, wanted: int) -> None:
    """Refuse the first record that is not CSV or has another number of fields than the header, with its line."""
    with _records(path, separator) as records:
        for line, fields in records:
            if fields != wanted:
                raise BadInput(f"line {line} of {path} has {fields} fields, but the first line names {wanted}")


@contextmanager
def _records(path: Path, separator: str) -> Iterator[Iterator[tuple[int, int]]]:
    """Return (line on which it ends, number of fields) of every record after the header, read strictly."""
    with _refusing(path), path.open(encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=separator, strict=True)
        try:
            next(lines, None)
            yield ((lines.line_num, len(row)) for row in lines if row)
        except csv.Error as error:
            raise BadInput(f"line {lines.line_num} of {path} cannot be read as CSV ({error})") from error


@contextmanager
def _refusing(path: Path) -> Iterator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not text in UTF-8") from error
    except csv.Error as error:
        raise BadInput(f"line 1 of {path} cannot be read as CSV ({error})") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror})") from error
