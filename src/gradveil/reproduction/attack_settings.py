"""What the attacker's choices matter: the start, the distance, and how far training has come."""

from collections.abc import Iterator
from dataclasses import replace

from gradveil.federation.plan import Plan
from gradveil.methods import NON_PRIVATE
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Attacked, Training
from gradveil.reproduction.workshop import DISTANCES, STARTS

MEASURES = ("success", "rmse", "iterations")
ROUNDS = (0, 1, 10, 50)


def table(scale: Scale) -> Table:
    """Lay the table out: nothing in it is printed in the paper."""
    notes = (
        "CPL on single MNIST examples without protection; `round` is attacked on the attack network as it is trained",
        "the paper says that early gradients leak more, and that the start matters, without figures",
    )
    return Table("attack-settings", "Start, distance and round of an attack", tuple(_cells(scale)), 3.0, notes)


def _cells(scale: Scale) -> Iterator[Cell]:
    for start in STARTS:
        for distance in DISTANCES:
            work = scale.attacked("mnist", NON_PRIVATE, 2, start=start, distance=distance, beside=False)
            for measure in MEASURES:
                yield _cell((start, distance), measure, work)
    first = scale.attacked("mnist", NON_PRIVATE, 2, beside=False)
    trained = replace(scale.plan("mnist", NON_PRIVATE), model=first.plan.model)
    for rounds in (r for r in ROUNDS if r <= scale.deepest):
        row = (f"after round {rounds}", "squared L2")
        yield Cell(row=row, column=("accuracy",), published=None, work=_model(trained, rounds), measure="accuracy")
        work = replace(first, plan=trained, round=rounds)
        for measure in MEASURES:
            yield _cell(row, measure, work)


def _model(plan: Plan, rounds: int) -> Training | None:
    """Train the network that is attacked after some rounds; before the first there is nothing to train."""
    return Training(replace(plan, rounds=rounds)) if rounds else None


def _cell(row: tuple[str, str], measure: str, work: Attacked) -> Cell:
    return Cell(row=row, column=(measure,), published=None, work=work, measure=measure, reading=readings.ATTACK)
