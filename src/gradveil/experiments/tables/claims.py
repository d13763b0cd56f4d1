"""What the paper concludes, checked against stored cells: holds, fails, or undecided."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from scipy.stats import norm

from gradveil.experiments.tables.cell import Answer, Cell, Filled, Table, Verdict
from gradveil.experiments.tables.limitations import RATIOS
from gradveil.experiments.tables.published import CLIPPING, POPULATION

Tables = Mapping[str, list[Filled]]
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
ALL = ("mnist", "cifar10", "lfw", "adult", "cancer")
TIMING_ERROR = 0.05
"""Share of a timing that a second one may differ by on a quiet machine."""


class Missing(Exception):
    """A cell that a claim needs has no number."""


def answer_in(tables: Tables, table: str, row: tuple[str, ...], column: tuple[str, ...]) -> Answer:
    """Give our answer in a cell; raises Missing if there is none."""
    for filled in tables.get(table, []):
        if filled.cell.row == row and filled.cell.column == column and filled.answer is not None:
            return filled.answer
    raise Missing


def value(tables: Tables, table: str, row: tuple[str, ...], column: tuple[str, ...]) -> tuple[float, float]:
    """Give our number in a cell and its standard error."""
    answer = answer_in(tables, table, row, column)
    if answer.value == "diverged":  # the worst that training can do
        return 0.0, 0.0
    if not isinstance(answer.value, int | float):
        raise Missing
    return float(answer.value), answer.error or 0.0


def word(tables: Tables, table: str, row: tuple[str, ...], column: tuple[str, ...]) -> str:
    """Give our word in a cell."""
    said = answer_in(tables, table, row, column).value
    if not isinstance(said, str):
        raise Missing
    return said


Number = tuple[float, float]


def ahead(pairs: Iterable[tuple[Number, Number]]) -> str:
    """Judge `the first is at least as large as the second` over pairs of number and standard error.

    It fails if one pair is clearly the other way, holds if all are clearly so or equal, and is undecided where an order
    is within the error. Clearly means beyond z errors, with z so large that of all pairs together one in 44 would be
    beyond it by chance: two errors for one pair.
    """
    held = list(pairs)
    z = float(norm.isf(norm.sf(2) / max(len(held), 1)))
    sure = True
    for (a, error_a), (b, error_b) in held:
        error = z * (error_a**2 + error_b**2) ** 0.5
        if b - a > error:
            return FAILS
        sure = sure and a - b >= error
    return HOLDS if sure else UNDECIDED


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence of the paper and how it is judged."""

    name: str
    says: str
    judge: Callable[[Tables], str]


def _highest_in_all_settings(tables: Tables) -> str:
    settings = {(f"N = {n}", f"{share} %") for _, n, share in POPULATION}
    rivals = ("fed-sdp", "fed-cdp")
    return ahead(
        (value(tables, "population", ("fed-alpha-cdp",), s), value(tables, "population", (rival,), s))
        for s in sorted(settings)
        for rival in rivals
    )


def _wins_at_every_clip(tables: Tables) -> str:
    keys = sorted({(dataset, bound) for dataset, _, bound in CLIPPING if bound != "any"})
    at = "clipping-bound"
    return ahead(
        (value(tables, at, (dataset, "fed-alpha-cdp"), ("C", bound)), value(tables, at, (dataset, r), ("C", bound)))
        for dataset, bound in keys
        for r in ("fed-sdp", "fed-cdp")
    )


def _exponential_wins(tables: Tables) -> str:
    def accuracy(policy: str, dataset: str) -> tuple[float, float]:
        return value(tables, "noise-decay", (policy, "accuracy"), (dataset,))

    return ahead(
        (accuracy("exponential", dataset), accuracy(other, dataset))
        for dataset in ALL
        for other in ("constant", "linear", "staircase", "cyclic")
    )


