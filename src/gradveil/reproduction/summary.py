"""What a reader of all tables wants to know first: what reproduces, what does not and why, what is not run yet."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gradveil.reproduction.cell import Agreement, Cell, FilledCell
from gradveil.reproduction.claim_rules import FAILS, HOLDS, UNDECIDED
from gradveil.reproduction.interpretations import cause_of
from gradveil.reproduction.jobs import Job, TrainingJob, TuningJob, dataset_of

CLAIMS = "claims"
UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Tally:
    """How many cells of a table can be compared at all, and what came of them."""

    name: str
    comparable: int
    agree: int
    differ: int

    @property
    def left(self) -> int:
        """Cells that could be compared and are not yet: no record, or too few repeats."""
        return self.comparable - self.agree - self.differ


def can_be_compared(cell: Cell) -> bool:
    """Whether the paper prints a figure, says how it was obtained, and it is not one of its own machine."""
    return cell.published is not None and cell.reason is None


def tally(name: str, cells: Sequence[FilledCell]) -> Tally:
    """Count the cells of a table."""
    counts = Counter(f.agreement for f in cells)
    comparable = sum(can_be_compared(f.cell) for f in cells)
    return Tally(name, comparable, counts[Agreement.AGREES], counts[Agreement.DIFFERS])


def verdicts(cells: Sequence[FilledCell]) -> dict[str, list[str]]:
    """Return the paper's conclusions by what we say of them, the clear ones first."""
    by_verdict: dict[str, list[str]] = {HOLDS: [], FAILS: [], UNDECIDED: []}
    for filled in cells:
        word = None if filled.measurement is None else filled.measurement.value
        by_verdict.setdefault(str(word or UNDECIDED), []).append(f"{filled.cell.row[0]}: {filled.cell.interpretation}")
    return by_verdict


def causes(tables: Iterable[tuple[str, Sequence[FilledCell]]]) -> list[tuple[str, int]]:
    """Count the cells that differ by why they do, as far as that is known."""
    counted = Counter(
        cause_of(name, f.cell.row, f.cell.column) or UNKNOWN
        for name, cells in tables
        for f in cells
        if f.agreement is Agreement.DIFFERS and name != CLAIMS
    )
    return counted.most_common()


def steps_left(tables: Iterable[tuple[str, Sequence[FilledCell]]]) -> dict[str, tuple[int, int]]:
    """Return by dataset how many training runs have no record, and the local steps of all their clients, one seed."""
    lacking = {
        f.cell.job: None
        for _, cells in tables
        for f in cells
        if f.measurement is None and isinstance(f.cell.job, TrainingJob | TuningJob)
    }
    left: dict[str, tuple[int, int]] = {}
    for job in lacking:
        runs, steps = left.get(str(dataset_of(job)), (0, 0))
        left[str(dataset_of(job))] = (runs + 1, steps + _steps(job))
    return left


def _steps(job: Job) -> int:
    assert isinstance(job, TrainingJob | TuningJob)  # the only jobs that are asked for
    plan = job.plan
    tried = len(job.rates) * job.rounds if isinstance(job, TuningJob) else 0
    return (plan.rounds + tried) * plan.cohort * plan.local_steps
