"""The benchmark datasets and their settings, with accuracy and cost of training without protection."""

from functools import partial

from gradveil.methods import NON_PRIVATE
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import DATASETS
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Setting, Size, Timed, Training

IN_DATA = ("training", "validation", "features", "classes")


def table(scale: Scale) -> Table:
    """Lay the table out."""
    cells = tuple(_cell(scale, what, dataset, printed) for (what, dataset), printed in DATASETS.items())
    notes = ("training counts include examples held out for choices; the paper's validation data is our test data",)
    return Table("datasets", "Benchmark datasets and parameters", cells, 2.0, notes)


def _cell(scale: Scale, what: str, dataset: str, printed: str) -> Cell:
    cell = partial(Cell, row=(what,), column=(dataset,), published=printed)
    if what == "accuracy":
        plan = scale.plan(dataset, NON_PRIVATE)
        reason = scale.hinders(plan)
        return cell(work=Training(plan), measure="accuracy", reading=readings.PLAIN, reason=reason)
    if what == "milliseconds":
        work = Timed(scale.plan(dataset, NON_PRIVATE))
        return cell(work=work, measure="milliseconds", reason="machine")
    counted = Size(dataset, what) if what in IN_DATA else Setting(dataset, what)
    return cell(work=counted, measure="value", exact=True)
