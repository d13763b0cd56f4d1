"""From the records of a work, one a seed, to the number in a cell and its standard error."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradveil.experiments.tables.cell import Answer
from gradveil.experiments.tables.works import Record

Measure = Callable[[list[Record]], Answer]


def accuracy(records: list[Record]) -> Answer:
    """Give the mean over seeds; its error joins that of the test examples and that between seeds."""
    values = [r["accuracy"] for r in records]
    if any(v is None for v in values):
        return Answer("diverged", n=len(values), guarantee=sound(records[0]))
    spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
    between = (spread or 0.0) ** 2 / len(values)
    # All seeds are tested on the same examples, so their error does not fall with the number of seeds.
    within = float(np.mean([r["accuracy_error"] for r in records])) ** 2
    return Answer(float(np.mean(values)), math.sqrt(within + between), len(values), spread, sound(records[0]))


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


def _over_victims(name: str) -> Measure:
    """Average a number over all victims of all seeds."""

    def measure(records: list[Record]) -> Answer:
        values = [float(v[name]) for r in records for v in r["per_victim"]]
        error = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
        return Answer(float(np.mean(values)), error, len(values))

    return measure


def success(records: list[Record]) -> Answer:
    """Give the share of victims that were recovered; its error is binomial, at least that of one victim."""
    hits = [bool(v["success"]) for r in records for v in r["per_victim"]]
    share, n = float(np.mean(hits)), len(hits)
    return Answer(share, math.sqrt(max(share * (1 - share), 1 / (4 * n)) / n), n)


def _flag(name: str) -> Measure:
    def measure(records: list[Record]) -> Answer:
        said = records[0][name]
        return Answer(None if said is None else ("Y" if said else "N"), n=len(records[0]["per_victim"]))

    return measure


def candidates(records: list[Record]) -> Answer:
    """Give how often the true record was picked out of ten."""
    first = next((c for c in records[0]["candidates"] if c["n"] == 10), None)
    if first is None:
        return Answer(None)
    low, high = first["success_ci"]
    return Answer(first["success"], (high - low) / 4, records[0]["victims"])


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
        if any(first is None for first in firsts):
            return Answer("not reached", n=len(records), guarantee=sound(records[0]))
        return Answer(float(np.mean([f for f in firsts if f is not None])), n=len(records))

    return measure


def _accuracy_after(count: int) -> Measure:
    """Read the curve after some rounds."""

    def measure(records: list[Record]) -> Answer:
        values = [r["curve"][count - 1] for r in records if len(r["curve"]) >= count]
        return Answer(float(np.mean(values)), n=len(values)) if values else Answer(None)

    return measure


def rounds(records: list[Record]) -> Answer:
    """Give the rounds that were trained."""
    return Answer(float(np.mean([r["rounds"] for r in records])), n=len(records))


MEASURES: dict[str, Measure] = {
    "accuracy": accuracy,
    "rounds": rounds,
    "success": success,
    "rmse": _over_victims("rmse"),
    "rmse unclamped": _over_victims("rmse_unclamped"),
    "iterations": _over_victims("iterations"),
    "gain": _over_victims("gain"),
    "resilient by the paper's rule": _flag("resilient_by_the_papers_rule"),
    "resilient": _flag("resilient"),
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
