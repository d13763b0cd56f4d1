"""From rows to features by a schema: each row by itself, so that no row changes how another one is encoded."""

import math
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import numpy as np

from gradveil.data import free_memory
from gradveil.data.records import Array, Feature
from gradveil.data.table_schema import (
    CategoryColumn,
    ClassTarget,
    DateColumn,
    IgnoredColumn,
    NumberColumn,
    NumberTarget,
    ScaledColumn,
    Schema,
    SchemaColumn,
)
from gradveil.data.user_columns import COMMA, TextTable, cast
from gradveil.data.user_csv import as_number, without_missing
from gradveil.errors import BadInput, quoted

_WEEK = 7.0
SCHEMA = "the schema"


def encode(
    schema: Schema, table: TextTable, progress: Callable[[float], None] = lambda share: None, by: str = SCHEMA
) -> Array:
    """Return the features of every row, float32 [n, schema.width]; the target need not be among the columns.

    by: what refuses, in its sentences.

    Guarantees: the features of a row depend on the schema and that row alone. Refused in one sentence, with the line of
    the first such cell: an unknown column or level, a column that is absent, a cell that cannot be read, a missing
    value where the schema says so.
    """
    _refuse_columns(schema, table, by)
    rows = len(next(iter(table.columns.values())))
    what = f"{table.path} with {rows} rows and {schema.width} features, once encoded as float32,"
    free_memory.refuse_beyond(4 * rows * schema.width, what, "use fewer rows, or group levels in the schema")
    x = np.zeros((rows, schema.width), dtype=np.float32)
    for i, (column, span) in enumerate(zip(used(schema), spans(schema), strict=True)):
        _write(column, table, x[:, span.start : span.stop], by)
        progress((i + 1) / len(schema.columns))
    return x


def targets(schema: Schema, table: TextTable) -> tuple[Array, Array]:
    """Return what is to be predicted, int32 class numbers or float32 in -1..1, and which rows have it, bool [n]."""
    target = schema.target
    if target.name not in table.columns:
        raise BadInput(f"{table.path} has no column {target.name!r}, which the schema predicts")
    codes, texts = _distinct(table, target.name)
    known = np.array([text != "" for text in texts], dtype=bool)[codes]
    if isinstance(target, NumberTarget):
        values = _numbers(table, target.name)
        return np.nan_to_num(_within(values, target.low, target.high)).astype(np.float32), known
    assert isinstance(target, ClassTarget)
    numbers = _looked_up(table, target.name, codes, texts, target.classes, f"class of {SCHEMA}")
    return np.maximum(numbers, 0).astype(np.int32), known


def used(schema: Schema) -> tuple[SchemaColumn, ...]:
    """Return the columns that become features."""
    return tuple(column for column in schema.columns if column.width)


def spans(schema: Schema) -> tuple[Feature, ...]:
    """Return which features each column becomes."""
    columns = used(schema)
    ends = np.cumsum([column.width for column in columns]).tolist()
    return tuple(Feature(c.name, end - c.width, end) for c, end in zip(columns, ends, strict=True))


def _refuse_columns(schema: Schema, table: TextTable, by: str) -> None:
    add = 'add it, with kind = "ignore" if it is not to be used, or ' if by == SCHEMA else ""
    known = {column.name: column for column in schema.columns}
    for name in table.columns:
        if name not in known and name != schema.target.name:
            raise BadInput(f"{table.path} has a column {name!r} that {by} does not know: {add}remove it")
    for column in schema.columns:
        if column.name not in table.columns and not isinstance(column, IgnoredColumn):
            raise BadInput(f"{table.path} has no column {column.name!r}, which {by} needs")


def _write(column: SchemaColumn, table: TextTable, x: Array, by: str) -> None:
    """Write the features of one column into x [n, width], which is zero; missing values stay so, or are flagged."""
    match column:
        case NumberColumn():
            values = _numbers(table, column.name)
            missing = np.isnan(values)
            x[:, 0] = np.nan_to_num(_within(values, column.low, column.high))
        case ScaledColumn():
            values = _numbers(table, column.name)
            missing = np.isnan(values)
            with np.errstate(over="ignore"):
                x[:, 0] = np.nan_to_num((values - column.mean) / column.scale)
        case CategoryColumn():
            codes, texts = _distinct(table, column.name)
            levels = _looked_up(table, column.name, codes, texts, column.levels, f"level of {by}")
            missing, rows = levels < 0, np.flatnonzero(levels >= 0)
            x[rows, levels[rows]] = 1
        case DateColumn():
            days = _days(table, column)
            missing = np.isnan(days)
            x[:, : column.width - (column.missing == "flag")] = np.nan_to_num(_date_features(column, days))
        case _:
            raise BadInput(f"columns = {quoted(column)}: is of no kind that a schema knows")
    if column.missing == "flag":
        x[:, -1] = missing
    elif column.missing == "refuse" and missing.any():
        line = table.line(int(np.argmax(missing)))
        raise BadInput(f"{line} of {table.path} has no value in the column {column.name!r}, and {by} wants one")


