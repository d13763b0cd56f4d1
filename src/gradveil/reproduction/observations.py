"""The observations of the paper as questions to stored cells, each answered holds, fails or undecided."""

from collections.abc import Callable

from gradveil.reproduction.judging import FAILS, HOLDS, Number, Tables, ahead, alike, value, word
from gradveil.reproduction.limitations import RATIOS
from gradveil.reproduction.published import CLIPPING, POPULATION

ALL = ("mnist", "cifar10", "lfw", "adult", "cancer")
TIMING_ERROR = 0.05
"""Share of a timing that a second one may differ by on a quiet machine."""


def highest_in_all_settings(tables: Tables) -> str:
    """Judge Fed-alphaCDP above Fed-SDP and Fed-CDP for every N and share of clients."""
    settings = {(f"N = {n}", f"{share} %") for _, n, share in POPULATION}
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


def exponential_wins(tables: Tables) -> str:
    """Judge the exponential decay above every other in every dataset."""

    def accuracy(policy: str, dataset: str) -> tuple[float, float]:
        return value(tables, "noise-decay", (policy, "accuracy"), (dataset,))

    return ahead(
        (accuracy("exponential", dataset), accuracy(other, dataset))
        for dataset in ALL
        for other in ("constant", "linear", "staircase", "cyclic")
    )


def smallest_time_cost(tables: Tables) -> str:
    """Judge Quantile and AdaClip slower than Fed-alphaCDP[sigma] in every dataset."""

    def seconds(method: str, dataset: str) -> Number:
        return value(tables, "adaptive-clipping", (method, "seconds"), (dataset,))[0], 0.0

    def within(number: Number) -> Number:
        return number[0], TIMING_ERROR * number[0]

    return ahead(
        (within(seconds(m, d)), within(seconds("fed-alpha-cdp-sigma", d))) for d in ALL for m in ("quantile", "adaclip")
    )


def same_epsilon(tables: Tables) -> str:
    """Judge the epsilons of Fed-CDP and Fed-alphaCDP, as the paper accounts, to be the same number."""

    def epsilon(method: str, dataset: str) -> float:
        return value(tables, "privacy-fixed-rounds", (method, "epsilon"), (dataset,))[0]

    same = all(epsilon("fed-cdp", d) == epsilon("fed-alpha-cdp", d) for d in ALL)
    return HOLDS if same else FAILS


def place_changes_resilience(tables: Tables) -> str:
    """Judge the pattern of the paper's Y and N over methods and surfaces."""

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


def early_gradients_leak_more(tables: Tables) -> str:
    """Judge the error of the attack larger after rounds 1, 10 and 50 than before the first."""

    def error(rounds: int) -> tuple[float, float]:
        return value(tables, "attack-settings", (f"after round {rounds}", "squared L2"), ("rmse",))

    return ahead((error(later), error(0)) for later in (1, 10, 50))


def pruning_protects_past(dataset: str, most: float) -> Callable[[Tables], str]:
    """Judge half of the victims recovered up to a ratio, and fewer beyond it."""

    def judge(tables: Tables) -> str:
        def success(ratio: float) -> Number:
            return value(tables, "limitations", (f"pruning {ratio:.0%}",), (dataset, "success"))

        half = (0.5, 0.0)
        still_open = [(success(r), half) for r in RATIOS if r < most]
        shut = [(half, success(r)) for r in RATIOS if r > most]
        return ahead(still_open + shut)

    return judge


def beats(table: str, better: tuple[str, ...], worse: tuple[str, ...]) -> Callable[[Tables], str]:
    """Judge a row above another in every dataset."""

    def judge(tables: Tables) -> str:
        return ahead((value(tables, table, better, (d,)), value(tables, table, worse, (d,))) for d in ALL)

    return judge


def farthest(tables: Tables) -> str:
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


def adaptive_clips_leak(tables: Tables) -> str:
    """Judge the paper's N for Quantile and AdaClip at every surface."""
    said = [
        word(tables, "resilience", (f"type {surface}", method), (dataset, "resilient"))
        for surface in range(3)
        for method in ("quantile", "adaclip")
        for dataset in ("mnist", "lfw")
    ]
    return HOLDS if set(said) == {"N"} else FAILS


def large_clips_hurt(tables: Tables) -> str:
    """Judge Fed-CDP at C = 4 above itself at C = 16 and 32, in every dataset."""

    def at(dataset: str, bound: str) -> Number:
        return value(tables, "clipping-bound", (dataset, "fed-cdp"), ("C", bound))

    return ahead((at(d, "4"), at(d, bound)) for d in ALL for bound in ("16", "32"))


def place_keeps_accuracy(tables: Tables) -> str:
    """Judge Fed-SDP as accurate at the client as at the server, in every dataset."""

    def accuracy(method: str, dataset: str) -> Number:
        return value(tables, "privacy-fixed-rounds", (method, "accuracy"), (dataset,))

    return alike((accuracy("fed-sdp", d), accuracy("fed-sdp-client", d)) for d in ALL)


def place_keeps_epsilon(tables: Tables) -> str:
    """Judge the sound epsilons of Fed-SDP at the client and at the server to be the same number, in every dataset."""

    def epsilon(method: str, dataset: str) -> float:
        return value(tables, "privacy-fixed-rounds", (method, "sound epsilon"), (dataset,))[0]

    same = all(epsilon("fed-sdp", d) == epsilon("fed-sdp-client", d) for d in ALL)
    return HOLDS if same else FAILS
