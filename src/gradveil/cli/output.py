"""What goes to the terminal: strict JSON or tables on standard output, progress on standard error."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table


def emit_json(value: dict[str, Any]) -> None:
    """Print one strict JSON object and nothing else."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def table(title: str | None, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table that is not cut where the output is not a terminal."""
    grid = Table(*columns, title=title, title_justify="left", show_lines=False)
    for row in rows:
        grid.add_row(*row)
    console().print(grid)


def console() -> Console:
    """Return a console on standard output; piped output is wide rather than wrapped at 80."""
    return Console() if sys.stdout.isatty() else Console(width=160)


@contextmanager
def bar(label: str, total: int, done: int) -> Iterator[Any]:
    """Show a progress bar with the time left on standard error, only on a terminal.

    Gives a function of a note and of the steps done, one unless given.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(label, total=total, completed=done, note="")
        yield lambda note, steps=1: progress.update(task, advance=steps, note=note)
