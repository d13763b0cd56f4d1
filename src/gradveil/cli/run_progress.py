"""Progress of training on standard error: what is going on, the time left, accuracy and the epsilon so far."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from rich.console import Console

from gradveil.cli import run_summary
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.run_records import RoundLine

COMPILING = "compiling the first round"


@dataclass(slots=True)
class Pace:
    """How long rounds take by the clock, from the end of the first, which compiled, to the end of the last.

    rounds: of the whole plan. first, measured: when the first round of this process ended, and rounds since then.
    spent: the last epsilon that was accounted, since not every round is.
    """

    rounds: int
    first: float | None = None
    measured: int = 0
    spent: GuaranteeRecord | None = None

    def after(self, line: RoundLine, now: float) -> str:
        """Say how things stand after a round that ended now, in seconds: time left, accuracy and epsilon so far."""
        self.spent = line.spent or self.spent
        note = run_summary.note(replace(line, spent=self.spent))
        if self.first is None:
            self.first = now
            return f"measuring, {note}"
        self.measured += 1
        return f"{clock(line.rounds_to_come(self.rounds) * (now - self.first) / self.measured)} left, {note}"


def clock(seconds: float) -> str:
    """Return a time in words of its size.

    >>> clock(8.2), clock(75), clock(7380)
    ('8 s', '1 min 15 s', '2 h 3 min')
    """
    total = round(seconds)
    if total < 60:
        return f"{total} s"
    return f"{total // 60} min {total % 60} s" if total < 3600 else f"{total // 3600} h {total % 3600 // 60} min"


@contextmanager
def training(label: str, rounds: int, done: int) -> Iterator[Callable[[RoundLine], None]]:
    """Show a bar of rounds, only on a terminal; gives a function that is told the line of each round."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=10),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
    )
    pace = Pace(rounds)
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(label, total=rounds, completed=done, note=COMPILING)
        yield lambda line: progress.update(task, advance=1, note=pace.after(line, time.perf_counter()))
