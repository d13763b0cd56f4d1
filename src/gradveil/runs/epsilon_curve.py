"""How epsilon grew over a run: against every adversary, and by every accountant of the paper."""

from collections.abc import Sequence
from typing import Any

from gradveil.runs.budget import Budget

Line = dict[str, Any]
SHARES = (0.1, 0.25, 0.5)
"""Where on the way a run is accounted again, as shares of its rounds."""
ACCOUNTANTS = ("moments", "base", "advanced", "zcdp")


def course(
    budget: Budget, lines: Sequence[Line], guarantees: Sequence[Line], counted: int | None = None
) -> dict[str, Any]:
    """Return epsilon at some rounds and at the end, as JSON: sound by adversary, and as the paper accounts.

    counted: how many rounds the guarantees count, if not those that were done.
    """
    return {
        "sound": [_sound(budget, lines, held, counted or len(lines)) for held in guarantees if held["finite"]],
        "as_the_paper_accounts": _paper(budget, lines),
    }


def _marks(lines: Sequence[Line]) -> list[Line]:
    """Return the lines of the rounds at which to account, without the last."""
    at = sorted({round(share * len(lines)) for share in SHARES})
    return [lines[t - 1] for t in at if 0 < t < len(lines)]


def _sound(budget: Budget, lines: Sequence[Line], held: Line, counted: int) -> dict[str, Any]:
    threat, done = held["threat_model"], [(m["round"] + 1, m["max_participations"]) for m in _marks(lines)]
    spent = [(t, budget.epsilon(t, most, threat)) for t, most in done]
    points = [*spent, (counted, held["epsilon"])]
    return {
        "threat_model": threat,
        "unit": held["unit"],
        "rounds": [t for t, _ in points],
        "epsilon": [epsilon for _, epsilon in points],
    }


def _paper(budget: Budget, lines: Sequence[Line]) -> dict[str, Any]:
    at = [*(mark["round"] + 1 for mark in _marks(lines)), len(lines)] if lines else []
    figures = [budget.as_the_paper_accounts(t) for t in at]
    known = [name for name in ACCOUNTANTS if figures and all(isinstance(f.get(name), float) for f in figures)]
    return {"rounds": at, **{name: [f[name] for f in figures] for name in known}}