def _smallest_time_cost(tables: Tables) -> str:
    def seconds(method: str, dataset: str) -> Number:
        return value(tables, "adaptive-clipping", (method, "seconds"), (dataset,))[0], 0.0

    def within(number: Number) -> Number:
        return number[0], TIMING_ERROR * number[0]

    return ahead(
        (within(seconds(m, d)), within(seconds("fed-alpha-cdp-sigma", d))) for d in ALL for m in ("quantile", "adaclip")
    )


def _same_epsilon(tables: Tables) -> str:
    def epsilon(method: str, dataset: str) -> float:
        return value(tables, "privacy-fixed-rounds", (method, "epsilon"), (dataset,))[0]

    same = all(epsilon("fed-cdp", d) == epsilon("fed-alpha-cdp", d) for d in ALL)
    return HOLDS if same else FAILS


def _place_changes_resilience(tables: Tables) -> str:
    def resilient(surface: int, method: str, dataset: str) -> str:
        return word(tables, "resilience", (f"type {surface}", method), (dataset, "resilient"))

    wanted = {"fed-sdp": "YNN", "fed-sdp-client": "YYN", "fed-alpha-cdp-sigma": "YYY", "non-private": "NNN"}
    right = all(
        resilient(surface, method, dataset) == pattern[surface]
        for method, pattern in wanted.items()
        for surface in range(3)
        for dataset in ("mnist", "lfw")
    )
    return HOLDS if right else FAILS


def _early_gradients_leak_more(tables: Tables) -> str:
    def error(rounds: int) -> tuple[float, float]:
        return value(tables, "attack-settings", (f"after round {rounds}", "squared L2"), ("rmse",))

    return ahead((error(later), error(0)) for later in (1, 10, 50))


def _pruning_protects_past(dataset: str, most: float) -> Callable[[Tables], str]:
    def judge(tables: Tables) -> str:
        def success(ratio: float) -> Number:
            return value(tables, "limitations", (f"pruning {ratio:.0%}",), (dataset, "success"))

        half = (0.5, 0.0)
        still_open = [(success(r), half) for r in RATIOS if r < most]
        shut = [(half, success(r)) for r in RATIOS if r > most]
        return ahead(still_open + shut)

    return judge


def _beats(table: str, better: tuple[str, ...], worse: tuple[str, ...]) -> Callable[[Tables], str]:
    """Judge a row above another in every dataset."""

    def judge(tables: Tables) -> str:
        return ahead((value(tables, table, better, (d,)), value(tables, table, worse, (d,))) for d in ALL)

    return judge


def _farthest(tables: Tables) -> str:
    """Judge the largest error of the paper's attack, at every surface."""
    rivals = ("non-private", "fed-sdp", "fed-sdp-client", "quantile", "adaclip")

    def error(surface: int, method: str, dataset: str) -> Number:
        return value(tables, "resilience", (f"type {surface}", method), (dataset, "rmse"))

    return ahead(
        (error(surface, "fed-alpha-cdp-sigma", dataset), error(surface, rival, dataset))
        for surface in range(3)
        for dataset in ("mnist", "lfw")
        for rival in rivals
    )


def _adaptive_clips_leak(tables: Tables) -> str:
    said = [
        word(tables, "resilience", (f"type {surface}", method), (dataset, "resilient"))
        for surface in range(3)
        for method in ("quantile", "adaclip")
        for dataset in ("mnist", "lfw")
    ]
    return HOLDS if set(said) == {"N"} else FAILS


def _large_clips_hurt(tables: Tables) -> str:
    """Judge Fed-CDP at C = 4 above itself at C = 16 and 32, in every dataset."""

    def at(dataset: str, bound: str) -> Number:
        return value(tables, "clipping-bound", (dataset, "fed-cdp"), ("C", bound))

    return ahead((at(d, "4"), at(d, bound)) for d in ALL for bound in ("16", "32"))


