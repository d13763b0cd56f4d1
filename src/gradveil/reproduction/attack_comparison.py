"""DLG, GradInv and CPL on single examples without protection: success, quality, iterations."""

from gradveil.methods import NON_PRIVATE
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import ATTACK_COMPARISON
from gradveil.reproduction.scale import Scale

MEASURES = {"success": "success", "rmse": "rmse", "iterations": "iterations"}


def table(scale: Scale) -> Table:
    """Lay the table out."""
    cells = tuple(
        Cell(
            row=(attack, measure),
            column=(dataset,),
            published=printed,
            work=scale.attacked(dataset, NON_PRIVATE, 2, attack=attack, beside=False),
            measure=MEASURES[measure],
            reading=readings.ATTACK,
            reason=None if measure == "success" else "undefined",
        )
        for (attack, measure, dataset), printed in ATTACK_COMPARISON.items()
    )
    notes = ("quality is the RMSE of the clamped guess; the paper's two tables print 0.120 and 0.0008 for one of them",)
    return Table("attack-comparison", "Gradient leakage attacks compared", cells, 5.0, notes)
