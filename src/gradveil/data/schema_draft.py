"""How the columns of a table are read, and the schema that this suggests: a draft, since it looks at private rows."""

import math
from collections import Counter
from dataclasses import dataclass
from datetime import date

import numpy as np

from gradveil.data.class_names import natural
from gradveil.data.schema_encoding import day_of
from gradveil.data.table_schema import (
    CategoryColumn,
    ClassTarget,
    DateColumn,
    IgnoredColumn,
    NumberColumn,
    NumberTarget,
    Schema,
    SchemaColumn,
    SchemaTarget,
)
from gradveil.data.user_columns import DATE, FEW_LEVELS, MOST_LEVELS, Numbers, Texts, TextTable, parse
from gradveil.data.user_csv import as_number, without_missing
from gradveil.errors import BadInput

_PATTERNS = ("", "%Y/%m/%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%Y.%m.%d")
"""Ways to write a date, the first that reads all of a column being taken."""
_FEWEST = 20
"""Rows below which whole numbers are not taken for an identifier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnReading:
    """How one column is read: its kind, in words what it holds, and how many features it becomes.

    values: how many different ones there are. problem: why it cannot be used as it is, if it cannot.
    """

    name: str
    kind: str
    holds: str
    values: int
    missing: int
    features: int
    problem: str | None = None


def readings(table: TextTable, target: str | None) -> list[ColumnReading]:
    """Read every column but the target."""
    return [_reading(table, name) for name in table.columns if name != target]


def drafted(table: TextTable, target: str) -> Schema:
    """Return the schema that the rows suggest, with ranges, levels and classes as they occur; not public."""
    if target not in table.columns:
        raise BadInput(f"{table.path} has no column {target!r}; its columns are {', '.join(table.columns)}")
    columns = tuple(_column(table, name) for name in table.columns if name != target)
    return Schema(_target(table, target), columns)


def class_counts(table: TextTable, target: str) -> dict[str, int]:
    """Count the rows of each class, in their order; missing ones are left out."""
    counts = Counter(without_missing(table.texts(target)).to_pylist())
    return {text: counts[text] for text in sorted(counts, key=natural) if text != ""}


def _reading(table: TextTable, name: str) -> ColumnReading:
    texts = without_missing(table.texts(name)).to_pylist()
    counts = {"values": len(set(texts) - {""}), "missing": texts.count("")}
    try:
        column = _column(table, name)
    except BadInput as error:
        return ColumnReading(name=name, kind="unreadable", holds="", features=0, problem=str(error), **counts)
    kind = getattr(column, "reason", "") or type(column).__dict__["KIND"]
    return ColumnReading(name=name, kind=kind, holds=_holds(column), features=column.width, **counts)


def _holds(column: SchemaColumn) -> str:
    match column:
        case NumberColumn():
            return f"{column.low:g} to {column.high:g}"
        case CategoryColumn():
            return ", ".join(column.levels[:8]) + (", ..." if len(column.levels) > 8 else "")
        case DateColumn():
            return f"{column.first} to {column.last}"
        case _:
            return ""


def _column(table: TextTable, name: str) -> SchemaColumn:
    column = parse(table, name)
    if isinstance(column, Numbers):
        return _number_column(name, column)
    return _text_column(table, name, column)


def _number_column(name: str, column: Numbers) -> SchemaColumn:
    values = column.values[~np.isnan(column.values)]
    if not len(values) or values.min() == values.max():
        return IgnoredColumn(name, "constant")
    counted = bool(np.all(values == np.round(values))) and len(np.unique(values)) == len(values)
    if counted and len(values) >= _FEWEST and (_names_identifier(name) or np.ptp(values) + 1 == len(values)):
        return IgnoredColumn(name, "identifier")
    return NumberColumn(name, float(values.min()), float(values.max()))


def _names_identifier(name: str) -> bool:
    """Whether a column is called what identifiers are called, such as id, patient_id or PatientID."""
    return name.lower() in ("id", "index", "uuid") or name.endswith(("_id", "-id", " id", "ID", "Id"))


def _text_column(table: TextTable, name: str, column: Texts) -> SchemaColumn:
    levels = tuple(sorted(text for text in column.values if text != ""))
    rows = len(column.codes) - column.missing
    dates = _date_column(name, levels)
    if dates is not None:
        return dates
    if len(levels) < 2:
        return IgnoredColumn(name, "constant")
    if len(levels) > FEW_LEVELS and (2 * len(levels) > rows or len(levels) > MOST_LEVELS):
        return IgnoredColumn(name, "identifier" if len(levels) == rows else "text")
    return CategoryColumn(name, levels)


def _date_column(name: str, levels: tuple[str, ...]) -> DateColumn | None:
    """Return the column if all its texts are dates that one pattern reads, and two of them differ."""
    if len(levels) < 2 or not all(DATE.fullmatch(text) for text in levels):
        return None
    for pattern in _PATTERNS:
        days = [day_of(text, pattern) for text in levels]
        if not any(map(math.isnan, days)) and min(days) < max(days):
            first, last = (date.fromordinal(int(day)).isoformat() for day in (min(days), max(days)))
            return DateColumn(name, ("days",), first, last, pattern)
    return None


def number_target(name: str, counts: dict[str, int]) -> NumberTarget | None:
    """Take a target as a number if its values, with the rows of each, are numbers and most of them different."""
    values = [as_number(text) for text in counts]
    if len(counts) <= max(FEW_LEVELS, sum(counts.values()) // 2) or any(map(math.isnan, values)):
        return None
    return NumberTarget(name, min(values), max(values))


def _target(table: TextTable, name: str) -> SchemaTarget:
    """Take the target as a number if it seems to be one, else as classes."""
    counts = class_counts(table, name)
    if (number := number_target(name, counts)) is not None:
        return number
    if len(counts) > MOST_LEVELS:
        raise BadInput(f"{table.path} has {len(counts)} different values of {name!r}: a target has few classes")
    return ClassTarget(name, tuple(counts))
