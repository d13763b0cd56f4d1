"""The status of a run, in numbers and words for the page."""

from pathlib import Path
from typing import Any

from gradveil.reports.card import JSON
from gradveil.reports.evidence import Evidence
from gradveil.web.child import RunStatus


def _spent(run: Evidence) -> str:
    """Say what is spent, by whose account and for which unit; the result once there is one, else the last account."""
    accounts = [(line.round + 1, line.spent) for line in run.lines if line.spent is not None]
    accounts += [(len(run.lines), run.guarantee)] if run.guarantee is not None else []
    if not accounts:
        return "not accounted yet"
    t, guarantee = accounts[-1]
    against = f"against {guarantee.threat_model}, one {guarantee.unit}, delta {guarantee.delta:g}, after round {t}"
    if guarantee.accountant != "pld":
        against = f"as the paper accounts, not a guarantee, after round {t}"
    return f"none finite ({against})" if guarantee.epsilon is None else f"{guarantee.epsilon:.2f} ({against})"


def _doing(process: RunStatus | None, running: bool) -> str:
    """Say what the process of a run does, or why it ended; nothing if all went well or it was stopped."""
    if process is None:
        return ""
    return process.doing if running else (process.refused or "")


def status(run: Evidence, name: str, running: bool, process: RunStatus | None) -> dict[str, Any]:
    """Return the status of a run, in numbers and words for the page."""
    done, seconds = len(run.lines), [line.seconds for line in run.lines[-10:]]
    curve = [(line.round + 1, line.accuracy) for line in run.lines if line.accuracy is not None]
    finished = run.result is not None and (run.folder / JSON).exists() and not running
    return {
        "name": name,
        "dataset": Path(run.plan.dataset).name,
        "method": run.method,
        "state": "finished" if finished else ("running" if running else "stopped"),
        "rounds": run.plan.rounds,
        "done": done,
        "accuracy": curve[-1][1] if curve else None,
        "epsilon": _spent(run),
        "seconds_left": (run.plan.rounds - done) * sum(seconds) / len(seconds) if running and seconds else None,
        "doing": _doing(process, running),
        "attacks": len(run.attacks),
        "curve": curve,
    }
