"""The data that a user of the library names or hands over, with options checked as they are taken."""

import os
from pathlib import Path
from typing import Any

from gradveil.data import sources
from gradveil.data.dataset import Dataset
from gradveil.data.schema_text import read_schema
from gradveil.data.table_schema import Schema
from gradveil.errors import BadInput, quoted
from gradveil.federation.plan import LOADED_BY
from gradveil.fields import scalar, whole
from gradveil.keys import LARGEST_SEED
from gradveil.names import pick

LOADING = {
    "data_dir": str,
    "target": str,
    "train_all": bool,
    "allow_download": bool,
    "seed": int,
    "schema": Schema,
    "client_column": str,
    "test": str,
    "validation": float,
    "validation_file": str,
}
"""Options of `gradveil.data.sources.load` and their types."""


def load_named(name: str | Path, options: dict[str, Any]) -> Dataset:
    """Load a dataset by name or path."""
    coerced: dict[str, Any] = {}
    for key, value in options.items():
        kind = pick("option", key, LOADING)
        if value is not None or kind is bool:
            coerced[key] = _option(key, kind, value)
    if "seed" in coerced:
        whole("seed", coerced["seed"], 0, LARGEST_SEED)
    return sources.load(sources.locate(name), **coerced)


def located(name: str | Path | Dataset, given: dict[str, Any]) -> tuple[str, Dataset, dict[str, Any]]:
    """Return what a plan calls its data, the data, and the plan's given fields.

    How data in memory are loaded cannot be said; their schema goes into the plan.
    """
    if not isinstance(name, Dataset):
        location = sources.locate(name)
        return location, load_named(location, {key: given[key] for key in LOADED_BY if key in given}), given
    for key in LOADED_BY:
        if key in given:
            raise BadInput(f"{key}: is for data that is loaded by its name or path; say it to Dataset.of")
    return name.name, name, given | {"schema": name.schema}


def path_of(name: str, value: Any) -> Path:
    """Return the user's path; BadInput if it is none."""
    if not isinstance(value, str | os.PathLike) or not os.fspath(value) or "\0" in str(value):
        raise BadInput(f"{name} = {quoted(value)}: a path is expected")
    return Path(value)


def _option(key: str, kind: type[Any], value: Any) -> Any:
    if key == "schema":
        return value if isinstance(value, Schema) else read_schema(path_of(key, value))
    if key in ("test", "validation_file"):
        return str(path_of(key, value))
    return path_of(key, value) if key == "data_dir" else scalar(kind, value, key)
