"""The first screen of a report: how good the model is, what is guaranteed, and what attackers got, for anyone."""

import math
from dataclasses import dataclass

from gradveil.reports.evidence import WHERE, Evidence
from gradveil.reports.words import WHOM, of_data
from gradveil.runs.run_records import quality


@dataclass(frozen=True, slots=True)
class Tile:
    """One answer: what is asked, the answer in a few words, and a sentence that says it in full."""

    asks: str
    answer: str
    says: str


def verdict(run: Evidence) -> tuple[Tile, Tile, Tile]:
    """Answer the three questions that a reader has about a run."""
    return (
        Tile("How good is the model?", _accuracy(run), _learned(run)),
        Tile("What is guaranteed?", epsilon(run), _promised(run)),
        Tile("What did attacks recover?", _finding(run), _leaked(run)),
    )


def epsilon(run: Evidence) -> str:
    """Name the guarantee against the adversary of the plan in a few words."""
    guarantee = run.guarantee
    if guarantee is None:
        return "not computed yet"
    return "no finite epsilon" if guarantee.epsilon is None else f"epsilon {guarantee.epsilon:.3g}"


def _accuracy(run: Evidence) -> str:
    if not run.lines:
        return "not trained yet"
    return quality(run.lines[-1]) if run.accuracy is None else f"{run.accuracy:.0%} right"


def _learned(run: Evidence) -> str:
    """Say how many test examples are right, or how far off a number is, beside what a constant answer gets."""
    if not run.lines:
        return f"No round of {run.method} is trained yet."
    how = "without protection" if run.plan.method.idle else f"under {run.method}"
    result = run.result
    if result is None:
        done = f"after {len(run.lines)} of {run.plan.rounds} rounds"
        return f"Trained {how}, the model {_is_good(run)} the test examples {done}."
    tested = f"Trained {how}, the model {_is_good(run)} {result.test_examples} test examples"
    if result.accuracy_interval is None:
        return f"{tested}. Always naming the mean has RMSE {result.mean_baseline:.4g}."
    low, high = result.accuracy_interval
    return (
        f"{tested} (95 % interval {low:.1%} to {high:.1%}). Always naming the most frequent class is right on "
        f"{result.majority_baseline:.1%}."
    )


def _is_good(run: Evidence) -> str:
    return f"has {quality(run.lines[-1])} on" if run.accuracy is None else f"is right on {run.accuracy:.1%} of"


def _promised(run: Evidence) -> str:
    """Say in one sentence what holds against whom."""
    guarantee = run.guarantee
    if guarantee is None:
        return "The guarantee is computed when training ends."
    whom = WHOM[guarantee.threat_model]
    if guarantee.epsilon is None:
        return f"There is no privacy guarantee against {whom}."
    aside = ", except for what was taken from the records without noise" if of_data(guarantee) else ""
    return (
        f"Against {whom}, adding or removing one {guarantee.unit} changes the probability of any outcome by at most a "
        f"factor of {_factor(guarantee.epsilon)} (delta {guarantee.delta:g}), {_strength(guarantee.epsilon)}{aside}."
    )


def _factor(epsilon: float) -> str:
    return f"{math.exp(epsilon):.3g}" if epsilon < 7 else f"e^{epsilon:.3g}"


def _strength(epsilon: float) -> str:
    """Say what an epsilon of this size is commonly called."""
    if epsilon <= 1:
        return "a strong guarantee"
    return "a moderate guarantee" if epsilon <= 10 else "a weak guarantee"


def _places(run: Evidence, verdict: str) -> list[str]:
    """Name the places where the attack that says most ended with a verdict."""
    best = {surface: run.strongest(surface) for surface in WHERE}
    return [WHERE[s] for s, one in best.items() if one is not None and one.record.verdict == verdict]


def _finding(run: Evidence) -> str:
    if not run.attacks:
        return "not attacked"
    if _places(run, "leaks"):
        return "part of the data"
    return "too few victims to tell" if _places(run, "too-few-victims") else "nothing found"


def _leaked(run: Evidence) -> str:
    """Say where attacks recovered data; that they recovered none proves nothing."""
    if not run.attacks:
        return "No attack was tried on this run; the command gradveil attack tries some."
    if places := _places(run, "leaks"):
        return f"Our attacks recovered part of the data {_listed(places)}.{_share(run)}"
    if places := _places(run, "too-few-victims"):
        return f"There were too few victims to tell whether our attacks recovered anything {_listed(places)}."
    tried = _listed(_places(run, "nothing-found"))
    return f"Our attacks {tried} recovered no more than a guess that reads no gradient. Another attack might."


def _share(run: Evidence) -> str:
    """Say how much the strongest attack recovered: a leak can be a trace or the whole record."""
    if not run.leakage:
        return ""
    return (
        f" The strongest took away {run.leakage:.2g} of the error of a guess that reads no gradient (1 is all of it)."
    )


def _listed(names: list[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last
