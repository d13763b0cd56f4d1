"""Rounds until the accuracy of Fed-SDP is reached, and the epsilon of the printed number of rounds."""

from gradveil.methods import METHODS
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.privacy_fixed_rounds import account_reading, spent
from gradveil.reproduction.published import PRIVACY_TARGET
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Training


def table(scale: Scale) -> Table:
    """Lay the table out."""
    notes = ("rounds are ours, until the printed target is reached; epsilon is that of the printed number of rounds",)
    cells = tuple(
        _cell(scale, method, measure, dataset, printed)
        for (method, measure, dataset), printed in PRIVACY_TARGET.items()
        if measure in ("rounds", "epsilon")
    )
    return Table("privacy-target-accuracy", "Rounds and epsilon to a target accuracy", cells, 1.0, notes)


def _cell(scale: Scale, method: str, measure: str, dataset: str, printed: str) -> Cell:
    place = (method, measure)
    if measure == "epsilon":
        rounds = int(PRIVACY_TARGET[(method, "rounds", dataset)])
        return Cell(
            row=place,
            column=(dataset,),
            published=printed,
            work=spent(method, rounds),
            measure="value",
            reading=account_reading(method),
            exact=True,
        )
    plan, target = scale.plan(dataset, METHODS[method].value), PRIVACY_TARGET[("any", "accuracy", dataset)]
    return Cell(
        row=place,
        column=(dataset,),
        published=printed,
        work=Training(plan),
        measure=f"rounds to {target}",
        reading=readings.of(method),
        reason=scale.hinders(plan),
    )
