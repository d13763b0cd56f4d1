"""From tables to filled cells: every work once, within the time, whatever data is at hand."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gradveil.errors import BadInput
from gradveil.reproduction.cell import Cell, Filled, Table, fill
from gradveil.reproduction.measures import FEWEST, measured
from gradveil.reproduction.scale import Scale, is_stand_in
from gradveil.reproduction.works import Attacked, Record, Training, Work, dataset_of, seeded
from gradveil.reproduction.workshop import Workshop

BUDGETS = {"gradinv": 4800, "map": 20}
"""Iterations that an attack has in the paper, or by default; 300 for all others."""


HOUR = 60.0
"""Minutes of all tables together; those of one are its share of them."""


@dataclass(slots=True)
class Driver:
    """Fills tables. seeds: repeats of every work that draws. lacking: sentences about data that is not at hand."""

    workshop: Workshop
    scale: Scale
    seeds: int = 1
    clock: Callable[[], float] = time.monotonic
    lacking: dict[str, str] = field(default_factory=dict)

    def fill(self, table: Table, done: Callable[[str], None] = lambda note: None) -> list[Filled]:
        """Fill all cells of a table; once its share of the minutes is spent, what is not on the shelf stays open."""
        limit = None if self.scale.minutes is None else 60 * self.scale.minutes * table.minutes / HOUR
        began, filled = self.clock(), []
        for cell in table.cells:
            late = limit is not None and self.clock() - began >= limit
            filled.append(self._fill(cell, late))
            done(" / ".join(cell.row))
        return filled

    def shelved(self, table: Table) -> list[Filled]:
        """Fill only the cells whose records are there already; the others are left out."""
        filled = [self._fill(cell, late=True) for cell in table.cells]
        return [one for one in filled if one.answer is not None]

    def _fill(self, cell: Cell, late: bool) -> Filled:
        if cell.work is None:
            return fill(cell, None, "not run")
        works = self._repeats(cell.work)
        try:
            if late:
                records = [r for r in map(self.workshop.known, works) if r is not None]
            else:
                records = [self.workshop.do(work) for work in works]
            if not records:
                return fill(cell, None, "time")
        except BadInput as error:
            if dataset_of(cell.work) not in self._missing(cell.work, str(error)):
                raise
            return fill(cell, None, "data")
        return fill(cell, measured(cell.measure, records), self._hindrance(cell, cell.work, records))

    def picture(self, work: Work) -> Path | None:
        """Find the picture of an attack that was made, if there is one."""
        name = dataset_of(work)
        if name is None or self.workshop.lacks(name):
            return None
        path = self.workshop.shelf.picture(self.workshop.key(work))
        return path if path.exists() else None

    def _repeats(self, work: Work) -> list[Work]:
        """Give a work for every seed; what is trained as the paper does is repeated often enough for an error."""
        whole = isinstance(work, Training) and dataset_of(work) in self.scale.whole
        return list(dict.fromkeys(seeded(work, seed) for seed in range(max(self.seeds, FEWEST if whole else 1))))

    def _missing(self, work: Work, sentence: str) -> dict[str, str]:
        """Remember which dataset could not be found; another complaint about a work is not about data."""
        name = dataset_of(work)
        if name is not None and self.workshop.lacks(name):
            self.lacking[name] = sentence
        return self.lacking

    def _hindrance(self, cell: Cell, work: Work, records: list[Record]) -> str | None:
        name = dataset_of(work)
        if name is not None and is_stand_in(self.workshop.data(name)):
            return "stand-in"
        short = isinstance(work, Attacked) and (self.scale.small or cut_short(work, records, cell.measure))
        return "smaller" if short else None


def cut_short(work: Attacked, records: Iterable[Record], measure: str) -> bool:
    """Whether an attack had fewer iterations than the paper's and a measure might have needed them.

    Once every victim is recovered, success and the iterations to it are settled; the error may still fall.
    """
    less = work.iterations is not None and work.iterations < BUDGETS.get(work.attack, 300)
    settled = measure in ("success", "iterations") and all(r["success_rate"] == 1 for r in records)
    return less and not settled
