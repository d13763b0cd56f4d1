"""The options of `Dataset.of`, checked as they are taken."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.data.schema_text import read_schema
from gradveil.data.table_schema import Schema
from gradveil.errors import BadInput, quoted
from gradveil.fields import MOST_REAL, scalar


def schema_of(given: Any) -> Schema | None:
    """Return a schema, or read it where its path is given."""
    if given is None or isinstance(given, Schema):
        return given
    if not isinstance(given, str | os.PathLike):
        raise BadInput(f"schema = {quoted(given)}: a Schema or the path of one is expected")
    return read_schema(Path(os.path.expanduser(given)))


def range_of(given: Any) -> tuple[float, float]:
    """Return (low, high) of a number to predict."""
    pair = np.asarray(given, dtype=object)
    if pair.shape != (2,):
        raise BadInput(f"target_range = {quoted(given)}: two numbers are expected, (low, high)")
    low, high = (scalar(float, bound, "target_range") for bound in pair)
    if not -MOST_REAL <= low < high <= MOST_REAL:
        raise BadInput(f"target_range = {quoted(given)}: finite numbers are expected, the first below the other")
    return low, high


def classes_of(given: Any) -> tuple[str, ...]:
    """Return the names of classes."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadInput(f"classes = {quoted(given)}: a list of classes is expected")
    return tuple(map(str, given))


def column_of(y: Any, target: Any) -> Any:
    """Return y, or the name of the column to predict where it is given as target."""
    if target is None:
        return y
    if y is not None:
        raise BadInput("y, target: are two ways to say what to predict; give one")
    return scalar(str, target, "target")


def refuse(reason: str, **options: Any) -> None:
    """Refuse the first option that is given."""
    for name, value in options.items():
        if value is not None:
            raise BadInput(f"{name}: {reason}; leave it out")
