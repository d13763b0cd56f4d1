"""The paper's two figures of attacks: what CPL rebuilds without protection, and under three methods at each surface."""

from gradveil.methods import METHODS, NON_PRIVATE
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.scale import Scale

VISUALISED = (("mnist", 2), ("cifar10", 2), ("lfw", 2), ("lfw", 0))
EVALUATED = ("non-private", "fed-sdp", "fed-alpha-cdp-sigma")
FIGURES = ("attack-visualisation", "attack-evaluation")
NOTES = ("each cell has a picture: truth, the guess at several moments, the guess that reads no gradient",)


def visualisation(scale: Scale) -> Table:
    """Lay out the figure of attacks without protection; the last is on updates of a batch of three."""
    cells = tuple(
        Cell(
            row=(dataset,),
            column=(f"type {surface}",),
            published=None,
            work=scale.attacked(dataset, NON_PRIVATE, surface, beside=False),
            measure="rmse",
            reading=readings.ATTACK,
        )
        for dataset, surface in VISUALISED
    )
    return Table("attack-visualisation", "What CPL rebuilds without protection", cells, 1.0, NOTES)


def evaluation(scale: Scale) -> Table:
    """Lay out the figure of attacks under protection."""
    cells = tuple(
        Cell(
            row=(dataset, method),
            column=(f"type {surface}",),
            published=None,
            work=scale.attacked(dataset, METHODS[method].value, surface, beside=False),
            measure="rmse",
            reading=readings.ATTACK,
        )
        for dataset in ("mnist", "lfw")
        for method in EVALUATED
        for surface in range(3)
    )
    return Table("attack-evaluation", "What CPL rebuilds under protection", cells, 1.0, NOTES)
