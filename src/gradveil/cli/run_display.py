"""The events of a run as bars and words on standard error, only on a terminal."""

from contextlib import AbstractContextManager, ExitStack
from typing import Any

from gradveil.cli import run_progress
from gradveil.cli.output import bar, doing
from gradveil.leakage.self_attack import VICTIMS
from gradveil.runs.progress import (
    Accounting,
    Attacking,
    Event,
    Extracting,
    Loading,
    Preparing,
    Reporting,
    RoundDone,
    Training,
)
from gradveil.surface import Surface


class RunDisplay:
    """Shows one thing at a time; it is what `pipeline.run` tells its progress to.

    rounds_done: how far training has come while it goes on, else None.
    """

    def __init__(self) -> None:
        self._open = ExitStack()
        self._tell: Any = None
        self._attacked, self._extracted = "", 100
        self.rounds_done: int | None = None

    def __enter__(self) -> "RunDisplay":
        return self

    def __exit__(self, *error: object) -> None:
        self._open.close()

    def _show(self, display: AbstractContextManager[Any]) -> None:
        self._open.close()
        self._tell = self._open.enter_context(display)

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if isinstance(event, Training):
            self.rounds_done = event.done
        elif not isinstance(event, RoundDone):
            self.rounds_done = None
        match event:
            case Loading(dataset):
                self._show(doing(f"loading {dataset}"))
            case Preparing(method):
                self._show(doing(f"preparing {method}"))
            case Extracting(dataset, share):
                self._extract(dataset, share)
            case Training(method, rounds, done):
                self._show(run_progress.training(method, rounds, done))
            case RoundDone(line):
                self.rounds_done = line.round + 1
                self._tell(line)
            case Accounting(method):
                self._show(doing(f"accounting {method}"))
            case Attacking():
                self._attack(event)
            case Reporting():
                self._show(doing("writing the report"))

    def _extract(self, dataset: str, share: float) -> None:
        """Keep one bar of percents for each split; procedural pictures, to which a map is fitted, have their own."""
        percent = int(100 * share)
        if percent <= self._extracted:
            self._show(bar(f"features of {dataset}", 100, 0))
            self._extracted = 0
        self._tell("", percent - self._extracted)
        self._extracted = percent

    def _attack(self, event: Attacking) -> None:
        """Keep one bar for all victims of all surfaces of a run."""
        if event.method != self._attacked:
            self._attacked = event.method
            self._show(bar(f"attacking {event.method}", len(Surface) * VICTIMS, 0))
            self._tell("compiling", 0)
        if event.victims_done:
            self._tell("", 1)
