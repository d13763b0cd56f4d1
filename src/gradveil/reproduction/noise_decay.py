"""The four policies by which sigma decays, at a target epsilon: accuracy, and rounds until it is spent."""

from dataclasses import replace

from gradveil.federation.plan import Plan
from gradveil.methods import FED_ALPHA_CDP, FED_ALPHA_CDP_SIGMA, FED_CDP, NON_PRIVATE, decay
from gradveil.privacy.method import Method
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import NOISE_DECAY
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Account, Exhausted, Training, Work
from gradveil.runs.presets import PRESETS

START, END = 15.0, 4.85
DECAYING = ("linear", "staircase", "exponential", "cyclic")


def method_of(policy: str) -> Method:
    """Give the method behind a row."""
    if policy == "exponential":
        return FED_ALPHA_CDP_SIGMA
    if policy in DECAYING:
        return replace(FED_ALPHA_CDP, noise=decay(policy, START, END))
    return {"non-private": NON_PRIVATE, "fed-cdp": FED_CDP, "constant": FED_ALPHA_CDP}[policy]


def reading_of(policy: str) -> str:
    """Give the reading behind the training of a row."""
    return readings.of(method_of(policy).name) + (readings.CYCLIC if policy == "cyclic" else "")


def accuracy_at(rounds: str | None, plan: Plan) -> str:
    """Name the measure: the accuracy in the round where the paper's budget is spent, or at the end of a shorter run."""
    return "accuracy" if rounds is None else f"accuracy after {min(int(rounds), plan.rounds)}"


def table(scale: Scale) -> Table:
    """Lay the table out."""
    notes = ("cyclic stops at sigma 4.85, since the printed formula ends with no noise at all",)
    cells = tuple(
        _cell(scale, policy, measure, dataset, printed) for (policy, measure, dataset), printed in NOISE_DECAY.items()
    )
    return Table("noise-decay", "Decay of sigma at a target epsilon", cells, 4.0, notes)


def _cell(scale: Scale, policy: str, measure: str, dataset: str, printed: str) -> Cell:
    rounds = PRESETS[dataset].rounds
    if measure == "accuracy":
        plan = scale.plan(dataset, method_of(policy))
        return Cell(
            row=(policy, measure),
            column=(dataset,),
            published=printed,
            work=Training(plan),
            measure=accuracy_at(NOISE_DECAY.get((policy, "rounds", dataset)), plan),
            reading=reading_of(policy),
            reason=scale.hinders(plan),
        )
    work: Work = Account("moments", 6.0, 0.01, 100 * rounds)
    if measure == "rounds" and policy in DECAYING:
        work = Exhausted("moments", policy, float(NOISE_DECAY[("fed-cdp", "epsilon", dataset)]), rounds)
    elif measure == "rounds":
        work = Exhausted("moments", "constant", float(NOISE_DECAY[("fed-cdp", "epsilon", dataset)]), rounds)
    return Cell(
        row=(policy, measure),
        column=(dataset,),
        published=printed,
        work=work,
        measure="value",
        reading=readings.USED_RATE if measure == "epsilon" else readings.STEP_SCHEDULE,
        exact=True,
    )
