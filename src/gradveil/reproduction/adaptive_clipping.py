"""Quantile clipping and AdaClip beside Fed-alphaCDP[sigma]: accuracy, cost, resilience."""

from gradveil.methods import METHODS
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import ADAPTIVE
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Timed, Training


def table(scale: Scale) -> Table:
    """Lay the table out."""
    cells = tuple(
        _cell(scale, method, measure, dataset, printed) for (method, measure, dataset), printed in ADAPTIVE.items()
    )
    notes = ("resilient: MNIST at surface 2, by the paper's rule",)
    return Table("adaptive-clipping", "Adaptive clipping compared", cells, 3.0, notes)


def _cell(scale: Scale, method: str, measure: str, dataset: str, printed: str) -> Cell:
    value, place = METHODS[method].value, (method, measure)
    if measure == "resilient":
        return Cell(
            row=place,
            column=("all",),
            published=printed,
            work=scale.attacked("mnist", value, 2, beside=False),
            measure="resilient by the paper's rule",
            reading=readings.PAPER_RULE,
        )
    plan = scale.plan(dataset, value)
    timed = measure == "seconds"
    return Cell(
        row=place,
        column=(dataset,),
        published=printed,
        work=Timed(plan) if timed else Training(plan),
        measure=measure,
        reading="" if timed else readings.of(method),
        reason="machine" if timed else scale.hinders(plan),
    )
