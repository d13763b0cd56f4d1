"""Progress of training on standard error: what is going on, the time left, accuracy and the epsilon so far."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from rich.console import Console

from gradveil.cli import run_summary
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.run_records import RoundLine

COMPILING = "compiling the first round"


@dataclass(slots=True)
class Pace:
    """How long rounds take, by the rounds of this process that compiled nothing: all but the first.

    spent: the last epsilon that was accounted, since not every round is.
    """

    rounds: int
    seconds: list[float] = field(default_factory=list)
    spent: GuaranteeRecord | None = None

    def after(self, line: RoundLine) -> str:
        """Say how things stand after a round: accuracy, epsilon so far and the time left."""
        self.seconds.append(line.seconds)
        self.spent = line.spent or self.spent
        return f"{self._left(line)}, {run_summary.note(replace(line, spent=self.spent))}"

    def _left(self, line: RoundLine) -> str:
        """Return the time that the rounds to come take at the mean pace; a budget may allow fewer of them."""
        measured = self.seconds[1:]
        if not measured:
            return "measuring"
        to_come = self.rounds - line.round - 1
        if line.rounds_left is not None:
            to_come = min(to_come, line.rounds_left)
        return f"{clock(to_come * sum(measured) / len(measured))} left"


def clock(seconds: float) -> str:
    """Return a time in words of its size.

    >>> clock(8.2), clock(75), clock(7380)
    ('8 s', '1 min 15 s', '2 h 3 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


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
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as progress:
        task = progress.add_task(label, total=rounds, completed=done, note=COMPILING)
        yield lambda line: progress.update(task, advance=1, note=pace.after(line))
