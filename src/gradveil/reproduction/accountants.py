"""Accuracy and rounds under base and advanced composition, zCDP and the moments accountant, on MNIST."""

from collections.abc import Iterator
from functools import partial

from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.noise_decay import accuracy_at, method_of, reading_of
from gradveil.reproduction.published import ACCOUNTANTS
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Account, Exhausted, Training

ROUNDS, STEPS = 100, 10_000


def table(scale: Scale) -> Table:
    """Lay the table out."""
    notes = ("accuracy is taken in the printed round, in a decay that is laid out over all T rounds",)
    return Table("accountants", "Privacy accountants compared on MNIST", tuple(_cells(scale)), 1.0, notes)


def _cells(scale: Scale) -> Iterator[Cell]:
    for (policy, measure, accountant), printed in ACCOUNTANTS.items():
        cell = partial(Cell, row=(policy, measure), column=(accountant,), published=printed)
        if measure == "epsilon":
            work = Account(accountant, 6.0, 0.01, STEPS)
            yield cell(work=work, measure="value", reading=readings.USED_RATE, exact=True)
        elif measure == "rounds":
            counted = "moments" if accountant == "any" else accountant
            budget = float(ACCOUNTANTS[("any", "epsilon", counted)])
            spent = Exhausted(counted, policy if policy != "fed-cdp" else "constant", budget, ROUNDS)
            yield cell(work=spent, measure="value", reading=readings.STEP_SCHEDULE, exact=True)
        else:
            plan = scale.plan("mnist", method_of(policy))
            yield cell(
                work=Training(plan),
                measure=accuracy_at(ACCOUNTANTS[(policy, "rounds", accountant)], plan),
                reading=reading_of(policy),
                reason=scale.hinders(plan),
            )
