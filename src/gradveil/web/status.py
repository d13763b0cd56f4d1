"""How a run stands, in numbers and words for the page."""

import math
from pathlib import Path
from typing import Any

from gradveil.errors import BadInput
from gradveil.reports.card import JSON
from gradveil.reports.evidence import Evidence
from gradveil.web.refusals import brief


def _spent(run: Evidence) -> str:
    """Say what is spent, by whose account and for which unit; the result once there is one, else the last account."""
    accounts = [(line["round"] + 1, line["spent"]) for line in run.lines if line.get("spent") is not None]
    t, held = (len(run.lines), run.guarantee) if run.guarantee is not None else (accounts or [(0, None)])[-1]
    if held is None:
        return "not accounted yet"
    against = f"against {held['threat_model']}, one {held['unit']}, delta {held['delta']:g}, after round {t}"
    if held["accountant"] != "pld":
        against = f"as the paper accounts, not a guarantee, after round {t}"
    return f"{held['epsilon']:.2f} ({against})" if held["finite"] else f"none finite ({against})"


def _number(line: dict[str, Any], key: str) -> float:
    """Return a finite number of a line: the page formats it and a script draws it."""
    value = line[key]
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadInput(f"metrics.jsonl: {key} = {brief(value)} is no number")
    return float(value)


def status(run: Evidence, name: str, running: bool) -> dict[str, Any]:
    """Say how a run stands, in numbers and words for the page."""
    done, seconds = len(run.lines), [_number(line, "seconds") for line in run.lines[-10:]]
    curve = [[int(_number(line, "round")) + 1, _number(line, "accuracy")] for line in run.lines]
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
        "attacks": len(run.attacks),
        "curve": curve,
    }
