"""What the paper concludes, checked against stored cells: holds, fails, or undecided."""

from collections.abc import Callable
from dataclasses import dataclass

from gradveil.reproduction import observations
from gradveil.reproduction.cell import Answer, Cell, Filled, Table, Verdict
from gradveil.reproduction.judging import HOLDS, UNDECIDED, Missing, Tables


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper and how it is judged. arithmetic: by figures that are the same at every scale."""

    name: str
    says: str
    judge: Callable[[Tables], str]
    arithmetic: bool = False


CLAIMS = (
    Claim(
        "highest in all 12 settings",
        "Fed-alphaCDP is the most accurate private method",
        observations.highest_in_all_settings,
    ),
    Claim("every clipping bound", "Fed-alphaCDP beats Fed-CDP and Fed-SDP for all C", observations.wins_at_every_clip),
    Claim("large clipping bounds", "Fed-CDP does poorly at C = 16 and 32", observations.large_clips_hurt),
    Claim(
        "more accurate than Fed-CDP",
        "at T rounds and C = 4 Fed-alphaCDP is above Fed-CDP in all datasets",
        observations.beats("privacy-fixed-rounds", ("fed-alpha-cdp", "accuracy"), ("fed-cdp", "accuracy")),
    ),
    Claim(
        "more accurate than Fed-SDP",
        "at T rounds and C = 4 Fed-alphaCDP is above Fed-SDP in all datasets",
        observations.beats("privacy-fixed-rounds", ("fed-alpha-cdp", "accuracy"), ("fed-sdp", "accuracy")),
    ),
    Claim(
        "same epsilon",
        "Fed-CDP and Fed-alphaCDP spend the same epsilon (the paper's figure)",
        observations.same_epsilon,
        arithmetic=True,
    ),
    Claim(
        "smaller epsilon than Fed-SDP",
        "Fed-alphaCDP spends less than Fed-SDP (the paper's figures)",
        observations.beats("privacy-fixed-rounds", ("fed-sdp", "epsilon"), ("fed-alpha-cdp", "epsilon")),
        arithmetic=True,
    ),
    Claim("exponential wins", "of the decays, the exponential is the most accurate", observations.exponential_wins),
    Claim(
        "decay beats fixed sigma",
        "exponential decay is above Fed-alphaCDP with fixed sigma in all datasets",
        observations.beats("noise-decay", ("exponential", "accuracy"), ("constant", "accuracy")),
    ),
    Claim(
        "above Quantile",
        "Fed-alphaCDP[sigma] is more accurate than Quantile in all datasets",
        observations.beats("adaptive-clipping", ("fed-alpha-cdp-sigma", "accuracy"), ("quantile", "accuracy")),
    ),
    Claim(
        "above AdaClip",
        "Fed-alphaCDP[sigma] is more accurate than AdaClip in all datasets",
        observations.beats("adaptive-clipping", ("fed-alpha-cdp-sigma", "accuracy"), ("adaclip", "accuracy")),
    ),
    Claim(
        "smallest time cost",
        "Fed-alphaCDP[sigma] is cheaper than Quantile and AdaClip",
        observations.smallest_time_cost,
    ),
    Claim(
        "where noise is added",
        "the place decides resilience, by the paper's rule",
        observations.place_changes_resilience,
    ),
    Claim("largest distance", "Fed-alphaCDP[sigma] leaves the largest unclamped error", observations.farthest),
    Claim(
        "adaptive clips leak",
        "Quantile and AdaClip are not resilient, by the paper's rule",
        observations.adaptive_clips_leak,
    ),
    Claim("early gradients leak more", "later rounds are harder to attack", observations.early_gradients_leak_more),
    Claim("pruning, mnist", "pruning protects only past 40 %", observations.pruning_protects_past("mnist", 0.4)),
    Claim("pruning, cifar10", "pruning protects only past 50 %", observations.pruning_protects_past("cifar10", 0.5)),
    Claim("pruning, lfw", "pruning protects only past 80 %", observations.pruning_protects_past("lfw", 0.8)),
    Claim(
        "where noise is added, accuracy",
        "Fed-SDP at the client is as accurate as at the server",
        observations.place_keeps_accuracy,
    ),
    Claim(
        "where noise is added, epsilon",
        "Fed-SDP at the client spends the epsilon of Fed-SDP at the server (sound, each against whom it can hold off)",
        observations.place_keeps_epsilon,
    ),
)
NEEDS = (
    "population", "clipping-bound", "noise-decay", "adaptive-clipping", "privacy-fixed-rounds", "resilience",
    "attack-settings", "limitations",
)  # fmt: skip
"""The tables whose cells the claims are judged by."""


def table() -> Table:
    """Lay the claims out; their cells are filled from other tables."""
    cells = tuple(
        Cell(row=(c.name,), column=("verdict",), published=HOLDS, work=None, measure="claim", reading=c.says)
        for c in CLAIMS
    )
    notes = ("undecided: cells are missing, or the order is within two standard errors",)
    return Table("claims", "What the paper concludes", cells, 0.0, notes)


def judged(tables: Tables, hindrance: str | None) -> list[Filled]:
    """Judge every claim; below the paper's scale the verdicts are ours and, but for arithmetic, not compared."""
    return [
        _judged(claim, cell, tables, None if claim.arithmetic else hindrance)
        for claim, cell in zip(CLAIMS, table().cells, strict=True)
    ]


def _judged(claim: Claim, cell: Cell, tables: Tables, hindrance: str | None) -> Filled:
    try:
        said, why = claim.judge(tables), "few"
    except Missing:
        said, why = UNDECIDED, "not run"
    answer = Answer(said)
    if said == UNDECIDED or hindrance is not None:
        return Filled(cell, answer, Verdict.NOT_COMPARABLE, hindrance or why)
    return Filled(cell, answer, Verdict.AGREES if said == HOLDS else Verdict.DIFFERS, None)
