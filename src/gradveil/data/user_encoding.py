"""From the columns of a table to features: numbers standardized and categories one-hot, by the training rows alone."""

from dataclasses import dataclass

import numpy as np

from gradveil.data import free_memory
from gradveil.data.arrow_table import ArrowTable
from gradveil.data.records import Array, Feature
from gradveil.data.standardizing import STATISTICS_NOTE, moments
from gradveil.data.table_schema import CategoryColumn, IgnoredColumn, ScaledColumn, SchemaColumn
from gradveil.data.user_columns import Numbers, Texts, levels, parse
from gradveil.data.user_csv import CsvTable, Progress
from gradveil.errors import BadInput

LEVELS_NOTE = "the categories are those of the training rows, and no epsilon covers the list of them"


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """A column ready to be written: float32 [n], or the index of each row's category among `width`, -1 for none.

    column: the rule by which new rows are encoded in the same way.
    """

    name: str
    values: Array
    column: SchemaColumn
    width: int = 1
    one_hot: bool = False
    missing: int = 0
    unseen: int = 0


def encode(
    table: CsvTable | ArrowTable, train: Array, test: Array, done: Progress
) -> tuple[Array, tuple[Feature, ...], tuple[str, ...], tuple[SchemaColumn, ...]]:
    """Turn the columns into features float32 [n, features], the rows `train` first and then the rows `test`.

    A numeric column is standardized by the rows `train`, and a missing value becomes 0, their mean. Any other column
    is one-hot over the categories of the rows `train`: a missing value or a category not among them is zero
    throughout. Notes count both and name empty columns. Also returns which features belong to which column, and the
    rule of every column, by which new rows are encoded alike.
    """
    blocks: list[Block] = []
    empty: list[str] = []
    for i, name in enumerate(table.columns):
        block = _block(table, name, train)
        blocks += [block] if block else []
        empty += [] if block else [name]
        done((i + 1) / len(table.columns))
    if not blocks:
        raise BadInput(f"{table.path} has no column with values besides the target")
    ends = np.cumsum([block.width for block in blocks]).tolist()
    features = tuple(Feature(b.name, end - b.width, end) for b, end in zip(blocks, ends, strict=True))
    return (
        _written(table, blocks, features, np.concatenate([train, test])),
        features,
        (*table.notes, *(f"the column {name!r} is empty and left out" for name in empty), *_notes(blocks)),
        (*(block.column for block in blocks), *(IgnoredColumn(name, "constant") for name in empty)),
    )


def _block(table: CsvTable | ArrowTable, name: str, train: Array) -> Block | None:
    """Encode one column; None if it has no value at all."""
    column = parse(table, name)
    if column.missing == len(table.labels):
        return None
    return _scaled(table, name, column, train) if isinstance(column, Numbers) else _one_hot(table, name, column, train)


def _scaled(table: CsvTable | ArrowTable, name: str, column: Numbers, train: Array) -> Block:
    with np.errstate(over="ignore", invalid="ignore"):
        mean, scale = (float(moment[0]) for moment in moments(column.values[train, None]))
        scaled = ((column.values - mean) / scale).astype(np.float32)
    beyond = ~np.isfinite(scaled) & ~np.isnan(column.values)
    if beyond.any():
        value = column.values[int(np.argmax(beyond))]
        raise BadInput(f"the column {name!r} of {table.path} holds {value:g}, which is too large to be scaled")
    return Block(name, np.nan_to_num(scaled, copy=False), ScaledColumn(name, mean, scale), missing=column.missing)


def _one_hot(table: CsvTable | ArrowTable, name: str, column: Texts, train: Array) -> Block:
    names = levels(table, name, column, train)
    index = {text: i for i, text in enumerate(names)}
    indices = np.array([index.get(text, -1) for text in column.values], dtype=np.int32)[column.codes]
    unseen = int(np.sum(indices < 0)) - column.missing
    rule = CategoryColumn(name, names) if names else IgnoredColumn(name, "constant")
    return Block(name, indices, rule, len(names), one_hot=True, missing=column.missing, unseen=unseen)


def _written(table: CsvTable | ArrowTable, blocks: list[Block], features: tuple[Feature, ...], order: Array) -> Array:
    """Write all blocks into one array, the rows in the given order; BadInput if they do not fit into memory."""
    rows, width = len(order), features[-1].stop
    what = f"{table.path} with {rows} rows and {width} features, once encoded as float32,"
    advice = "use fewer rows, or group the categories of its columns"
    free_memory.refuse_beyond(4 * rows * width, what, advice)
    x = np.zeros((rows, width), dtype=np.float32)
    for block, feature in zip(blocks, features, strict=True):
        values = block.values[order]
        if block.one_hot:
            rows_with_level = np.flatnonzero(values >= 0)
            x[rows_with_level, feature.start + values[rows_with_level]] = 1
        else:
            x[:, feature.start] = values
    return x


def _notes(blocks: list[Block]) -> list[str]:
    missing, unseen = sum(block.missing for block in blocks), sum(block.unseen for block in blocks)
    return [
        *[f"{missing} missing values are encoded as zero (the training mean of a number, no category)"] * (missing > 0),
        *[f"{unseen} test values of categories that no training row has are encoded as zero"] * (unseen > 0),
        STATISTICS_NOTE,
        *[LEVELS_NOTE] * any(block.one_hot for block in blocks),
    ]
