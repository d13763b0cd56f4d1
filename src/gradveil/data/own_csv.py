"""A user's table: rows of a CSV file, its numeric and categorical columns, and their encoding as features."""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradveil.data.dataset import Array, Feature
from gradveil.data.tables import STATISTICS_NOTE, standardise
from gradveil.errors import BadInput

MOST_LEVELS = 200
_LARGEST_FILE = 512 * 2**20
_MISSING = frozenset({"", "?", "na", "n/a", "nan", "null", "<na>"})

LEVELS_NOTE = "the categories are those of the training rows, and no epsilon covers the list of them"


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of text by name, missing values as the empty text, and the label of each row."""

    path: Path
    columns: dict[str, list[str]]
    labels: list[str]
    notes: tuple[str, ...]


def read(path: Path, target: str | None) -> Table:
    """Read a CSV file (comma, semicolon or tab) whose first line names the columns; `target` is the label's column."""
    header, rows = _rows(path)
    columns = ", ".join(header)
    if target is None:
        raise BadInput(f"say with --target which column of {path} is to be predicted; its columns are {columns}")
    if target not in header:
        raise BadInput(f"{path} has no column {target!r}; its columns are {columns}")
    if len(header) < 2:
        raise BadInput(f"{path} has no column besides the target {target!r} to predict it from")
    place = header.index(target)
    labelled = [row for row in rows if row[place] != ""]
    dropped = len(rows) - len(labelled)
    notes = (f"{dropped} rows without a value of {target!r} are left out",) if dropped else ()
    features = {name: [row[i] for row in labelled] for i, name in enumerate(header) if i != place}
    return Table(path, features, [row[place] for row in labelled], notes)


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise BadInput(f"{path} is larger than the {_LARGEST_FILE} bytes a CSV file may have; use an .npz file")
        with path.open(encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            # The separator is the one the first line uses most.
            lines = csv.reader(file, delimiter=max(",;\t", key=first.count), strict=True)
            header = _header([name.strip() for name in next(lines, [])], path)
            rows = [_fields(row, len(header), lines.line_num, path) for row in lines if row]
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not text in UTF-8") from error
    except csv.Error as error:
        raise BadInput(f"line {lines.line_num} of {path} cannot be read as CSV ({error})") from error
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror})") from error
    return header, rows


def _fields(row: list[str], wanted: int, line: int, path: Path) -> list[str]:
    if len(row) != wanted:
        raise BadInput(f"line {line} of {path} has {len(row)} fields where the first line names {wanted}")
    return [_known(field) for field in row]


def _header(names: list[str], path: Path) -> list[str]:
    if not names:
        raise BadInput(f"{path} is empty: its first line must name the columns")
    if all(not math.isnan(as_number(name)) for name in names):
        raise BadInput(f"the first line of {path} holds numbers: it must name the columns")
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise BadInput(f"the first line of {path} names the column {twice[0]!r} more than once")
    return names


def _known(field: str) -> str:
    plain = field.strip()
    return "" if plain.lower() in _MISSING else plain


def as_number(text: str) -> float:
    """Return the finite number that the text states, NaN if it states none."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def encode(table: Table, train: Array) -> tuple[Array, tuple[Feature, ...], tuple[str, ...]]:
    """Turn the columns into features float32 [n, features], with what was learned from the rows `train` only.

    A column is numeric if every value that is not missing is a finite number: it is standardised, and a missing
    value becomes 0, the training mean. Any other column is one-hot over the categories of the training rows: a
    missing value or a category not among them is zero throughout. Notes count both and name empty columns. Also gives
    which features belong to which column.
    """
    blocks: list[Array] = []
    names: list[str] = []
    notes = list(table.notes)
    missing = unseen = 0
    categorical = False
    for name, texts in table.columns.items():
        empty = texts.count("")
        if empty == len(texts):
            notes.append(f"the column {name!r} is empty and left out")
            continue
        missing += empty
        names.append(name)
        numbers = np.array([as_number(text) for text in texts])
        if np.isnan(numbers).sum() == empty:
            blocks.append(np.nan_to_num(standardise(numbers[:, None], train)))
        else:
            block, strangers = _one_hot(table.path, name, texts, train)
            blocks.append(block)
            unseen += strangers
            categorical = True
    if not blocks:
        raise BadInput(f"{table.path} has no column with values besides the target")
    notes += [f"{missing} missing values are encoded as zero (the training mean of a number, no category)"] * (
        missing > 0
    )
    notes += [f"{unseen} test values of categories that no training row has are encoded as zero"] * (unseen > 0)
    notes += [STATISTICS_NOTE] + [LEVELS_NOTE] * categorical
    ends = np.cumsum([block.shape[1] for block in blocks])
    features = tuple(Feature(n, int(e) - b.shape[1], int(e)) for n, b, e in zip(names, blocks, ends, strict=True))
    return np.concatenate(blocks, axis=1, dtype=np.float32), features, tuple(notes)


def _one_hot(path: Path, name: str, texts: Sequence[str], train: Array) -> tuple[Array, int]:
    values = np.array(texts)
    levels = np.unique(values[train])
    levels = levels[levels != ""]
    if len(levels) > MOST_LEVELS:
        raise BadInput(
            f"the column {name!r} of {path} has {len(levels)} different texts, more than {MOST_LEVELS}: remove it "
            "(a name or number of a person tells nothing that can be learned) or group its values"
        )
    block = (values[:, None] == levels).astype(np.float32)
    return block, int(np.sum(~block.any(axis=1) & (values != "")))
