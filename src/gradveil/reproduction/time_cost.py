"""Seconds of a local iteration."""

from gradveil.methods import METHODS
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import TIME_COST
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Timed


def table(scale: Scale) -> Table:
    """Lay the table out."""
    cells = tuple(
        Cell(
            row=(method,),
            column=(dataset,),
            published=printed,
            work=Timed(scale.plan(dataset, METHODS[method].value)),
            measure="seconds",
            reason="machine",
        )
        for (method, dataset), printed in TIME_COST.items()
    )
    notes = ("one client on one core, compilation left out; the paper's machine had a GPU",)
    return Table("time-cost", "Seconds per local iteration and client", cells, 2.0, notes)
