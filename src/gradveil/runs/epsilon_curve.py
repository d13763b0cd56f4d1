"""How epsilon grew over a run: against every adversary, and by every accountant of the paper."""

from collections.abc import Iterable, Sequence

from gradveil.runs.budget import Budget
from gradveil.runs.epsilon_records import EpsilonCurve, EpsilonCurves, GuaranteeRecord, PaperAccount, PaperCurves
from gradveil.runs.run_records import RoundLine

SHARES = (0.1, 0.25, 0.5)
"""Where on the way a run is accounted again, as shares of its rounds."""


def epsilon_curves(
    budget: Budget, lines: Sequence[RoundLine], guarantees: Sequence[GuaranteeRecord], counted: int | None = None
) -> EpsilonCurves:
    """Return epsilon at some rounds and at the end: sound by adversary, and as the paper accounts.

    counted: how many rounds the guarantees count, if not those that were done.
    """
    return EpsilonCurves(
        sound=tuple(
            _sound(budget, lines, guarantee, counted or len(lines)) for guarantee in guarantees if guarantee.finite
        ),
        as_the_paper_accounts=_paper(budget, lines),
    )


def _marks(lines: Sequence[RoundLine]) -> list[RoundLine]:
    """Return the lines of the rounds at which to account, without the last."""
    at = sorted({round(share * len(lines)) for share in SHARES})
    return [lines[t - 1] for t in at if 0 < t < len(lines)]


def _sound(budget: Budget, lines: Sequence[RoundLine], guarantee: GuaranteeRecord, counted: int) -> EpsilonCurve:
    done = [(m.round + 1, m.max_participations) for m in _marks(lines)]
    spent = [(t, budget.epsilon(t, most, guarantee.threat_model)) for t, most in done]
    points = [*spent, (counted, guarantee.epsilon)]
    return EpsilonCurve(
        threat_model=guarantee.threat_model,
        unit=guarantee.unit,
        rounds=tuple(t for t, _ in points),
        epsilon=tuple(epsilon for _, epsilon in points),
    )


def _paper(budget: Budget, lines: Sequence[RoundLine]) -> PaperCurves:
    at = [*(mark.round + 1 for mark in _marks(lines)), len(lines)] if lines else []
    figures = [budget.as_the_paper_accounts(t) for t in at]
    accounts = [account for account in figures if isinstance(account, PaperAccount)]
    if not figures or len(accounts) < len(figures):
        return PaperCurves(rounds=tuple(at))
    return PaperCurves(
        rounds=tuple(at),
        moments=_all_finite(account.moments for account in accounts),
        base=_all_finite(account.base for account in accounts),
        advanced=_all_finite(account.advanced for account in accounts),
        zcdp=_all_finite(account.zcdp for account in accounts),
    )


def _all_finite(values: Iterable[float | None]) -> tuple[float, ...] | None:
    """Return a curve, or None if an epsilon of it is infinite."""
    every = tuple(values)
    finite = tuple(value for value in every if value is not None)
    return finite if len(finite) == len(every) else None
