"""Settings that meet a target epsilon, found by bisection and checked by accounting them again."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from gradveil.accounting.guarantee import Guarantee
from gradveil.accounting.threats import account
from gradveil.calibration.query import LEAST_SIGMA, Query
from gradveil.errors import BadInput, RunFailed

LARGEST_SIGMA, MOST_ROUNDS, PRECISION = 1e4, 2**15, 1e-3


@dataclass(frozen=True, slots=True)
class Target:
    """What must hold: epsilon at delta, for neighbours, against an adversary."""

    epsilon: float
    delta: float
    adjacency: str
    threat_model: str

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise BadInput(f"target_epsilon = {self.epsilon}: must be a finite number above 0")

    def cost(self, question: Query) -> Guarantee:
        """Account a question against the target's adversary."""
        return account(question.ledger(), self.delta, self.adjacency, self.threat_model)

    def met(self, question: Query) -> bool:
        """Whether a question stays within the target."""
        return self.cost(question).epsilon <= self.epsilon


def solve_sigma(question: Query, target: Target) -> Query:
    """Find the smallest noise scale that meets the target; a decay keeps its ratio of start to end."""
    ratio = 1.0 if question.sigma_end is None else question.sigma_end / question.sigma

    def at(sigma: float) -> Query:
        return replace(question, sigma=sigma, sigma_end=None if question.sigma_end is None else sigma * ratio)

    # Accounting is slow where noise is small, so the search starts in the middle of what is used.
    return _smallest(at, 1.0, target, "no noise scale up to 10,000 meets the target", lower=True)


def solve_decay(question: Query, target: Target) -> Query:
    """Find the smallest sigma_0, and so the rate of decay, that meets the target with the given sigma_T."""
    if question.decay == "constant" or question.sigma_end is None:
        raise BadInput("solve = decay: needs --decay other than constant, and --sigma-end")
    end = question.sigma_end
    complaint = f"no sigma_0 meets the target: the last rounds at sigma_T = {end} already spend more"
    return _smallest(lambda sigma: replace(question, sigma=max(sigma, end)), end, target, complaint)


def solve_rounds(question: Query, target: Target) -> Query:
    """Find the most rounds, up to MOST_ROUNDS, that stay within the target; who takes part does so in all of them."""

    def at(rounds: int) -> Query:
        return replace(question, rounds=rounds, participations=None)

    if not target.met(at(1)):
        raise RunFailed(f"not even one round stays within epsilon {target.epsilon:g}; use more noise")
    low, high = 1, 2
    while target.met(at(high)):
        if high == MOST_ROUNDS:
            return at(high)
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if target.met(at(middle)) else (low, middle)
    return at(low)


def _smallest(at: Callable[[float], Query], start: float, target: Target, complaint: str, lower: bool = False) -> Query:
    """Bisect for the smallest sigma whose question meets the target, from a start below which to look only if `lower`.

    The answer itself has been accounted.
    """
    low = high = start
    while not target.met(at(high)):
        low, high = high, 2 * high
        if high > LARGEST_SIGMA:
            raise RunFailed(complaint)
    while low == high and lower and low > LEAST_SIGMA and target.met(at(max(low / 2, LEAST_SIGMA))):
        low = high = max(low / 2, LEAST_SIGMA)
    low = max(low / 2, LEAST_SIGMA) if low == high and lower else low
    while high - low > PRECISION * low:
        middle = (low + high) / 2
        low, high = (low, middle) if target.met(at(middle)) else (middle, high)
    return at(high)


def curve(question: Query, target: Target, points: int = 10) -> list[tuple[int, Guarantee]]:
    """Account the first rounds at about ten points, under the schedule of the whole run."""
    full, total = question.ledger(), question.rounds
    marks = sorted({max(1, round(total * i / points)) for i in range(1, points + 1)})
    held = []
    for mark in marks:
        part = replace(full, releases=full.releases[:mark], participations=min(full.participations, mark))
        held.append((mark, account(part, target.delta, target.adjacency, target.threat_model)))
    return held
