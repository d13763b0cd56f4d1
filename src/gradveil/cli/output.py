"""What goes to the terminal: strict JSON, tables and sentences on standard output, progress on standard error."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

NARROWEST, USUAL = 40, 80
SHORT = 24
"""Cells up to this long stay on one line."""


def emit_json(value: dict[str, Any]) -> None:
    """Print one strict JSON object and nothing else."""
    typer.echo(json.dumps(value, indent=2, allow_nan=False))


def width() -> int:
    """Return the columns to print to: COLUMNS if it is set, else those of the terminal, else 80."""
    return max(NARROWEST, shutil.get_terminal_size((USUAL, 25)).columns)


def console() -> Console:
    """Return a console on standard output."""
    return Console(width=width(), highlight=False)


def say(sentence: str, indent: str = "") -> None:
    """Print a sentence, wrapped between words; a path or another long word is never broken."""
    typer.echo(
        textwrap.fill(
            sentence,
            width(),
            initial_indent=indent,
            subsequent_indent=indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )


def table(title: str | None, columns: list[str], rows: list[list[str]]) -> None:
    """Print a table of plain text; where it is too wide for the terminal, its rows one below the other."""
    draw(title, columns, [[Text(cell) for cell in row] for row in rows])


def draw(title: str | None, columns: list[str], rows: list[list[Text]]) -> None:
    """Print a table of styled text as `table` does; a file without COLUMNS has room for any table."""
    if title is not None:
        say(title)
    grid: Table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, name in enumerate(columns):
        longest = max((len(line) for row in rows for line in row[i].plain.splitlines()), default=0)
        grid.add_column(name, no_wrap=longest <= SHORT, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    screen = console()
    least = Measurement.get(screen, screen.options.update(max_width=10_000), grid).minimum
    if least <= screen.width:
        return screen.print(grid)
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return Console(width=least, highlight=False).print(grid)
    _listed(columns, rows)


def _listed(columns: list[str], rows: list[list[Text]]) -> None:
    """Print each row as a block of lines, one a cell."""
    screen = console()
    for row in rows:
        screen.print(row[0])
        for name, cell in zip(columns[1:], row[1:], strict=True):
            if cell.plain:
                screen.print(Text(f"  {name}: ").append_text(cell))


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Say on standard error what is going on while a block runs, only on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(f"{what} ..."):
        yield


@contextmanager
def bar(label: str, total: int, done: int) -> Iterator[Any]:
    """Show a progress bar with the time left on standard error, only on a terminal.

    Gives a function of a note and of the steps done, one unless given.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=False),
        TextColumn("left"),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(label, total=total, completed=done, note="")
        yield lambda note, steps=1: progress.update(task, advance=steps, note=note)
