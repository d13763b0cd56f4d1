"""Progress events on the way from a plan to its report, for a progress bar, a live page or nobody."""

from collections.abc import Callable
from dataclasses import dataclass

from gradveil.runs.run_records import RoundLine
from gradveil.surface import Surface


@dataclass(frozen=True, slots=True)
class Loading:
    """A dataset is read."""

    dataset: str


@dataclass(frozen=True, slots=True)
class Preparing:
    """Clients are given their examples, the budget is checked and the run folder is laid out."""

    method: str


@dataclass(frozen=True, slots=True)
class Extracting:
    """Features are computed, and this share of a split has them."""

    dataset: str
    share: float


@dataclass(frozen=True, slots=True)
class Training:
    """Training begins after `done` of `rounds` rounds; the first round compiles."""

    method: str
    rounds: int
    done: int


@dataclass(frozen=True, slots=True)
class RoundDone:
    """A round is trained, and on disk."""

    line: RoundLine


@dataclass(frozen=True, slots=True)
class Accounting:
    """Training is over; the guarantees against every adversary are computed."""

    method: str


@dataclass(frozen=True, slots=True)
class Attacking:
    """A surface is attacked, and so many of its victims are done; the first compiles."""

    method: str
    surface: Surface
    victims_done: int


@dataclass(frozen=True, slots=True)
class Reporting:
    """Pages and privacy cards are written."""


Event = Loading | Preparing | Extracting | Training | RoundDone | Accounting | Attacking | Reporting
Progress = Callable[[Event], None]


def silent(event: Event) -> None:
    """Ignore all events."""
