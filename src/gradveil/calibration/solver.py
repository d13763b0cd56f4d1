"""Settings that meet a target epsilon, by bisection; the result itself is accounted."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from gradveil.accounting.accountant import account
from gradveil.accounting.guarantee import Guarantee
from gradveil.calibration.query import LEAST_SIGMA, Query
from gradveil.errors import BadInput, RunFailed

LARGEST_SIGMA, MOST_ROUNDS, PRECISION = 1e4, 2**15, 1e-3


@dataclass(frozen=True, slots=True)
class Target:
    """The target: epsilon at delta, under an adjacency, against an adversary."""

    epsilon: float
    delta: float
    adjacency: str
    threat_model: str

    def __post_init__(self) -> None:
        if not 0 < self.epsilon < math.inf:
            raise BadInput(f"target_epsilon = {self.epsilon}: must be a finite number above 0")

    def cost(self, query: Query) -> Guarantee:
        """Return the guarantee of a query against the target's adversary."""
        return account(query.ledger(), self.delta, self.adjacency, self.threat_model)

    def met(self, query: Query) -> bool:
        """Whether a query stays within the target."""
        return self.cost(query).epsilon <= self.epsilon


def solve_sigma(query: Query, target: Target) -> Query:
    """Find the smallest noise scale that meets the target; a decay keeps its ratio of start to end."""
    ratio = 1.0 if query.sigma_end is None else query.sigma_end / query.sigma

    def at(sigma: float) -> Query:
        return replace(query, sigma=sigma, sigma_end=None if query.sigma_end is None else sigma * ratio)

    # Accounting is slow where noise is small, so the search starts at a usual noise scale.
    return _smallest(at, 1.0, target, "no noise scale up to 10,000 meets the target", lower=True)


def solve_decay(query: Query, target: Target) -> Query:
    """Find the smallest sigma_0, and so the rate of decay, that meets the target with the given sigma_T."""
    if query.decay == "constant" or query.sigma_end is None:
        raise BadInput("solve = decay: needs --decay other than constant, and --sigma-end")
    end = query.sigma_end
    complaint = f"no sigma_0 meets the target: the last rounds at sigma_T = {end} already spend more"
    return _smallest(lambda sigma: replace(query, sigma=max(sigma, end)), end, target, complaint)


def solve_rounds(query: Query, target: Target) -> Query:
    """Return the query with the most rounds within the target, for a client that participates in all of them."""

    def at(rounds: int) -> Query:
        return replace(query, rounds=rounds, participations=None)

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
    """Return the query with the smallest sigma that meets the target, by bisection above `start`, or around it.

    lower: whether to search below `start` too. The returned query itself has been accounted.
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


def curve(query: Query, target: Target, points: int = 10) -> list[tuple[int, Guarantee]]:
    """Return the guarantee after the first rounds, at about ten points of the run."""
    full, total = query.ledger(), query.rounds
    marks = sorted({max(1, round(total * i / points)) for i in range(1, points + 1)})
    costs = []
    for mark in marks:
        part = replace(full, releases=full.releases[:mark], participations=min(full.participations, mark))
        costs.append((mark, account(part, target.delta, target.adjacency, target.threat_model)))
    return costs
