"""From the records of a job, one a seed, to the number in a cell and its standard error."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradveil import codec
from gradveil.accounting.guarantee import Guarantee
from gradveil.reproduction.cell import Measurement
from gradveil.reproduction.job_cache import (  # fmt: skip
    AttackScores,
    GuaranteesRecord,
    TimingRecord,
    TrainingRecord,
    ValueRecord,
)
from gradveil.reproduction.training_jobs import accuracy_error

FEWEST = 3
"""Seeds below which what is trained is not compared with the paper."""


def accuracy(records: Sequence[TrainingRecord]) -> Measurement:
    """Return the mean over seeds; its error joins that of the test examples and that between seeds."""
    return _mean_accuracy(records, [record.accuracy for record in records])


def _mean_accuracy(records: Sequence[TrainingRecord], accuracies: list[float | None]) -> Measurement:
    reached = [a for a in accuracies if a is not None]
    few, guarantee = len(records) < FEWEST, guarantee_text(records[0])
    if len(reached) < len(accuracies):
        return Measurement("diverged", n=len(accuracies), guarantee=guarantee, few=few)
    spread = _spread(reached)
    # All seeds are tested on the same examples, so their error does not fall with the number of seeds.
    within = float(np.mean([accuracy_error(a, _tested_on(r)) for a, r in zip(reached, records, strict=True)])) ** 2
    error = math.sqrt(within + (spread or 0.0) ** 2 / len(reached))
    return Measurement(float(np.mean(reached)), error, len(reached), spread, guarantee, few)


def _tested_on(record: TrainingRecord) -> float:
    """Return the number of test examples n: a record holds only the final accuracy a and e^2 = max(a (1 - a), 1/n) / n.

    Where a (1 - a) is the larger, n = a (1 - a) / e^2, which is then at least 1 / e; else n = 1 / e, which is larger.
    """
    a, e = record.accuracy or 0.0, record.accuracy_error or math.nan
    return float(max(a * (1 - a) / e**2, 1 / e))


def _spread(values: Sequence[float]) -> float | None:
    return float(np.std(values, ddof=1)) if len(values) > 1 else None


def _mean(values: Sequence[float], few: bool = False) -> Measurement:
    """Return the mean over seeds; its error is that between them, if there are several."""
    spread = _spread(values)
    error = None if spread is None else spread / math.sqrt(len(values))
    return Measurement(float(np.mean(values)), error, len(values), spread, few=few)


def _guarantees(record: TrainingRecord | GuaranteesRecord) -> list[Guarantee]:
    """Read stored guarantees; an epsilon of null is infinite."""
    plain = [{key: value for key, value in fields.items() if key != "finite"} for fields in record.guarantees]
    return [
        codec.decode(Guarantee, fields | {"epsilon": math.inf if fields.get("epsilon") is None else fields["epsilon"]})
        for fields in plain
    ]


def guarantee_text(record: TrainingRecord | GuaranteesRecord) -> str:
    """Say what a sound accountant guarantees for a run, and against whom."""
    for guarantee in _guarantees(record):
        if guarantee.threat_model in ("server", "client-central"):
            whom = f"for one {guarantee.unit} against {guarantee.threat_model}"
            epsilon = f"epsilon {guarantee.epsilon:.3g} {whom}, delta {guarantee.delta:g}"
            return epsilon if guarantee.finite else f"no finite epsilon {whom}"
    return ""


def sound_epsilon(records: Sequence[GuaranteesRecord]) -> Measurement:
    """Return the epsilon of a plan that was accounted soundly, or the word none."""
    (guarantee,) = _guarantees(records[0])
    return Measurement(guarantee.epsilon if guarantee.finite else "none", guarantee=guarantee_text(records[0]))


def _over_victims(name: str) -> Callable[[Sequence[AttackScores]], Measurement]:
    """Average a number over the victims of each seed, then over seeds.

    The victims of one seed share a network: with several seeds the error is that between their means.
    """

    def measure(records: Sequence[AttackScores]) -> Measurement:
        by_seed = [[float(getattr(victim, name)) for victim in record.victims] for record in records]
        values = [value for seed in by_seed for value in seed]
        if not values:
            return Measurement(None)
        spread = _spread([float(np.mean(seed)) for seed in by_seed])
        within = float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else None
        between = None if spread is None else spread / math.sqrt(len(by_seed))
        error = within if between is None or within is None else max(within, between)
        return Measurement(float(np.mean(values)), error, len(values), spread)

    return measure


def success(records: Sequence[AttackScores]) -> Measurement:
    """Return the proportion of victims that were recovered; its error is binomial, at least that of one victim."""
    hits = [victim.success for record in records for victim in record.victims]
    return _proportion(float(np.mean(hits)), len(hits)) if hits else Measurement(None)


def candidates(records: Sequence[AttackScores]) -> Measurement:
    """Return how often the true record was picked out of ten."""
    picked = [(record.of_ten, record.trials) for record in records if record.of_ten is not None]
    n = sum(trials for _, trials in picked)
    return _proportion(sum(rate * trials for rate, trials in picked) / n, n) if picked else Measurement(None)


def _proportion(p: float, n: int) -> Measurement:
    return Measurement(p, math.sqrt(max(p * (1 - p), 1 / (4 * n)) / n), n)


def median_rmse(records: Sequence[AttackScores]) -> Measurement:
    """Return the median over all victims of the clamped error: one guess that ran away does not move it.

    Its error is that of a median of normal values, 1.25 deviations over sqrt(n), the deviation as 1.48 times the median
    distance from the median.
    """
    errors = [victim.rmse for record in records for victim in record.victims]
    if not errors:
        return Measurement(None)
    middle = float(np.median(errors))
    deviation = 1.4826 * float(np.median(np.abs(np.array(errors) - middle)))
    return Measurement(middle, 1.2533 * deviation / math.sqrt(len(errors)), len(errors))


def verdict(records: Sequence[AttackScores]) -> Measurement:
    """Say what the attack found, by gain and identification: a leak of any seed, else whether all could have told."""
    verdicts = [record.verdict for record in records]
    if None in verdicts or not verdicts:
        return Measurement(None)
    order = ("leaks", "too-few-victims", "nothing-found")
    return Measurement(next(word for word in order if word in verdicts), n=sum(len(r.victims) for r in records))


def resilient_by_the_papers_rule(records: Sequence[AttackScores]) -> Measurement:
    """Say Y where the unclamped error is 0.6 or more for half of all victims."""
    over_threshold = [victim.rmse_unclamped >= 0.6 for record in records for victim in record.victims]
    return Measurement(
        ("Y" if np.mean(over_threshold) >= 0.5 else "N") if over_threshold else None, n=len(over_threshold)
    )


def value(records: Sequence[ValueRecord]) -> Measurement:
    """Return a number or a text as it was computed: numbers that are not whole are averaged over seeds."""
    first = records[0].value
    if isinstance(first, str | int):
        return Measurement(first, n=len(records))
    return _mean([float(record.value) for record in records])


def seconds(records: Sequence[TimingRecord]) -> Measurement:
    """Return the mean of the timings."""
    return _mean([record.seconds for record in records])


def milliseconds(records: Sequence[TimingRecord]) -> Measurement:
    """Return the mean of the timings in ms, without an error."""
    return Measurement(1000 * float(np.mean([record.seconds for record in records])), None, len(records))


def learning_rate(records: Sequence[TrainingRecord]) -> Measurement:
    """Return the learning rate that was used, or the mean of those that were chosen."""
    return _mean([record.learning_rate for record in records])


def rounds(records: Sequence[TrainingRecord]) -> Measurement:
    """Return the rounds that were trained."""
    return Measurement(float(np.mean([record.rounds for record in records])), n=len(records))


def rounds_to(target: float, records: Sequence[TrainingRecord]) -> Measurement:
    """Count the rounds until the accuracy first reaches the target."""
    firsts = [next((t + 1 for t, a in enumerate(record.curve) if a >= target), None) for record in records]
    reached, few = [float(first) for first in firsts if first is not None], len(records) < FEWEST
    if len(reached) < len(firsts):
        return Measurement("not reached", n=len(records), guarantee=guarantee_text(records[0]), few=few)
    return _mean(reached, few)


def accuracy_after(count: int, records: Sequence[TrainingRecord]) -> Measurement:
    """Return the mean accuracy after some rounds; nothing if a run was shorter."""
    if any(len(record.curve) < count and not record.diverged for record in records):
        return Measurement(None)
    return _mean_accuracy(records, [None if record.diverged else record.curve[count - 1] for record in records])


MEASURES: dict[str, Callable[[Any], Measurement]] = {
    "accuracy": accuracy,
    "rounds": rounds,
    "learning rate": learning_rate,
    "sound epsilon": sound_epsilon,
    "success": success,
    "rmse": _over_victims("rmse"),
    "median rmse": median_rmse,
    "iterations": _over_victims("iterations"),
    "gain": _over_victims("gain"),
    "resilient by the paper's rule": resilient_by_the_papers_rule,
    "which of 10": candidates,
    "verdict": verdict,
    "value": value,
    "seconds": seconds,
    "milliseconds": milliseconds,
}


def measured(name: str, records: Sequence[Any]) -> Measurement:
    """Apply a measure by name; `rounds to X` and `accuracy after N` are written with their number."""
    if name.startswith("accuracy after "):
        return accuracy_after(int(name.removeprefix("accuracy after ")), records)
    if name.startswith("rounds to "):
        return rounds_to(float(name.removeprefix("rounds to ")), records)
    return MEASURES[name](records)
