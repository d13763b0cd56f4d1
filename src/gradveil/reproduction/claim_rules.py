"""The conclusions of the paper as questions to filled cells, each answered holds, fails or undecided.

Cells are looked up by table, row and column, and compared with their errors.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from statistics import mean, stdev

from scipy.stats import norm
from scipy.stats import t as student

from gradveil.reproduction.attack_tables import RATIOS
from gradveil.reproduction.cell import FilledCell, Headings, Measurement
from gradveil.reproduction.published import CLIPPING, POPULATION

Tables = Mapping[str, list[FilledCell]]
Figure = Measurement | None
"""What we obtain in a cell, a number; None where there is none."""
Judge = Callable[[Tables], str]
HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
ALL = ("mnist", "cifar10", "lfw", "adult", "cancer")
TIMING_ERROR = 0.05
"""Part of a timing that a second one may differ by on a quiet machine."""
HALF = Measurement(0.5, 0.0)


class MissingCell(Exception):
    """A cell that a claim needs has no word."""


def measurement(tables: Tables, table: str, row: Headings, column: Headings) -> Figure:
    """Return what we obtain in a cell, if anything."""
    for filled in tables.get(table, []):
        if filled.cell.row == row and filled.cell.column == column:
            return filled.measurement
    return None


def value(tables: Tables, table: str, row: Headings, column: Headings) -> Figure:
    """Return our number in a cell; a run that diverged is the worst that training can do."""
    ours = measurement(tables, table, row, column)
    if ours is not None and ours.value == "diverged":
        return Measurement(0.0, 0.0)
    return ours if ours is not None and isinstance(ours.value, int | float) else None


def word(tables: Tables, table: str, row: Headings, column: Headings) -> str:
    """Return our word in a cell; raises MissingCell if there is none."""
    ours = measurement(tables, table, row, column)
    if ours is None or not isinstance(ours.value, str):
        raise MissingCell
    return ours.value


def ahead(pairs: Iterable[tuple[Figure, Figure]]) -> str:
    """Judge `the first is at least as large as the second` over all pairs, of which some may be missing.

    It fails if one pair is clearly the other way, holds if all are there and clearly so or equal, and is undecided
    otherwise. Clearly means beyond z errors, with z so large that of all pairs together one in 44 would be beyond it by
    chance: two errors for one pair.
    """
    pairs = list(pairs)
    distances = _distances(pairs)
    if any(-distance > error for distance, error in distances):
        return FAILS
    clear = len(distances) == len(pairs) and all(distance >= error for distance, error in distances)
    return HOLDS if clear else UNDECIDED


def alike(pairs: Iterable[tuple[Figure, Figure]]) -> str:
    """Judge `the two are equal` over pairs, of which some may be missing: it fails if one pair is clearly apart."""
    return FAILS if any(abs(distance) > error for distance, error in _distances(list(pairs))) else UNDECIDED


def _distances(pairs: list[tuple[Figure, Figure]]) -> list[tuple[float, float]]:
    """Return how far the first of each pair that is there is above the second, and beyond what that is clear."""
    chance = float(norm.sf(2)) / max(len(pairs), 1)
    return [_distance(a, b, chance) for a, b in pairs if a is not None and b is not None]


def _distance(a: Measurement, b: Measurement, chance: float) -> tuple[float, float]:
    """Return a - b and what it exceeds by `chance` alone, if both are equal.

    Where both were repeated with the same seeds, who holds what and the first weights are the same for both: the error
    is that of the mean difference between pairs of seeds, by Student's t. Else the two errors are taken as independent.
    """
    seeds = sorted(set(a.by_seed) & set(b.by_seed))
    if len(seeds) > 1:
        differences = [a.by_seed[seed] - b.by_seed[seed] for seed in seeds]
        error = stdev(differences) / math.sqrt(len(seeds))
        return mean(differences), float(student.isf(chance, len(seeds) - 1)) * error
    joint = math.hypot(a.error or 0.0, b.error or 0.0)
    return float(a.value or 0.0) - float(b.value or 0.0), float(norm.isf(chance)) * joint


def highest_in_all_settings(tables: Tables) -> str:
    """Judge Fed-alphaCDP above Fed-SDP and Fed-CDP for every N and percentage of clients."""
    settings = {(f"N = {n}", f"{percent} %") for _, n, percent in POPULATION}
    rivals = ("fed-sdp", "fed-cdp")
    return ahead(
        (value(tables, "population", ("fed-alpha-cdp",), s), value(tables, "population", (rival,), s))
        for s in sorted(settings)
        for rival in rivals
    )


def wins_at_every_clip(tables: Tables) -> str:
    """Judge Fed-alphaCDP above Fed-SDP and Fed-CDP for every dataset and C."""
    keys = sorted({(dataset, bound) for dataset, _, bound in CLIPPING if bound != "any"})
    at = "clipping-bound"
    return ahead(
        (value(tables, at, (dataset, "fed-alpha-cdp"), ("C", bound)), value(tables, at, (dataset, r), ("C", bound)))
        for dataset, bound in keys
        for r in ("fed-sdp", "fed-cdp")
    )


def smallest_time_cost(tables: Tables) -> str:
    """Judge Quantile and AdaClip slower than Fed-alphaCDP[sigma] in every dataset."""

    def seconds(method: str, dataset: str) -> Figure:
        timed = value(tables, "adaptive-clipping", (method, "seconds"), (dataset,))
        return None if timed is None else replace(timed, error=TIMING_ERROR * float(timed.value or 0.0))

    return ahead((seconds(m, d), seconds("fed-alpha-cdp-sigma", d)) for d in ALL for m in ("quantile", "adaclip"))


def resilience_by_surface(tables: Tables) -> str:
    """Judge the pattern of the paper's Y and N over methods and surfaces."""

    def resilient(surface: int, method: str, dataset: str) -> str:
        return word(tables, "resilience", (f"type {surface}", method), (dataset, "resilient"))

    paper = {"fed-sdp": "YNN", "fed-sdp-client": "YYN", "fed-alpha-cdp-sigma": "YYY", "non-private": "NNN"}
    same = all(
        resilient(surface, method, dataset) == pattern[surface]
        for method, pattern in paper.items()
        for surface in range(3)
        for dataset in ("mnist", "lfw")
    )
    return HOLDS if same else FAILS


