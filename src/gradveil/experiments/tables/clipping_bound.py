"""Accuracy over the clipping bound C, by method and dataset."""

from dataclasses import replace

from gradveil.experiments.tables import readings
from gradveil.experiments.tables.cell import Cell, Table
from gradveil.experiments.tables.published import CLIPPING
from gradveil.experiments.tables.scale import Scale
from gradveil.experiments.tables.works import Training
from gradveil.methods import METHODS
from gradveil.privacy.clip import PerLayer

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
