"""A user's file or folder as the fields of a dataset: arrays of an .npz file, rows of a table, images by class."""

import os
from pathlib import Path
from typing import Any

from gradveil.data import schema_data, user_data, user_npz
from gradveil.data.records import Array
from gradveil.data.table_schema import Schema
from gradveil.data.user_csv import Progress
from gradveil.errors import BadInput, quoted

Arrays = tuple[Array, Array]


def given_path(x: Any) -> Path | None:
    """Return the path that a user gave in place of data, None for anything else; BadInput if nothing can be there."""
    if not isinstance(x, str | os.PathLike):
        return None
    path = Path(os.path.expanduser(x))
    known = path.suffix.lower() in user_data.FILES or len(path.parts) > 1 or os.path.exists(path)
    if isinstance(x, str) and not known:
        raise BadInput(f"x = {quoted(x)}: is no path of a file or folder; gradveil.dataset loads built-in data by name")
    return path


def arrays_of(path: Path, test: Any) -> tuple[Arrays, Any]:
    """Return examples and labels of an .npz file, and what to test on: its own split, that of another file, or test."""
    train, tested = user_npz.arrays(path)
    if tested is not None and test is not None:
        raise BadInput(f"test: {path} has a test split of its own; leave it out")
    other = given_path(test)
    if other is None:
        return train, test if tested is None else tested
    _need_npz(other)
    pair, rest = user_npz.arrays(other)
    if rest is not None:
        raise BadInput(f"test: {other} must hold x and y alone")
    return train, pair


def _need_npz(path: Path) -> None:
    if user_data.kind(path) != ".npz":
        raise BadInput(f"test = {str(path)!r}: an .npz file is expected, as the one that is trained on")


def given_fields(path: Path, target: Any, schema: Schema | None, clients: Any, test: Any) -> dict[str, Any]:
    """Return the fields of a table or a folder of images, as the options of `Dataset.of` say; a column is a text."""
    for option, column, what in (("y", target, "to predict"), ("clients", clients, "that names clients")):
        if column is not None and not isinstance(column, str):
            raise BadInput(f"{option}: must be the column of {path.name} {what}")
    if test is not None and (not isinstance(test, str | os.PathLike) or not os.fspath(test)):
        raise BadInput(f"test = {quoted(test)}: a path is expected, since x is one")
    return own_fields(path, target, schema, clients, {"test": None if test is None else os.fspath(test)})


def own_fields(
    path: Path,
    target: str | None,
    schema: Schema | None,
    client_column: str | None,
    others: dict[str, str | None],
    done: Progress = lambda share: None,
) -> dict[str, Any]:
    """Return the fields of a user's own data, by a schema where there is one. others: files of more rows, by option."""
    files = {option: Path(os.path.expanduser(other)) for option, other in others.items() if other is not None}
    for option, file in files.items():
        if schema is None:
            raise BadInput(
                f"{option} = {str(file)!r}: rows of another file are encoded by a schema; `gradveil data schema` "
                "drafts one"
            )
        if option == "validation_file":  # a server of nodes tests on all rows of its file, and trains on none
            refuse_trained_on(option, path, file)
    if schema is not None:
        return schema_data.fields_of(
            path, schema, target, client_column, files.get("test"), done, files.get("validation_file")
        )
    return user_data.fields_of(path, target, done, client_column)


def refuse_trained_on(option: str, trained_on: "str | Path", other: "str | Path") -> None:
    """Refuse a file of other rows that is the one that is trained on."""
    if os.path.exists(other) and os.path.exists(trained_on) and os.path.samefile(other, trained_on):
        raise BadInput(f"{option} = {str(other)!r}: is the file that is trained on; name one with other rows")
