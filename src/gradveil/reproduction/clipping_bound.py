"""Accuracy over the clipping bound C, by method and dataset."""

from dataclasses import replace

from gradveil.methods import METHODS
from gradveil.privacy.clip import PerLayer
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import CLIPPING
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Training

NOTES = (
    "one learning rate for all C of a method and dataset, searched at C = 4: what is clipped harder moves less, and "
    "would bear a larger one",
)


def table(scale: Scale) -> Table:
    """Lay the table out."""
    cells = tuple(
        _cell(scale, dataset, method, bound, printed) for (dataset, method, bound), printed in CLIPPING.items()
    )
    return Table("clipping-bound", "Accuracy over the clipping bound C", cells, 9.0, NOTES)


def _cell(scale: Scale, dataset: str, method: str, bound: str, printed: str) -> Cell:
    value = METHODS[method].value
    plan = scale.plan(dataset, value if bound == "any" else replace(value, clip=PerLayer(float(bound))))
    return Cell(
        row=(dataset, method),
        column=("C", bound),
        published=printed,
        work=Training(plan),
        measure="accuracy",
        reading=readings.of(method),
        reason=scale.hinders(plan),
    )
