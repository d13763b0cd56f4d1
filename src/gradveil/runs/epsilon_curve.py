"""How epsilon grew over a run: against every adversary, and by every accountant of the paper."""

from collections.abc import Iterable, Sequence

from gradveil.runs.budget import Budget
from gradveil.runs.epsilon_records import EpsilonCurve, EpsilonCurves, GuaranteeRecord, PaperAccount, PaperCurves
from gradveil.runs.run_records import RoundLine

SHARES = (0.1, 0.25, 0.5)
"""Where on the way a run is accounted again, as shares of its rounds."""


def course(
    budget: Budget, lines: Sequence[RoundLine], guarantees: Sequence[GuaranteeRecord], counted: int | None = None
) -> EpsilonCurves:
    """Return epsilon at some rounds and at the end: sound by adversary, and as the paper accounts.

    counted: how many rounds the guarantees count, if not those that were done.
    """
    return EpsilonCurves(
        sound=tuple(_sound(budget, lines, held, counted or len(lines)) for held in guarantees if held.finite),
        as_the_paper_accounts=_paper(budget, lines),
    )


def _marks(lines: Sequence[RoundLine]) -> list[RoundLine]:
    """Return the lines of the rounds at which to account, without the last."""
    at = sorted({round(share * len(lines)) for share in SHARES})
    return [lines[t - 1] for t in at if 0 < t < len(lines)]


def _sound(budget: Budget, lines: Sequence[RoundLine], held: GuaranteeRecord, counted: int) -> EpsilonCurve:
    done = [(m.round + 1, m.max_participations) for m in _marks(lines)]
    spent = [(t, budget.epsilon(t, most, held.threat_model)) for t, most in done]
    points = [*spent, (counted, held.epsilon)]
    return EpsilonCurve(
        threat_model=held.threat_model,
        unit=held.unit,
        rounds=tuple(t for t, _ in points),
        epsilon=tuple(epsilon for _, epsilon in points),
    )


def _paper(budget: Budget, lines: Sequence[RoundLine]) -> PaperCurves:
    at = [*(mark.round + 1 for mark in _marks(lines)), len(lines)] if lines else []
    figures = [budget.as_the_paper_accounts(t) for t in at]
    accounts = [one for one in figures if isinstance(one, PaperAccount)]
    if not figures or len(accounts) < len(figures):
        return PaperCurves(rounds=tuple(at))
    return PaperCurves(
        rounds=tuple(at),
        moments=_known(one.moments for one in accounts),
        base=_known(one.base for one in accounts),
        advanced=_known(one.advanced for one in accounts),
        zcdp=_known(one.zcdp for one in accounts),
    )


def _known(values: Iterable[float | None]) -> tuple[float, ...] | None:
    """Return a curve, or None if an epsilon of it is infinite."""
    every = tuple(values)
    finite = tuple(value for value in every if value is not None)
    return finite if len(finite) == len(every) else None
