"""Parsing a column of text as numbers or categories, and refusing one that is ambiguous."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gradveil.data.records import Array
from gradveil.data.user_csv import as_number, without_missing
from gradveil.errors import BadInput

MOST_LEVELS = 200
"""The most categories that a column may have."""

FEW_LEVELS = 20
"""Up to this many categories are accepted, however few rows there are."""

ROWS_A_LEVEL = 5
"""Training rows per category that are needed if there are more."""

COMMA = re.compile(r"[+-]?(\d+,\d+([eE][+-]?\d+)?|\d{1,3}(,\d{3})+(\.\d+)?|\d{1,3}(\.\d{3})+,\d+)")
DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2}))([T ].*)?|\d{1,2}:\d{2}(:\d{2})?"
)


class TextTable(Protocol):
    """A table of text, from a file or a frame; `path` says in a sentence which one, `line` where one of its rows is."""

    @property
    def path(self) -> object:
        """The file's path, or another name."""

    @property
    def columns(self) -> Mapping[str, Any]:
        """Arrow arrays by the names of the columns."""

    def texts(self, name: str) -> Any:
        """Return a column as one Arrow array of text, one value a row."""

    def line(self, row: int) -> str:
        """Return where a row is, such as "line 12"."""


@dataclass(frozen=True, slots=True, eq=False)
class Numbers:
    """A numeric column: float64 [n], NaN where a value is missing."""

    values: Array
    missing: int


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column of categories: values[codes[i]] is the text of row i, "" where it is missing."""

    codes: Array
    values: tuple[str, ...]
    missing: int


def parse(table: TextTable, name: str) -> Numbers | Texts:
    """Read a column as numbers if every value that is not missing is a finite number, and otherwise as categories.

    Refused: a column of numbers but for a few cells, and numbers that are written with a decimal comma.
    """
    texts = table.texts(name)
    values = cast(texts)
    if values is not None and np.isfinite(values).all():
        return Numbers(values, 0)
    return _parse_with_missing(table, name, without_missing(texts))


def _parse_with_missing(table: TextTable, name: str, plain: Any) -> Numbers | Texts:
    import pyarrow as pa
    import pyarrow.compute as pc

    empty = pc.equal(plain, "")
    values, missing = cast(pc.if_else(empty, pa.scalar(None, pa.string()), plain)), int(pc.sum(empty).as_py() or 0)
    if values is not None and np.isfinite(values).sum() == len(values) - missing:
        return Numbers(values, missing)
    encoded = plain.dictionary_encode()
    codes, distinct = encoded.indices.to_numpy(), tuple(encoded.dictionary.to_pylist())
    numbers = np.array([as_number(text) for text in distinct])
    stray = np.isnan(numbers) & (np.array(distinct, dtype=object) != "")
    if not stray.any():
        return Numbers(numbers[codes], missing)
    _refuse_almost_numbers(table, name, Texts(codes, distinct, missing), stray)
    return Texts(codes, distinct, missing)


def cast(texts: Any) -> Array | None:
    """Return the texts as float64, NaN where null; None if one of them is not a number."""
    import pyarrow as pa

    try:
        values: Array = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return values


def _refuse_almost_numbers(table: TextTable, name: str, column: Texts, stray: Array) -> None:
    """Refuse numbers with a decimal comma, and numbers but for a few cells.

    A few: one cell of at least ten; or, beside at least ten different numbers, a tenth of the cells, or half of them
    if they hold at most three different texts (such as "none"). Otherwise numbers are names of categories.
    """
    counts = np.bincount(column.codes, minlength=len(stray))
    cells, all_cells = int(counts[stray].sum()), len(column.codes) - column.missing
    commas = all(COMMA.fullmatch(column.values[i]) for i in np.flatnonzero(stray))
    different = int((~stray).sum()) - (column.missing > 0)
    tenth, half = 10 * cells <= all_cells, 2 * cells <= all_cells
    few = (tenth and cells == 1) or (different >= 10 and (tenth or (half and stray.sum() <= 3)))
    if not commas and not few:
        return
    row = int(np.argmax(stray[column.codes]))
    cell, line = column.values[column.codes[row]], table.line(row)
    if commas:
        raise BadInput(
            f"the column {name!r} of {table.path} writes numbers with a comma ({cell!r} in {line}): write them "
            "with a decimal point, and nothing between thousands"
        )
    others = f", and {cells - 1} more cells are not numbers" if cells > 1 else ""
    raise BadInput(
        f"{line} of {table.path} has {cell!r} in the column {name!r}, whose other values are numbers{others}: "
        "write a number, leave the cell empty if it is unknown, or write all values as words if they are categories"
    )


def levels(table: TextTable, name: str, column: Texts, train: Array) -> tuple[str, ...]:
    """Return the categories of the rows `train` in order; refused where they are too many to learn from."""
    present = np.bincount(column.codes[train], minlength=len(column.values)) > 0
    names = tuple(sorted(column.values[i] for i in np.flatnonzero(present) if column.values[i] != ""))
    rows = len(train)
    if len(names) <= FEW_LEVELS:
        return names
    what = f"the column {name!r} of {table.path} has {len(names)} different texts in {rows} training rows"
    if all(DATE.fullmatch(text) for text in names):
        raise BadInput(
            f"{what}, which are dates or times such as {names[0]!r}: write them as numbers (days since a fixed day, "
            "or year and month in columns of their own), remove the column, or use a schema"
        )
    if 2 * len(names) > rows:
        raise BadInput(
            f"{what}, so it identifies rows instead of describing them: remove it, or write plain numbers (without "
            "units or currency signs) if it is a quantity"
        )
    if len(names) > MOST_LEVELS or ROWS_A_LEVEL * len(names) > rows:
        raise BadInput(
            f"{what}, and there may be at most {MOST_LEVELS}, with {ROWS_A_LEVEL} rows for each on average: group its "
            "values into fewer, or remove it"
        )
    return names