def _within(values: Array, low: float, high: float) -> Array:
    """Clip to low..high, which become -1 and 1; NaN stays."""
    return (np.clip(values, low, high) - low) / (high - low) * 2 - 1


def _distinct(table: TextTable, name: str) -> tuple[Array, tuple[str, ...]]:
    """Return codes [n] and the different texts, "" for missing ones, so that texts[codes[i]] is that of row i."""
    encoded = without_missing(table.texts(name)).dictionary_encode()
    return encoded.indices.to_numpy(), tuple(encoded.dictionary.to_pylist())


def _numbers(table: TextTable, name: str) -> Array:
    """Return a column as float64 [n], NaN where it is missing; a cell that is no finite number is refused."""
    values = cast(table.texts(name))
    if values is not None and np.isfinite(values).all():
        return values
    codes, texts = _distinct(table, name)
    parsed = np.array([as_number(text) for text in texts] or [0.0])
    wrong = np.isnan(parsed[: len(texts)]) & np.array([text != "" for text in texts], dtype=bool)
    if wrong.any():
        _refuse_cell(table, name, codes, texts, wrong, "a number")
    return parsed[codes]


def _looked_up(
    table: TextTable, name: str, codes: Array, texts: tuple[str, ...], known: tuple[str, ...], what: str
) -> Array:
    """Return the place of every row's text among the known ones, -1 where it is missing; others are refused."""
    index = {text: i for i, text in enumerate(known)} | {"": -1}
    for code, text in enumerate(texts):
        if text not in index:
            line = table.line(int(np.argmax(codes == code)))
            listed = ", ".join(known[:10]) + (", ..." if len(known) > 10 else "")
            raise BadInput(
                f"{line} of {table.path} has {quoted(text)} in the column {name!r}, which is no {what} ({listed})"
            )
    return np.array([index[text] for text in texts] or [-1], dtype=np.int64)[codes]


def _refuse_cell(
    table: TextTable, name: str, codes: Array, texts: tuple[str, ...], wrong: Array, expected: str
) -> None:
    row = int(np.argmax(wrong[codes]))
    cell, line = texts[codes[row]], table.line(row)
    if expected == "a number" and COMMA.fullmatch(cell):
        raise BadInput(
            f"{line} of {table.path} has {cell!r} in the column {name!r}: write numbers with a decimal point, and "
            "nothing between thousands"
        )
    raise BadInput(f"{line} of {table.path} has {quoted(cell)} in the column {name!r}, where {expected} is expected")


def _days(table: TextTable, column: DateColumn) -> Array:
    """Return the dates as ordinals of their days, float64 [n], NaN where they are missing."""
    codes, texts = _distinct(table, column.name)
    days = np.array([day_of(text, column.pattern) for text in texts] or [math.nan])
    wrong = np.isnan(days[: len(texts)]) & np.array([text != "" for text in texts], dtype=bool)
    if wrong.any():
        _refuse_cell(table, column.name, codes, texts, wrong, f"a date such as {column.pattern or '2024-01-31'}")
    return days[codes]


def day_of(text: str, pattern: str) -> float:
    """Return the ordinal of the day that a text states, NaN if it states none."""
    try:
        if pattern:
            return float(datetime.strptime(text, pattern).toordinal())
        day, _, rest = text.partition("T") if "T" in text else text.partition(" ")
        return math.nan if rest and ":" not in rest else float(date.fromisoformat(day).toordinal())
    except ValueError:
        return math.nan


def _date_features(column: DateColumn, days: Array) -> Array:
    features: list[Any] = []
    for form in column.forms:
        if form == "days":
            features.append(_within(days, *column.bounds))
        else:
            turn = 2 * np.pi * (_place_in_year(days) if form == "year" else (days - 1) / _WEEK % 1)
            features += [np.sin(turn), np.cos(turn)]
    return np.stack(features, axis=1)


def _place_in_year(days: Array) -> Array:
    """Return the share of its year that has passed before each day, NaN where the day is."""
    place = np.full(len(days), np.nan)
    for i in np.flatnonzero(~np.isnan(days)):
        day = date.fromordinal(int(days[i]))
        first, after = date(day.year, 1, 1).toordinal(), 366 if _leap(day.year) else 365
        place[i] = (days[i] - first) / after
    return place


def _leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
