"""From tables to filled cells: every job once, within the time limit, with the datasets that can be loaded."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gradveil.errors import BadInput
from gradveil.reproduction.cell import Cell, FilledCell, Table, fill
from gradveil.reproduction.executor import Executor
from gradveil.reproduction.job_cache import AttackScores, TrainingRecord
from gradveil.reproduction.jobs import AttackJob, Job, TrainingJob, TuningJob, dataset_of, seeded
from gradveil.reproduction.measures import FEWEST, measured
from gradveil.reproduction.scale import SCALES, Scale
from gradveil.reproduction.table_names import lay_out

BUDGETS = {"gradinv": 4800, "map": 20}
"""Iterations that an attack has in the paper, or by default; 300 for all others."""
MOST_RECORDED = 5
"""Seeds for which records are looked up where nothing is run."""
HOUR = 60.0
"""Minutes of all tables together; each table has its part of them."""


@dataclass(slots=True)
class Driver:
    """Fills tables. seeds: repeats of every job that draws. lacking: sentences about missing datasets.

    datasets: those whose jobs may be run, None for all; of the others only records are shown.
    """

    executor: Executor
    scale: Scale
    seeds: int = 1
    clock: Callable[[], float] = time.monotonic
    datasets: Sequence[str] | None = None
    lacking: dict[str, str] = field(default_factory=dict)

    def fill(self, table: Table, done: Callable[[str], None] = lambda note: None) -> list[FilledCell]:
        """Fill all cells of a table; once its part of the minutes is spent, only cells that are cached are filled."""
        limit = None if self.scale.minutes is None else 60 * self.scale.minutes * table.minutes / HOUR
        began, filled = self.clock(), []
        for cell in table.cells:
            late = limit is not None and self.clock() - began >= limit
            filled.append(self._fill(cell, late))
            done(" / ".join(cell.row))
        return filled

    def cached(self, table: Table) -> list[FilledCell]:
        """Fill only the cells whose records are there already; the others are left out."""
        filled = [self._fill(cell, late=True) for cell in table.cells]
        return [cell for cell in filled if cell.measurement is not None]

    def _fill(self, cell: Cell, late: bool) -> FilledCell:
        if cell.job is None:
            return fill(cell, None, "not run")
        try:
            if late or not self._may_run(cell.job):
                made = {job: self.executor.cached(job) for job in self._repeats(cell.job, at_least=MOST_RECORDED)}
            else:
                made = {job: self.executor.run(job) for job in self._repeats(cell.job)}
        except BadInput as error:
            if not self._lacks_data(cell.job, str(error)):
                raise
            return fill(cell, None, "data")
        records = [record for record in made.values() if record is not None]
        if not records:
            return fill(cell, None, "time")
        ours = replace(measured(cell.measure, records), by_seed=_accuracies(cell.measure, made))
        return fill(cell, ours, self._hindrance(cell, cell.job, records))

    def _may_run(self, job: Job) -> bool:
        return self.datasets is None or dataset_of(job) in (None, *self.datasets)

    def picture(self, job: Job) -> Path | None:
        """Find the picture of an attack that was made, if there is one."""
        name = dataset_of(job)
        if name is None or self.executor.lacks(name):
            return None
        path = self.executor.cache.picture(self.executor.key(job))
        return path if path.exists() else None

    def _repeats(self, job: Job, at_least: int = 1) -> list[Job]:
        """Return a job for every seed; what is trained as the paper does is repeated often enough for an error."""
        full_size = isinstance(job, TrainingJob) and dataset_of(job) in self.scale.full_size
        seeds = max(self.seeds, at_least, FEWEST if full_size else 1)
        return list(dict.fromkeys(seeded(job, seed) for seed in range(seeds)))

    def _lacks_data(self, job: Job, sentence: str) -> bool:
        """Whether a job's dataset cannot be found, which is remembered; another complaint is not about data."""
        name = dataset_of(job)
        if name is None or not self.executor.lacks(name):
            return False
        self.lacking[name] = sentence
        return True

    def _hindrance(self, cell: Cell, job: Job, records: Sequence[object]) -> str | None:
        name = dataset_of(job)
        if name is not None and self.executor.stands_in(name):
            return "stand-in"
        if not isinstance(job, AttackJob):
            return None
        scores = [record for record in records if isinstance(record, AttackScores)]
        return "smaller" if self.scale.small or cut_short(job, scores, cell.measure) else None


def _accuracies(measure: str, made: Mapping[Job, object]) -> dict[int, float]:
    """Return the accuracy of each run by its seed, if that is what is measured."""
    return {
        job.plan.seed: record.accuracy
        for job, record in made.items()
        if measure == "accuracy" and isinstance(job, TrainingJob | TuningJob)
        if isinstance(record, TrainingRecord) and record.accuracy is not None
    }


def cut_short(job: AttackJob, records: Sequence[AttackScores], measure: str) -> bool:
    """Whether an attack had fewer iterations than the paper's and a measure might have needed them.

    Once every victim is recovered, success and the iterations to it are settled; the error may still fall.
    """
    less = job.iterations is not None and job.iterations < BUDGETS.get(job.attack, 300)
    recovered = all(record.victims and all(victim.success for victim in record.victims) for record in records)
    return less and not (recovered and measure in ("success", "iterations"))


def cached_at_paper_scale(executor: Executor, seeds: int) -> tuple[Table, list[FilledCell]]:
    """Return the cells of noise-scale that were already trained as the paper does; nothing is run for it."""
    table = lay_out("noise-scale", SCALES["paper"])
    return table, Driver(executor, SCALES["paper"], seeds).cached(table)
