"""Accuracy over the number of clients and the share of them that trains in a round, and the cost of a step."""

from collections.abc import Iterator
from dataclasses import replace

from gradveil.methods import METHODS
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import POPULATION, POPULATION_COST
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Timed, Training


def table(scale: Scale) -> Table:
    """Lay the table out."""
    notes = ("at desk scale the cohort is 5, 10, 20 or 50 clients, whatever N is",)
    return Table("population", "Accuracy over N and K / N on MNIST", tuple(_cells(scale)), 4.0, notes)


def _cells(scale: Scale) -> Iterator[Cell]:
    for (method, clients, share), printed in POPULATION.items():
        bounds = scale if scale.cohort is None or scale.small else replace(scale, cohort=int(share))
        size = {"clients": int(clients), "cohort": max(1, int(clients) * int(share) // 100)}
        plan = bounds.plan("mnist", METHODS[method].value, **size)
        yield Cell(
            row=(method,),
            column=(f"N = {clients}", f"{share} %"),
            published=printed,
            work=Training(plan),
            measure="accuracy",
            reading=readings.of(method),
            reason=scale.hinders(plan),
        )
    for (method,), printed in POPULATION_COST.items():
        work = Timed(scale.plan("mnist", METHODS[method].value))
        yield Cell(
            row=(method,), column=("cost", "s"), published=printed, work=work, measure="seconds", reason="machine"
        )
