"""What the paper concludes, checked against stored cells: holds, fails, or undecided."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from gradveil.experiments.tables.cell import Answer, Cell, Filled, Table, Verdict
from gradveil.experiments.tables.limitations import RATIOS
from gradveil.experiments.tables.published import CLIPPING, POPULATION

Tables = Mapping[str, list[Filled]]
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"


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
    if not isinstance(answer.value, int | float):
        raise Missing
    return float(answer.value), answer.error or 0.0


def word(tables: Tables, table: str, row: tuple[str, ...], column: tuple[str, ...]) -> str:
    """Give our word in a cell."""
    said = answer_in(tables, table, row, column).value
    if not isinstance(said, str):
        raise Missing
    return said


def ahead(pairs: Iterator[tuple[tuple[float, float], tuple[float, float]]]) -> str:
    """Judge `the first is at least as large as the second` over pairs of number and error.

    It fails if one pair is the other way by more than two standard errors, holds if all are clearly or exactly so, and
    is undecided where the order is within the error.
    """
    sure = True
    for (a, error_a), (b, error_b) in pairs:
        error = 2 * (error_a**2 + error_b**2) ** 0.5
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
        for dataset in ("mnist", "cifar10", "lfw", "adult", "cancer")
        for other in ("constant", "linear", "staircase", "cyclic")
    )


def _smallest_time_cost(tables: Tables) -> str:
    def seconds(method: str, dataset: str) -> float:
        return value(tables, "adaptive-clipping", (method, "seconds"), (dataset,))[0]

    cheaper = [
        seconds("fed-alpha-cdp-sigma", d) <= seconds(m, d)
        for d in ("mnist", "cifar10", "lfw", "adult", "cancer")
        for m in ("quantile", "adaclip")
    ]
    return HOLDS if all(cheaper) else FAILS


def _same_epsilon(tables: Tables) -> str:
    def epsilon(method: str, dataset: str) -> float:
        return value(tables, "privacy-fixed-rounds", (method, "epsilon"), (dataset,))[0]

    same = all(epsilon("fed-cdp", d) == epsilon("fed-alpha-cdp", d) for d in ("mnist", "lfw", "adult", "cancer"))
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
        def success(ratio: float) -> float:
            return value(tables, "limitations", (f"pruning {ratio:.0%}",), (dataset, "success"))[0]

        open_below = all(success(r) >= 0.5 for r in RATIOS if r < most)
        shut_above = all(success(r) < 0.5 for r in RATIOS if r > most)
        return HOLDS if open_below and shut_above else FAILS

    return judge


CLAIMS = (
    Claim("highest in all 12 settings", "Fed-alphaCDP is the most accurate private method", _highest_in_all_settings),
    Claim("every clipping bound", "Fed-alphaCDP beats Fed-CDP and Fed-SDP for all C", _wins_at_every_clip),
    Claim("exponential wins", "exponential decay gives the highest accuracy", _exponential_wins),
    Claim("smallest time cost", "Fed-alphaCDP[sigma] is cheaper than Quantile and AdaClip", _smallest_time_cost),
    Claim("same epsilon", "Fed-CDP and Fed-alphaCDP spend the same epsilon (the paper's figure)", _same_epsilon),
    Claim("where noise is added", "the place decides resilience, by the paper's rule", _place_changes_resilience),
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
        said = claim.judge(tables)
    except Missing:
        said = UNDECIDED
    answer = Answer(said)
    if hindrance is not None or said == UNDECIDED:
        return Filled(cell, answer, Verdict.NOT_COMPARABLE, hindrance or "few")
    return Filled(cell, answer, Verdict.AGREES if said == HOLDS else Verdict.DIFFERS, None)