CLAIMS = (
    Claim("highest in all 12 settings", "Fed-alphaCDP is the most accurate private method", _highest_in_all_settings),
    Claim("every clipping bound", "Fed-alphaCDP beats Fed-CDP and Fed-SDP for all C", _wins_at_every_clip),
    Claim("large clipping bounds", "Fed-CDP does poorly at C = 16 and 32", _large_clips_hurt),
    Claim(
        "more accurate than Fed-CDP",
        "at T rounds and C = 4 Fed-alphaCDP is above Fed-CDP in all datasets",
        _beats("privacy-fixed-rounds", ("fed-alpha-cdp", "accuracy"), ("fed-cdp", "accuracy")),
    ),
    Claim(
        "more accurate than Fed-SDP",
        "at T rounds and C = 4 Fed-alphaCDP is above Fed-SDP in all datasets",
        _beats("privacy-fixed-rounds", ("fed-alpha-cdp", "accuracy"), ("fed-sdp", "accuracy")),
    ),
    Claim("same epsilon", "Fed-CDP and Fed-alphaCDP spend the same epsilon (the paper's figure)", _same_epsilon),
    Claim(
        "smaller epsilon than Fed-SDP",
        "Fed-alphaCDP spends less than Fed-SDP (the paper's figures)",
        _beats("privacy-fixed-rounds", ("fed-sdp", "epsilon"), ("fed-alpha-cdp", "epsilon")),
    ),
    Claim("exponential wins", "of the decays, the exponential is the most accurate", _exponential_wins),
    Claim(
        "decay beats fixed sigma",
        "exponential decay is above Fed-alphaCDP with fixed sigma in all datasets",
        _beats("noise-decay", ("exponential", "accuracy"), ("constant", "accuracy")),
    ),
    Claim(
        "above Quantile",
        "Fed-alphaCDP[sigma] is more accurate than Quantile in all datasets",
        _beats("adaptive-clipping", ("fed-alpha-cdp-sigma", "accuracy"), ("quantile", "accuracy")),
    ),
    Claim(
        "above AdaClip",
        "Fed-alphaCDP[sigma] is more accurate than AdaClip in all datasets",
        _beats("adaptive-clipping", ("fed-alpha-cdp-sigma", "accuracy"), ("adaclip", "accuracy")),
    ),
    Claim("smallest time cost", "Fed-alphaCDP[sigma] is cheaper than Quantile and AdaClip", _smallest_time_cost),
    Claim("where noise is added", "the place decides resilience, by the paper's rule", _place_changes_resilience),
    Claim("largest distance", "Fed-alphaCDP[sigma] leaves the largest unclamped error", _farthest),
    Claim("adaptive clips leak", "Quantile and AdaClip are not resilient, by the paper's rule", _adaptive_clips_leak),
    Claim("early gradients leak more", "later rounds are harder to attack", _early_gradients_leak_more),
    Claim("pruning, mnist", "pruning protects only past 40 %", _pruning_protects_past("mnist", 0.4)),
    Claim("pruning, cifar10", "pruning protects only past 50 %", _pruning_protects_past("cifar10", 0.5)),
    Claim("pruning, lfw", "pruning protects only past 80 %", _pruning_protects_past("lfw", 0.8)),
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
    """Judge every claim; below the paper's scale the verdicts are ours and are not compared."""
    return [_judged(claim, cell, tables, hindrance) for claim, cell in zip(CLAIMS, table().cells, strict=True)]


def _judged(claim: Claim, cell: Cell, tables: Tables, hindrance: str | None) -> Filled:
    try:
        said, why = claim.judge(tables), "few"
    except Missing:
        said, why = UNDECIDED, "not run"
    answer = Answer(said)
    if said == UNDECIDED or hindrance is not None:
        return Filled(cell, answer, Verdict.NOT_COMPARABLE, hindrance or why)
    return Filled(cell, answer, Verdict.AGREES if said == HOLDS else Verdict.DIFFERS, None)
