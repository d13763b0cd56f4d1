"""Choosing what to show of an attack that has just been made."""

from typing import Any

import numpy as np

from gradveil.attacks.score import limits, prior_guess
from gradveil.leakage.attack_run import Outcome
from gradveil.reports.exhibits import Exhibit
from gradveil.reports.galleries import drawn
from gradveil.reports.pictures import frames

ROWS, MOMENTS = 6, 5
Array = np.ndarray[Any, Any]


def exhibit_of(outcome: Outcome, rows: int = ROWS, moments: int = MOMENTS) -> Exhibit:
    """Show the first victims of an attack, each at some moments."""
    count = min(moments, max(len(found.x) for found in outcome.founds))
    shown = [_victim(outcome, i, count) for i in range(min(rows, len(outcome.founds)))]
    parts = {name: np.stack([one[name] for one in shown]) for name in shown[0]}
    columns = tuple((c.name, c.start, c.stop) for c in outcome.leaks[0].stage.columns)
    return Exhibit(**parts, columns=columns)


def gallery_of(outcome: Outcome) -> bytes:
    """Draw up to six victims as a PNG."""
    r = outcome.record
    return drawn(
        exhibit_of(outcome),
        f"{r.attack} against {r.method} on {r.dataset}, surface {r.surface} ({r.view})",
    )


def _victim(outcome: Outcome, i: int, moments: int) -> dict[str, Any]:
    """Show the first example of a victim: the guess that came nearest to it, at several moments."""
    found, truth, leak = outcome.founds[i], outcome.truths[i].x[0], outcome.leaks[i]
    low, high = limits(leak)
    errors = [_rmse(np.clip(np.nan_to_num(guess), low, high), truth) for guess in found.x[-1]]
    nearest = int(np.argmin(np.nan_to_num(errors, nan=np.inf)))
    last = len(found.x) - 1
    at = np.sort(np.resize(frames(len(found.x), moments) if moments > 1 else (last,), moments))
    guess = prior_guess(leak)
    return {
        "truth": truth.astype(np.float32),
        "guesses": np.stack([np.clip(np.nan_to_num(found.x[s][nearest]), low, high) for s in at]).astype(np.float32),
        "prior": guess.astype(np.float32),
        "iterations": found.iterations[at].astype(np.int64),
        "errors": np.float64(errors[nearest]),
        "prior_errors": np.float64(_rmse(guess, truth)),
        "clients": np.int64(outcome.clients[i]),
    }


def _rmse(one: Array, other: Array) -> float:
    return float(np.sqrt(np.mean(np.square(one - other))))
