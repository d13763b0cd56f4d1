"""A cell of a table: what the paper prints, what we obtain, and whether the two agree."""

import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from gradveil.reproduction.works import Work

SHARES = ("accuracy", "success", "which of 10")
"""Measures between 0 and 1."""
SHARE_DIGITS = 3
"""Decimals that the paper gives shares that are not whole."""
WITHIN = 2.0
"""How many standard errors the published value may lie from ours."""
REASONS = {
    "smaller": "trained with fewer clients or rounds, or attacked with a smaller budget, than the paper",
    "stand-in": "the dataset is not at hand; synthetic examples of its shape took its place",
    "machine": "seconds depend on the machine",
    "undefined": "the paper does not say how its figure was obtained",
    "unpublished": "the paper prints no figure here",
    "not run": "not run at this scale",
    "time": "the time for this table was spent",
    "data": "the dataset is not at hand",
    "few": "too few repeats for an error, or an error larger than the figure",
    "other noise": "the paper prints its figure for another noise scale",
    "diverged": "training ended in no number",
}
"""Why a cell is not compared with the paper."""


class Verdict(Enum):
    """What a cell says about the paper's figure."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True, slots=True)
class Answer:
    """What was obtained: a number or a word, its standard error if it is an estimate, from n repeats or victims.

    spread: the standard deviation between seeds. guarantee: the sound epsilon that belongs to the same run, in words.
    few: whether there are too few repeats to judge by.
    """

    value: float | str | None
    error: float | None = None
    n: int = 1
    spread: float | None = None
    guarantee: str = ""
    few: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.value, float) and not math.isfinite(self.value):
            object.__setattr__(self, "value", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One figure of the paper and how ours is obtained.

    row, column: headings from the outside in. published: as printed ("0.96", "Y"), None where the paper prints
    nothing. measure: a name in `measures.MEASURES`. reading: how an ambiguous setting of the paper was read. reason: a
    key of REASONS if the two may not be compared. exact: arithmetic, which agrees to the last printed digit or not.
    """

    row: tuple[str, ...]
    column: tuple[str, ...]
    published: str | None
    work: Work | None
    measure: str
    reading: str = ""
    reason: str | None = None
    exact: bool = False

    @property
    def digits(self) -> int | None:
        """Decimals that the paper prints; None for words."""
        return None if self.published is None or not _is_number(self.published) else _decimals(self.published)


@dataclass(frozen=True, slots=True)
class Filled:
    """A cell with its answer and the verdict."""

    cell: Cell
    answer: Answer | None
    verdict: Verdict
    reason: str | None

    def plain(self) -> dict[str, Any]:
        """Give the cell as JSON."""
        cell, answer = self.cell, self.answer
        number = cell.digits is not None
        return {
            "row": list(cell.row),
            "column": list(cell.column),
            "published": float(cell.published or 0) if number else cell.published,
            "ours": None if answer is None else answer.value,
            "error": None if answer is None else answer.error,
            "spread": None if answer is None else answer.spread,
            "n": 0 if answer is None else answer.n,
            "measure": cell.measure,
            "verdict": self.verdict.value,
            "reason": self.reason,
            "reading": cell.reading,
            "guarantee": "" if answer is None else answer.guarantee,
        }


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the paper: name for the command line, what it shows, its cells, and the minutes it may take."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    minutes: float
    notes: tuple[str, ...] = field(default=())


def fill(cell: Cell, answer: Answer | None, hindrance: str | None = None) -> Filled:
    """Judge an answer; `hindrance` is why there is none, or why it does not count."""
    reason = hindrance or cell.reason or ("unpublished" if cell.published is None else None)
    if answer is not None and answer.few and not cell.exact:
        reason = reason or "few"
    if reason is not None or answer is None or answer.value is None:
        return Filled(cell, answer, Verdict.NOT_COMPARABLE, reason or "not run")
    if isinstance(answer.value, str) or not _is_number(cell.published or ""):
        same = str(answer.value) == cell.published
        return Filled(cell, answer, Verdict.AGREES if same else Verdict.DIFFERS, None)
    return _compared(cell, answer, float(answer.value), float(cell.published or "nan"))


def _compared(cell: Cell, answer: Answer, ours: float, published: float) -> Filled:
    half_digit = 0.5 * 10.0 ** -_rounded_to(cell)
    if cell.exact:
        same = abs(ours - published) <= half_digit * (1 + 1e-9)
    elif answer.error is None or answer.error > abs(published):
        return Filled(cell, answer, Verdict.NOT_COMPARABLE, "few")
    else:
        same = abs(ours - published) <= WITHIN * answer.error + half_digit
    return Filled(cell, answer, Verdict.AGREES if same else Verdict.DIFFERS, None)


def _rounded_to(cell: Cell) -> int:
    """Give the decimals that the paper rounded to: "1" among shares such as 0.973 is 1.000, not all above a half."""
    digits = cell.digits or 0
    is_share = cell.measure in SHARES or cell.measure.startswith("accuracy after ")
    return SHARE_DIGITS if is_share and digits == 0 else digits


def counts(filled: list[Filled]) -> dict[str, int]:
    """Count the verdicts."""
    return {v.value: sum(f.verdict is v for f in filled) for v in Verdict}


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])
