"""From the records of a work, one a seed, to the number in a cell and its standard error."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradveil.reproduction.cell import Answer
from gradveil.reproduction.training_records import share_error
from gradveil.reproduction.works import Record

Measure = Callable[[list[Record]], Answer]


FEWEST = 3
"""Seeds below which what is trained is not compared with the paper."""


def accuracy(records: list[Record]) -> Answer:
    """Give the mean over seeds; its error joins that of the test examples and that between seeds."""
    return _trained(records, [r["accuracy"] for r in records])


def _trained(records: list[Record], values: list[float | None]) -> Answer:
    there = [v for v in values if v is not None]
    few, guarantee = len(records) < FEWEST, sound(records[0])
    if len(there) < len(values):
        return Answer("diverged", n=len(values), guarantee=guarantee, few=few)
    spread = _spread(there)
    # All seeds are tested on the same examples, so their error does not fall with the number of seeds.
    within = float(np.mean([share_error(v, _tested_on(r)) for v, r in zip(there, records, strict=True)])) ** 2
    error = math.sqrt(within + (spread or 0.0) ** 2 / len(there))
    return Answer(float(np.mean(there)), error, len(there), spread, guarantee, few)


def _tested_on(record: Record) -> float:
    """Give the number of test examples n: a record holds only the final accuracy a and e^2 = max(a (1 - a), 1/n) / n.

    Where a (1 - a) is the larger, n = a (1 - a) / e^2, which is then at least 1 / e; else n = 1 / e, which is larger.
    """
    a, e = record["accuracy"], record["accuracy_error"]
    return float(max(a * (1 - a) / e**2, 1 / e))


def _spread(values: list[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def sound(record: Record) -> str:
    """Say what a sound accountant holds of a run, and against whom."""
    for guarantee in record.get("guarantees", []):
        whom = f"for one {guarantee['unit']} against {guarantee['threat_model']}"
        if guarantee["threat_model"] not in ("server", "client-central"):
            continue
        if not guarantee["finite"]:
            return f"no finite epsilon {whom}"
        return f"epsilon {guarantee['epsilon']:.3g} {whom}, delta {guarantee['delta']:g}"
    return ""


def sound_epsilon(records: list[Record]) -> Answer:
    """Give the epsilon of a plan that was accounted soundly, or the word none."""
    (held,) = records[0]["guarantees"]
    return Answer(held["epsilon"] if held["finite"] else "none", guarantee=sound(records[0]))


def _over_victims(name: str) -> Measure:
    """Average a number over the victims of each seed, then over seeds.

    The victims of one seed share a network: with several seeds the error is that between their means.
    """

    def measure(records: list[Record]) -> Answer:
        by_seed = [[float(v[name]) for v in r["per_victim"]] for r in records]
        values = [value for seed in by_seed for value in seed]
        if not values:
            return Answer(None)
        spread = _spread([float(np.mean(seed)) for seed in by_seed])
        within = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
        between = None if spread is None else spread / math.sqrt(len(by_seed))
        error = within if between is None or within is None else max(within, between)
        return Answer(float(np.mean(values)), error, len(values), spread)

    return measure


def success(records: list[Record]) -> Answer:
    """Give the share of victims that were recovered; its error is binomial, at least that of one victim."""
    hits = [bool(v["success"]) for r in records for v in r["per_victim"]]
    if not hits:
        return Answer(None)
    share, n = float(np.mean(hits)), len(hits)
    return Answer(share, math.sqrt(max(share * (1 - share), 1 / (4 * n)) / n), n)


def resilient_by_the_papers_rule(records: list[Record]) -> Answer:
    """Say Y where the unclamped error is 0.6 or more for half of all victims."""
    far = [v["rmse_unclamped"] >= 0.6 for r in records for v in r["per_victim"]]
    return Answer(("Y" if np.mean(far) >= 0.5 else "N") if far else None, n=len(far))


def candidates(records: list[Record]) -> Answer:
    """Give how often the true record was picked out of ten."""
    there = [(c["success"], r["victims"]) for r in records for c in r["candidates"] if c["n"] == 10]
    if not there:
        return Answer(None)
    n = sum(victims for _, victims in there)
    share = sum(success * victims for success, victims in there) / n
    return Answer(share, math.sqrt(max(share * (1 - share), 1 / (4 * n)) / n), n)


def _plain(name: str) -> Measure:
    def measure(records: list[Record]) -> Answer:
        values = [r[name] for r in records]
        if isinstance(values[0], str | int) or values[0] is None:
            return Answer(values[0], n=len(values))
        spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
        error = None if spread is None else spread / math.sqrt(len(values))
        return Answer(float(np.mean(values)), error, len(values), spread)

    return measure


def _rounds_to(target: float) -> Measure:
    """Count the rounds until the accuracy first reaches the target."""

    def measure(records: list[Record]) -> Answer:
        firsts = [next((t + 1 for t, a in enumerate(r["curve"]) if a >= target), None) for r in records]
        there, few = [float(first) for first in firsts if first is not None], len(records) < FEWEST
        if len(there) < len(firsts):
            return Answer("not reached", n=len(records), guarantee=sound(records[0]), few=few)
        spread = _spread(there)
        error = None if spread is None else spread / math.sqrt(len(there))
        return Answer(float(np.mean(there)), error, len(there), spread, few=few)

    return measure


def _accuracy_after(count: int) -> Measure:
    """Read the curve after some rounds."""

    def measure(records: list[Record]) -> Answer:
        if any(len(r["curve"]) < count and not r["diverged"] for r in records):
            return Answer(None)
        return _trained(records, [None if r["diverged"] else r["curve"][count - 1] for r in records])

    return measure


def rounds(records: list[Record]) -> Answer:
    """Give the rounds that were trained."""
    return Answer(float(np.mean([r["rounds"] for r in records])), n=len(records))


MEASURES: dict[str, Measure] = {
    "accuracy": accuracy,
    "rounds": rounds,
    "sound epsilon": sound_epsilon,
    "success": success,
    "rmse": _over_victims("rmse"),
    "rmse unclamped": _over_victims("rmse_unclamped"),
    "iterations": _over_victims("iterations"),
    "gain": _over_victims("gain"),
    "resilient by the paper's rule": resilient_by_the_papers_rule,
    "which of 10": candidates,
    "value": _plain("value"),
    "seconds": _plain("seconds"),
    "learning rate": _plain("learning_rate"),
}


def measured(name: str, records: list[Record]) -> Answer:
    """Apply a measure by name; `rounds to X` and `accuracy after N` are written with their number."""
    if name.startswith("accuracy after "):
        return _accuracy_after(int(name.removeprefix("accuracy after ")))(records)
    if name.startswith("rounds to "):
        return _rounds_to(float(name.removeprefix("rounds to ")))(records)
    if name == "milliseconds":
        answer = MEASURES["seconds"](records)
        scaled: Any = None if answer.value is None else 1000 * float(answer.value)
        return Answer(scaled, None, answer.n)
    return MEASURES[name](records)