def early_gradients_leak_more(tables: Tables) -> str:
    """Judge the error of the attack larger after rounds 1, 10 and 50 than before the first."""

    def error(rounds: int) -> Figure:
        return value(tables, "attack-settings", (f"after round {rounds}", "squared L2"), ("rmse",))

    return ahead((error(later), error(0)) for later in (1, 10, 50))


def pruning_protects_past(dataset: str, most: float) -> Judge:
    """Judge half of the victims recovered up to a ratio, and fewer beyond it."""

    def judge(tables: Tables) -> str:
        def success(ratio: float) -> Figure:
            return value(tables, "limitations", (f"pruning {ratio:.0%}",), (dataset, "success"))

        recovered = [(success(r), HALF) for r in RATIOS if r < most]
        protected = [(HALF, success(r)) for r in RATIOS if r > most]
        return ahead([*recovered, *protected])

    return judge


def beats(table: str, better: Headings, *worse: Headings) -> Judge:
    """Judge a row above others in every dataset."""

    def judge(tables: Tables) -> str:
        return ahead(
            (value(tables, table, better, (d,)), value(tables, table, row, (d,))) for d in ALL for row in worse
        )

    return judge


def same_number(table: str, first: Headings, second: Headings) -> Judge:
    """Judge two rows to hold the very same number in every dataset."""

    def judge(tables: Tables) -> str:
        pairs = [(value(tables, table, first, (d,)), value(tables, table, second, (d,))) for d in ALL]
        there = [(a.value, b.value) for a, b in pairs if a is not None and b is not None]
        if any(a != b for a, b in there):
            return FAILS
        return HOLDS if len(there) == len(pairs) else UNDECIDED

    return judge


def farthest(tables: Tables) -> str:
    """Judge the largest error of the paper's attack, at every surface."""
    rivals = ("non-private", "fed-sdp", "fed-sdp-client", "quantile", "adaclip")

    def error(surface: int, method: str, dataset: str) -> Figure:
        return value(tables, "resilience", (f"type {surface}", method), (dataset, "rmse"))

    return ahead(
        (error(surface, "fed-alpha-cdp-sigma", dataset), error(surface, rival, dataset))
        for surface in range(3)
        for dataset in ("mnist", "lfw")
        for rival in rivals
    )


def adaptive_clips_leak(tables: Tables) -> str:
    """Judge the paper's N for Quantile and AdaClip at every surface."""
    words = {
        word(tables, "resilience", (f"type {surface}", method), (dataset, "resilient"))
        for surface in range(3)
        for method in ("quantile", "adaclip")
        for dataset in ("mnist", "lfw")
    }
    return HOLDS if words == {"N"} else FAILS


def large_clips_hurt(tables: Tables) -> str:
    """Judge Fed-CDP at C = 4 above itself at C = 16 and 32, in every dataset."""

    def at(dataset: str, bound: str) -> Figure:
        return value(tables, "clipping-bound", (dataset, "fed-cdp"), ("C", bound))

    return ahead((at(d, "4"), at(d, bound)) for d in ALL for bound in ("16", "32"))


def as_accurate_at_the_client(tables: Tables) -> str:
    """Judge Fed-SDP as accurate at the client as at the server, in every dataset."""

    def accuracy(method: str, dataset: str) -> Figure:
        return value(tables, "privacy-fixed-rounds", (method, "accuracy"), (dataset,))

    return alike((accuracy("fed-sdp", d), accuracy("fed-sdp-client", d)) for d in ALL)
