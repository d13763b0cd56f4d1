"""What the paper concludes, checked against stored cells: holds, fails, or undecided."""

from dataclasses import dataclass

from gradveil.reproduction import claim_rules
from gradveil.reproduction.cell import Agreement, Cell, FilledCell, Measurement, Table
from gradveil.reproduction.claim_rules import HOLDS, UNDECIDED, Judge, MissingCell, Tables
from gradveil.reproduction.scale import Scale


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper and how it is judged. arithmetic: by figures that are the same at every scale."""

    name: str
    sentence: str
    judge: Judge
    arithmetic: bool = False


CLAIMS = (
    Claim(
        "highest in all 12 settings",
        "Fed-alphaCDP is the most accurate private method",
        claim_rules.highest_in_all_settings,
    ),
    Claim("every clipping bound", "Fed-alphaCDP beats Fed-CDP and Fed-SDP for all C", claim_rules.wins_at_every_clip),
    Claim("large clipping bounds", "Fed-CDP does poorly at C = 16 and 32", claim_rules.large_clips_hurt),
    Claim(
        "more accurate than Fed-CDP",
        "at T rounds and C = 4 Fed-alphaCDP is above Fed-CDP in all datasets",
        claim_rules.beats("privacy-fixed-rounds", ("fed-alpha-cdp", "accuracy"), ("fed-cdp", "accuracy")),
    ),
    Claim(
        "more accurate than Fed-SDP",
        "at T rounds and C = 4 Fed-alphaCDP is above Fed-SDP in all datasets",
        claim_rules.beats("privacy-fixed-rounds", ("fed-alpha-cdp", "accuracy"), ("fed-sdp", "accuracy")),
    ),
    Claim(
        "same epsilon",
        "Fed-CDP and Fed-alphaCDP spend the same epsilon (the paper's figure)",
        claim_rules.same_number("privacy-fixed-rounds", ("fed-cdp", "epsilon"), ("fed-alpha-cdp", "epsilon")),
        arithmetic=True,
    ),
    Claim(
        "smaller epsilon than Fed-SDP",
        "Fed-alphaCDP spends less than Fed-SDP (the paper's figures)",
        claim_rules.beats("privacy-fixed-rounds", ("fed-sdp", "epsilon"), ("fed-alpha-cdp", "epsilon")),
        arithmetic=True,
    ),
    Claim(
        "exponential wins",
        "of the decays, the exponential is the most accurate",
        claim_rules.beats(
            "noise-decay",
            ("exponential", "accuracy"),
            *((policy, "accuracy") for policy in ("constant", "linear", "staircase", "cyclic")),
        ),
    ),
    Claim(
        "decay beats fixed sigma",
        "exponential decay is above Fed-alphaCDP with fixed sigma in all datasets",
        claim_rules.beats("noise-decay", ("exponential", "accuracy"), ("constant", "accuracy")),
    ),
    Claim(
        "above Quantile",
        "Fed-alphaCDP[sigma] is more accurate than Quantile in all datasets",
        claim_rules.beats("adaptive-clipping", ("fed-alpha-cdp-sigma", "accuracy"), ("quantile", "accuracy")),
    ),
    Claim(
        "above AdaClip",
        "Fed-alphaCDP[sigma] is more accurate than AdaClip in all datasets",
        claim_rules.beats("adaptive-clipping", ("fed-alpha-cdp-sigma", "accuracy"), ("adaclip", "accuracy")),
    ),
    Claim(
        "smallest time cost",
        "Fed-alphaCDP[sigma] is cheaper than Quantile and AdaClip",
        claim_rules.smallest_time_cost,
    ),
    Claim(
        "where noise is added",
        "the place decides resilience, by the paper's rule",
        claim_rules.resilience_by_surface,
    ),
    Claim("largest distance", "Fed-alphaCDP[sigma] leaves the largest error (median, clamped)", claim_rules.farthest),
    Claim(
        "adaptive clips leak",
        "Quantile and AdaClip are not resilient, by the paper's rule",
        claim_rules.adaptive_clips_leak,
    ),
    Claim("early gradients leak more", "later rounds are harder to attack", claim_rules.early_gradients_leak_more),
    Claim("pruning, mnist", "pruning protects only past 40 %", claim_rules.pruning_protects_past("mnist", 0.4)),
    Claim("pruning, cifar10", "pruning protects only past 50 %", claim_rules.pruning_protects_past("cifar10", 0.5)),
    Claim("pruning, lfw", "pruning protects only past 80 %", claim_rules.pruning_protects_past("lfw", 0.8)),
    Claim(
        "where noise is added, accuracy",
        "Fed-SDP at the client is as accurate as at the server",
        claim_rules.as_accurate_at_the_client,
    ),
    Claim(
        "where noise is added, epsilon",
        "Fed-SDP at the client spends the epsilon of Fed-SDP at the server (sound, each against whom it can hold off)",
        claim_rules.same_number(
            "privacy-fixed-rounds", ("fed-sdp", "sound epsilon"), ("fed-sdp-client", "sound epsilon")
        ),
    ),
)
NEEDS = (
    "population", "clipping-bound", "noise-decay", "adaptive-clipping", "privacy-fixed-rounds", "resilience",
    "attack-settings", "limitations",
)  # fmt: skip
"""The tables whose cells the claims are judged by."""


def table(scale: Scale) -> Table:
    """Lay the claims out, at every scale the same; their cells are filled from other tables."""
    notes = ("undecided: cells are missing, or the order is within two standard errors",)
    return Table("claims", "What the paper concludes", tuple(map(_cell, CLAIMS)), 0.0, notes)


def _cell(claim: Claim) -> Cell:
    return Cell(
        row=(claim.name,),
        column=("verdict",),
        published=HOLDS,
        job=None,
        measure="claim",
        interpretation=claim.sentence,
    )


def judged(tables: Tables, hindrance: str | None) -> list[FilledCell]:
    """Judge every claim; below the paper's scale the verdicts are ours and, but for arithmetic, not compared."""
    return [_judged(claim, tables, None if claim.arithmetic else hindrance) for claim in CLAIMS]


def _judged(claim: Claim, tables: Tables, hindrance: str | None) -> FilledCell:
    try:
        verdict, reason = claim.judge(tables), "few"
    except MissingCell:
        verdict, reason = UNDECIDED, "not run"
    cell, ours = _cell(claim), Measurement(verdict)
    if verdict == UNDECIDED or hindrance is not None:
        return FilledCell(cell, ours, Agreement.NOT_COMPARABLE, hindrance or reason)
    return FilledCell(cell, ours, Agreement.AGREES if verdict == HOLDS else Agreement.DIFFERS, None)
