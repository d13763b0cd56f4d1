"""Epsilon and accuracy after the paper's number of rounds."""

from gradveil.methods import METHODS
from gradveil.reproduction import readings
from gradveil.reproduction.cell import Cell, Table
from gradveil.reproduction.published import PRIVACY_FIXED
from gradveil.reproduction.scale import Scale
from gradveil.reproduction.works import Account, Sound, Training
from gradveil.runs.presets import PRESETS

SIGMA, STEPS = 6.0, 100


def spent(method: str, rounds: int) -> Account:
    """Account some rounds by the rule behind the paper's figures."""
    if method.startswith("fed-sdp"):
        return Account("moments", SIGMA, 0.1, rounds + 1)
    return Account("moments", SIGMA, 0.01, STEPS * rounds)


def account_reading(method: str) -> str:
    """Give the reading behind an epsilon."""
    return readings.CLIENT_RATE if method.startswith("fed-sdp") else readings.USED_RATE


def table(scale: Scale) -> Table:
    """Lay the table out."""
    cells = tuple(
        _cell(scale, method, measure, dataset, printed) for (method, measure, dataset), printed in PRIVACY_FIXED.items()
    )
    beside = tuple(_beside(scale, dataset) for dataset in DATASETS)
    honest = tuple(_sound(method, dataset) for method in SOUND for dataset in DATASETS)
    return Table("privacy-fixed-rounds", "Epsilon and accuracy after T rounds", (*cells, *beside, *honest), 3.0, NOTES)


DATASETS = tuple(dict.fromkeys(dataset for _, _, dataset in PRIVACY_FIXED))
SOUND = ("fed-sdp", "fed-sdp-client", "fed-cdp", "fed-alpha-cdp")
NOTES = (
    "epsilon is the paper's figure, recomputed; sound epsilon is that of the paper's whole plan (N, K, T, L, B, C and "
    "sigma, batches and cohorts as its code draws them) by PLD: of Fed-SDP for one client against whoever sees the "
    "models, of the others against the server",
)


def _beside(scale: Scale, dataset: str) -> Cell:
    """Add Fed-SDP at the client, which the paper calls as accurate as Fed-SDP."""
    plan = scale.plan(dataset, METHODS["fed-sdp-client"].value)
    return Cell(
        row=("fed-sdp-client", "accuracy"),
        column=(dataset,),
        published=None,
        work=Training(plan),
        measure="accuracy",
        reading=readings.of("fed-sdp-client"),
    )


def _sound(method: str, dataset: str) -> Cell:
    plan = Scale(name="paper").plan(dataset, METHODS[method].value)
    return Cell(
        row=(method, "sound epsilon"), column=(dataset,), published=None, work=Sound(plan), measure="sound epsilon"
    )


def _cell(scale: Scale, method: str, measure: str, dataset: str, printed: str) -> Cell:
    if measure == "epsilon":
        return Cell(
            row=(method, measure),
            column=(dataset,),
            published=printed,
            work=spent(method, PRESETS[dataset].rounds),
            measure="value",
            reading=account_reading(method),
            exact=True,
        )
    plan = scale.plan(dataset, METHODS[method].value)
    return Cell(
        row=(method, measure),
        column=(dataset,),
        published=printed,
        work=Training(plan),
        measure="accuracy",
        reading=readings.of(method),
        reason=scale.hinders(plan),
    )
