"""What `gradveil data show` and `gradveil data schema` do: tell how a table is read, and draft its schema."""

from dataclasses import asdict
from pathlib import Path

import typer

from gradveil.cli.output import emit_json, say, table
from gradveil.data.schema_data import read_table
from gradveil.data.schema_draft import class_counts, drafted, number_target, readings
from gradveil.data.schema_text import draft_toml, many_numbers
from gradveil.data.user_columns import TextTable
from gradveil.errors import BadInput

_MOST_CLASSES = 20


def show(path: Path, target: str | None, as_json: bool) -> None:
    """Say how each column of a table is read, what it costs in features, and how many rows each class has.

    The last column is the target unless one is named.
    """
    rows = _table(path)
    predicted = _predicted(rows, target)
    columns, counts = readings(rows, predicted), class_counts(rows, predicted)
    features = sum(column.features for column in columns)
    if as_json:
        listed = [asdict(column) for column in columns]
        shown = {"rows": _length(rows), "features": features, "columns": listed}
        return emit_json(shown | {"target": predicted, "classes": counts})
    cells = [[c.name, c.kind, c.holds, str(c.values), str(c.missing), str(c.features)] for c in columns]
    title = f"{path.name}: {_length(rows)} rows, {features} features"
    table(title, ["column", "read as", "holds", "different", "missing", "features"], cells)
    for column in columns:
        if column.problem is not None:
            say(f"{column.name}: {column.problem}")
    say(_classes(predicted, counts))
    say("These lines show private values: keep them as you keep the data.")


def schema(path: Path, target: str | None) -> None:
    """Print the draft of a schema; the last column is the target unless one is named."""
    rows = _table(path)
    typer.echo(draft_toml(drafted(rows, _predicted(rows, target))), nl=False)


def _table(path: Path) -> TextTable:
    rows = read_table(path)
    if not _length(rows):
        raise BadInput(f"{path} has no rows below the names of its columns")
    return rows


def _length(rows: TextTable) -> int:
    return len(next(iter(rows.columns.values())))


def _predicted(rows: TextTable, target: str | None) -> str:
    """Return the target, the last column unless one is named."""
    if target is None:
        target = list(rows.columns)[-1]
        typer.echo(f"target: the last column, {target}; name another one with --target", err=True)
    elif target not in rows.columns:
        raise BadInput(f"{rows.path} has no column {target!r}; its columns are {', '.join(rows.columns)}")
    return target


def _classes(target: str, counts: dict[str, int]) -> str:
    if (number := number_target(target, counts)) is not None:
        return f"target {target}: a number from {number.low:g} to {number.high:g}; a schema predicts it"
    listing = ", ".join(f"{name} {count}" for name, count in list(counts.items())[:_MOST_CLASSES])
    hint = '; if it is a quantity, a schema with kind = "number" predicts it' if many_numbers(tuple(counts)) else ""
    return f"target {target}: {len(counts)} classes ({listing}{', ...' if len(counts) > _MOST_CLASSES else ''}){hint}"
