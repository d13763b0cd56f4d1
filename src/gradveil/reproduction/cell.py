"""A cell of a table: what the paper prints, what we obtain, and whether the two agree."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from gradveil.reproduction.jobs import Job

Headings = tuple[str, ...]
"""Of a row or a column, from the outside in."""
PROPORTIONS = ("accuracy", "success", "which of 10")
"""Measures between 0 and 1."""
PROPORTION_DIGITS = 3
"""Decimals that the paper gives proportions that are not whole."""
WITHIN = 2.0
"""How many standard errors the published value may lie from ours."""
REASONS = {
    "smaller": "trained with fewer clients or rounds, or attacked with a smaller budget, than the paper",
    "stand-in": "the dataset is missing; synthetic examples of the same shape were used instead",
    "machine": "seconds depend on the machine",
    "undefined": "the paper does not say how its figure was obtained",
    "unpublished": "the paper prints no figure here",
    "not run": "not run at this scale",
    "time": "no record yet, and the time limit of this call was reached",
    "data": "the dataset is missing",
    "few": "too few repeats to estimate an error, or an error larger than the figure",
    "other noise": "the paper prints its figure for another noise scale",
    "diverged": "training diverged (NaN)",
}
"""Why a cell is not compared with the paper."""


class Agreement(Enum):
    """What a cell says about the paper's figure."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Measurement:
    """What was obtained: a number or a word, its standard error if it is an estimate, from n repeats or victims.

    spread: the standard deviation between seeds. guarantee: the sound epsilon that belongs to the same run, in words.
    few: whether there are too few repeats to judge by. by_seed: an accuracy by the seed of its run, for differences.
    """

    value: float | str | None
    error: float | None = None
    n: int = 1
    spread: float | None = None
    guarantee: str = ""
    few: bool = False
    by_seed: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.value, float) and not math.isfinite(self.value):
            object.__setattr__(self, "value", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One figure of the paper and how ours is obtained.

    published: as printed ("0.96", "Y"), None where the paper prints
    nothing. measure: a name in `measures.MEASURES`. interpretation: how an ambiguous setting of the paper was read.
    reason: a key of REASONS if the two may not be compared. exact: arithmetic, which agrees to the last printed digit.
    """

    row: Headings
    column: Headings
    published: str | None
    job: Job | None
    measure: str
    interpretation: str = ""
    reason: str | None = None
    exact: bool = False

    @property
    def digits(self) -> int | None:
        """Decimals that the paper prints; None for words."""
        return None if self.published is None or not _is_number(self.published) else _decimals(self.published)


def _about(text: str) -> dict[str, str]:
    return {"description": text}


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord:
    """One cell of a table, as `gradveil table --json` prints it: the paper's figure, ours, and whether they agree."""

    row: tuple[str, ...] = field(metadata=_about("headings of the row, from the outside in"))
    column: tuple[str, ...] = field(metadata=_about("headings of the column, from the outside in"))
    published: float | str | None = field(metadata=_about("what the paper prints; null where it prints nothing"))
    ours: int | float | str | None = field(metadata=_about("what we obtain; null where it was not obtained"))
    error: float | None = field(metadata=_about("standard error of ours; null where it is no estimate"))
    spread: float | None = field(metadata=_about("standard deviation of ours between seeds"))
    n: int = field(metadata=_about("number of repeats or victims that ours comes from"))
    measure: str = field(metadata=_about("what is measured"))
    verdict: Literal["agrees", "differs", "not comparable"]
    reason: str | None = field(metadata=_about("why the two are not compared; docs/tables.md lists the reasons"))
    reading: str = field(metadata=_about("how the paper was interpreted where it leaves a choice; may be empty"))
    guarantee: str = field(metadata=_about("sound epsilon of the same run, in words; may be empty"))


@dataclass(frozen=True, slots=True)
class FilledCell:
    """A cell with what was obtained, and whether it agrees with the paper."""

    cell: Cell
    measurement: Measurement | None
    agreement: Agreement
    reason: str | None

    def record(self) -> CellRecord:
        """Return the cell as it is printed and stored."""
        cell, ours = self.cell, self.measurement or Measurement(None, n=0)
        return CellRecord(
            row=cell.row,
            column=cell.column,
            published=cell.published if cell.digits is None else float(cell.published or 0),
            ours=ours.value,
            error=ours.error,
            spread=ours.spread,
            n=ours.n,
            measure=cell.measure,
            verdict=self.agreement.value,
            reason=self.reason,
            reading=cell.interpretation,
            guarantee=ours.guarantee,
        )


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper: name for the command line, what it shows, its cells, and the minutes it may take."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    minutes: float
    notes: tuple[str, ...] = field(default=())


def fill(cell: Cell, ours: Measurement | None, hindrance: str | None = None) -> FilledCell:
    """Compare what was obtained with the paper; `hindrance` is why there is nothing, or why it does not count."""
    reason = hindrance or cell.reason or ("unpublished" if cell.published is None else None)
    if ours is not None and ours.few and not cell.exact:
        reason = reason or "few"
    if reason is not None or ours is None or ours.value is None:
        return FilledCell(cell, ours, Agreement.NOT_COMPARABLE, reason or "not run")
    if isinstance(ours.value, str) or not _is_number(cell.published or ""):
        return _agreeing(cell, ours, str(ours.value) == cell.published)
    return _compared(cell, ours, float(ours.value), float(cell.published or "nan"))


def _compared(cell: Cell, ours: Measurement, value: float, published: float) -> FilledCell:
    half_digit = 0.5 * 10.0 ** -_rounded_to(cell)
    if cell.exact:
        return _agreeing(cell, ours, abs(value - published) <= half_digit * (1 + 1e-9))
    if ours.error is None or ours.error > abs(published):
        return FilledCell(cell, ours, Agreement.NOT_COMPARABLE, "few")
    return _agreeing(cell, ours, abs(value - published) <= WITHIN * ours.error + half_digit)


def _agreeing(cell: Cell, ours: Measurement, agrees: bool) -> FilledCell:
    return FilledCell(cell, ours, Agreement.AGREES if agrees else Agreement.DIFFERS, None)


def _rounded_to(cell: Cell) -> int:
    """Return the decimals that the paper rounded to: "1" among 0.973 and its like is 1.000, not all above a half."""
    digits = cell.digits or 0
    proportion = cell.measure in PROPORTIONS or cell.measure.startswith("accuracy after ")
    return PROPORTION_DIGITS if proportion and digits == 0 else digits


def counts(filled: Sequence[FilledCell]) -> dict[str, int]:
    """Count the cells that agree, differ and cannot be compared."""
    return {a.value: sum(f.agreement is a for f in filled) for a in Agreement}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])
