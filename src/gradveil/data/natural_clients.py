"""Clients that the data name themselves: which training row belongs to which hospital, shop or phone."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradveil.data.records import UNCOVERED, Array
from gradveil.data.user_columns import TextTable
from gradveil.data.user_csv import without_missing
from gradveil.errors import BadInput, quoted

MOST_NAME = 200
"""The longest name of a client."""


SIZES = f"The list of clients and how many examples each has {UNCOVERED}"
"""The caveat of every dataset whose clients are named by its records."""


def client_texts(table: TextTable, column: str) -> Array:
    """Return the name of the client of every row, text [n]; a row without one is refused with its line."""
    if column not in table.columns:
        raise BadInput(f"client_column = {quoted(column)}: {table.path} has the columns {', '.join(table.columns)}")
    names = np.array(without_missing(table.texts(column)).to_pylist(), dtype=object)
    if (names == "").any():
        line = table.line(int(np.argmax(names == "")))
        raise BadInput(f"{line} of {table.path} has no value in the column {column!r}, which names the client")
    return names


def refuse_target(column: str | None, target: str | None) -> None:
    """Refuse the column to predict as the one that names clients."""
    if column is not None and column == target:
        raise BadInput(f"client_column = {quoted(column)}: is the column to predict; name another one")


def numbered(names: Sequence[Any] | Array, rows: int, train: Array) -> tuple[Array, tuple[str, ...]]:
    """Number the clients of the rows `train` in the order of their names: int32 [len(train)], and the names.

    names: of the client of each of all rows. Refused: names that are too long.
    """
    every = np.asarray(names)
    if every.shape != (rows,):
        raise BadInput(f"clients: one for each of the {rows} rows is expected, not the shape {every.shape}")
    texts = np.array([str(name) for name in every[train].tolist()], dtype=object)
    listed = tuple(sorted(set(texts.tolist())))
    if max(map(len, listed), default=0) > MOST_NAME:
        raise BadInput(f"clients: a name has more than {MOST_NAME} characters")
    index = {name: i for i, name in enumerate(listed)}
    return np.array([index[name] for name in texts], dtype=np.int32), listed


def refuse_one(names: tuple[str, ...]) -> None:
    """Refuse a single client where a whole run takes place on this machine; a node may well be one."""
    if len(names) == 1:
        raise BadInput("clients: the training rows have 1, and at least two are needed")


def without(table: Any, column: str | None) -> Any:
    """Return a table without one of its columns."""
    if column is None:
        return table
    return replace(table, columns={name: texts for name, texts in table.columns.items() if name != column})
