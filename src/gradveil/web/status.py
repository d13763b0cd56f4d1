"""The status of a run, in numbers and words for the page."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gradveil.reports.card import JSON
from gradveil.reports.evidence import Evidence
from gradveil.reports.words import unbroken
from gradveil.runs import store
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.web.child import RunStatus

POINTS = 200
"""The most points of a curve that a page draws."""
Curve = list[tuple[int, float]]


def status(
    run: Evidence, name: str, running: bool, process: RunStatus | None, pace: float | None = None
) -> dict[str, Any]:
    """Return the status of a run, in numbers and words for the page; `pace` is in seconds a round by the clock."""
    finished = run.result is not None and (run.folder / JSON).exists() and not running
    changed = (run.folder / store.PLAN).stat().st_mtime
    return {
        "name": name,
        "dataset": Path(run.plan.dataset).name,
        "method": run.method,
        "state": "finished" if finished else ("running" if running else "stopped"),
        "time": changed,
        "date": datetime.fromtimestamp(changed).strftime("%Y-%m-%d %H:%M"),
        "rounds": run.plan.rounds,
        "done": len(run.lines),
        "accuracy": run.accuracy,
        "baseline": None if run.result is None else run.result.majority_baseline,
        "epsilon": _spent(run),
        "seconds_left": _seconds_left(run, pace) if running else None,
        "doing": _doing(process, running),
        "attacks": len(run.attacks),
        "budget": run.plan.max_epsilon,
        "spark": thinned(_accuracies(run), 24),
        "curve": thinned(_accuracies(run)),
        "spending": thinned([(t, g.epsilon) for t, g in _accounts(run) if g.epsilon is not None]),
        "noise": thinned([(line.round + 1, line.sigma) for line in run.lines]) if _noisy(run) else [],
        **_short(run),
    }


def _seconds_left(run: Evidence, pace: float | None) -> float | None:
    """Return how long the rounds to come take; None if that is not known yet, or if none is to come."""
    if pace is None or not run.lines:
        return None
    return run.lines[-1].rounds_to_come(run.plan.rounds) * pace or None


def unreadable(name: str) -> dict[str, Any]:
    """Return the status of a run that cannot be read."""
    empty = dict.fromkeys(("dataset", "method", "date", "epsilon", "short_epsilon", "short_against"), "")
    nothing: dict[str, Any] = {
        "done": 0,
        "rounds": 0,
        "time": 0,
        "accuracy": None,
        "baseline": None,
        "order_epsilon": "",
        "spark": [],
    }
    return {"name": name, "state": "unreadable", **empty, **nothing}


def thinned(points: Sequence[tuple[int, float]], most: int = POINTS) -> Curve:
    """Return at most `most` points of a curve, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]


def _accuracies(run: Evidence) -> Curve:
    """Return the accuracy after each round; a number that is predicted has none."""
    return [(line.round + 1, line.accuracy) for line in run.lines if line.accuracy is not None]


def _noisy(run: Evidence) -> bool:
    return not run.plan.method.noise.silent


def _accounts(run: Evidence) -> list[tuple[int, GuaranteeRecord]]:
    """Return what was accounted after which round; the result once there is one comes last."""
    accounts = [(line.round + 1, line.spent) for line in run.lines if line.spent is not None]
    if run.guarantee is None:
        return accounts
    return [(t, g) for t, g in accounts if t < len(run.lines)] + [(len(run.lines), run.guarantee)]


def _spent(run: Evidence) -> str:
    """Say what is spent, by whose account and for which unit; the result once there is one, else the last account."""
    accounts = _accounts(run)
    if not accounts:
        return "not accounted yet"
    t, guarantee = accounts[-1]
    against = f"against {guarantee.threat_model}, one {guarantee.unit}, delta {guarantee.delta:g}, after round {t}"
    if guarantee.accountant != "pld":
        against = f"as the paper accounts, not a guarantee, after round {t}"
    return unbroken(f"none finite ({against})" if guarantee.epsilon is None else f"{guarantee.epsilon:.2f} ({against})")


def _short(run: Evidence) -> dict[str, Any]:
    """Return epsilon for a list of runs: the figure, whom it holds against, and what it is ordered by."""
    accounts = _accounts(run)
    if not accounts:
        return {"short_epsilon": "", "short_against": "not accounted yet", "order_epsilon": ""}
    guarantee = accounts[-1][1]
    sound = guarantee.accountant == "pld"
    against = f"{guarantee.threat_model}, one {guarantee.unit}" if sound else "as the paper, no guarantee"
    if guarantee.epsilon is None:
        return {"short_epsilon": "none", "short_against": against, "order_epsilon": 1e300}
    return {"short_epsilon": f"{guarantee.epsilon:.3g}", "short_against": against, "order_epsilon": guarantee.epsilon}


def _doing(process: RunStatus | None, running: bool) -> str:
    """Say what the process of a run does, or why it ended; nothing if all went well or it was stopped."""
    if process is None:
        return ""
    return process.doing if running else (process.refused or "")
