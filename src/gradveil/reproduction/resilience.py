"""Who hides what at which surface: the paper's attack in its reading, and beside it what a strong attacker gains."""

from collections.abc import Iterator

from gradveil.methods import METHODS
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import RESILIENCE
from gradveil.reproduction.scale import Scale

MEASURES = {"resilient": "resilient by the paper's rule", "rmse": "rmse unclamped", "iterations": "iterations"}
READINGS = {"resilient": readings.PAPER_RULE, "rmse": readings.UNCLAMPED, "iterations": readings.ATTACK}
OURS = ("gain", "which of 10")


def table(scale: Scale) -> Table:
    """Lay the table out: three columns of the paper, then two of ours, for each dataset."""
    return Table("resilience", "Attack effect at the three surfaces", tuple(_cells(scale)), 14.0, NOTES)


NOTES = (
    "iterations: until the clamped RMSE is at most 0.1; the start of CPL itself already passes the cut of 0.6",
    "gain: how much nearer than the public mean the strong attacker (map) comes, RMSE; above 0 the gradient leaks",
    "which of 10: how often the true record is picked out of ten, 0.1 by chance",
    "the paper's rule calls a guess that left the picture resilient; it says nothing about what leaked",
)


def _cells(scale: Scale) -> Iterator[Cell]:
    for (surface, method, dataset, measure), printed in RESILIENCE.items():
        row, value = (f"type {surface}", method), METHODS[method].value
        yield Cell(
            row=row,
            column=(dataset, measure),
            published=printed,
            work=scale.attacked(dataset, value, int(surface), beside=False),
            measure=MEASURES[measure],
            reading=READINGS[measure],
            reason=None if measure == "resilient" else "undefined",
        )
        if measure == "iterations":
            strong = scale.attacked(dataset, value, int(surface), attack="map", iterations=20)
            for ours in OURS:
                yield Cell(row=row, column=(dataset, ours), published=None, work=strong, measure=ours)
