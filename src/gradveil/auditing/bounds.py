"""Lower bounds on epsilon from what was observed, and the most that so many observations could have shown.

Every bound is at least as large as the true epsilon with probability at most 1 - confidence, whatever the mechanism.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, ndtr, ndtri
from scipy.stats import binom, chi2

from gradveil.accounting.tight import gaussian_epsilon

Excess = Callable[[float], float]
MOST_MU = 40.0
"""Beyond it two Gaussians do not overlap in double precision."""
MOST_EPSILON = 700.0
"""Stands for infinity: e^700 is about the largest number that can be computed with."""


def at_least(successes: int, trials: int, confidence: float) -> float:
    """Return the Clopper-Pearson lower limit p of a probability: P(Bin(trials, p) >= successes) = 1 - confidence."""
    return 0.0 if successes <= 0 else float(betaincinv(successes, trials - successes + 1, 1 - confidence))


def at_most(successes: int, trials: int, confidence: float) -> float:
    """Return the Clopper-Pearson upper limit of a probability."""
    return 1.0 - at_least(trials - successes, trials, confidence)


class Guesses(NamedTuple):
    """How often a test said "with the unit": `hits` of `with_unit` releases with it, `alarms` of `without` without."""

    hits: int
    with_unit: int
    alarms: int
    without: int

    @property
    def reversed(self) -> "Guesses":
        """The same test read the other way round: how often it said "without the unit"."""
        return Guesses(self.without - self.alarms, self.without, self.with_unit - self.hits, self.with_unit)


def epsilon_of_guesses(guesses: Guesses, delta: float, confidence: float) -> float:
    """Return the lower bound ln((TPR - delta) / FPR), both rates at limits that hold together with the confidence.

    (epsilon, delta) implies TPR <= e^epsilon FPR + delta for every test.
    """
    each = 1 - (1 - confidence) / 2
    hit = at_least(guesses.hits, guesses.with_unit, each) - delta
    alarm = at_most(guesses.alarms, guesses.without, each)
    return max(0.0, math.log(hit / alarm)) if hit > 0 else 0.0


def mu_of_guesses(guesses: Guesses, confidence: float) -> float:
    """Return the lower bound on the mu of Gaussian differential privacy: Phi^-1(TPR) - Phi^-1(FPR) at their limits."""
    each = 1 - (1 - confidence) / 2
    hit = at_least(guesses.hits, guesses.with_unit, each)
    alarm = at_most(guesses.alarms, guesses.without, each)
    return max(0.0, float(ndtri(hit) - ndtri(alarm))) if hit > 0 and alarm < 1 else 0.0


def ceiling_of_guesses(with_unit: int, without: int, delta: float, confidence: float) -> float:
    """Return the largest bound that so many releases can give: that of a test without an error."""
    return epsilon_of_guesses(Guesses(with_unit, with_unit, 0, without), delta, confidence)


def epsilon_of_one_run(canaries: int, guesses: int, correct: int, delta: float, confidence: float) -> float:
    """Return the lower bound of one run with m canaries, each in or out by a coin (Steinke, Nasr, Jagielski 2023).

    Under (epsilon, delta), with p = e^epsilon / (1 + e^epsilon) and v guesses, the rest abstained from,
        P(correct >= r) <= beta + 2 m delta alpha,  beta = P(Bin(v, p) >= r),
        alpha = max over i = 1..r of P(r - i <= Bin(v, p) < r) / i.
    The bound is the largest epsilon at which that is below 1 - confidence.
    """
    miss = 1 - confidence

    def excess(epsilon: float) -> float:
        return one_run_chance(canaries, guesses, correct, delta, epsilon) - miss

    if correct <= 0 or excess(0.0) >= 0:
        return 0.0
    return MOST_EPSILON if excess(50.0) < 0 else float(brentq(excess, 0.0, 50.0, xtol=1e-9))


def one_run_chance(canaries: int, guesses: int, correct: int, delta: float, epsilon: float) -> float:
    """Return the most that the probability of so many correct guesses can be under (epsilon, delta)."""
    p = 1 / (1 + math.exp(-epsilon))
    tail = binom.sf(np.arange(correct, -1, -1) - 1, guesses, p)  # P(Bin >= r), P(Bin >= r - 1), ..., P(Bin >= 0)
    alpha = float(np.max((tail[1:] - tail[0]) / np.arange(1, correct + 1))) if correct else 0.0
    return min(1.0, float(tail[0]) + 2 * canaries * delta * alpha)


def mu_of_one_run(canaries: int, guesses: int, correct: int, confidence: float) -> float:
    """Return the lower bound on mu of one run with m canaries, where f is Gaussian (Mahloujifar, Melis, Chaudhuri).

    It is the largest mu at which so many correct guesses contradict mu-GDP (`_balance`).
    """
    miss = 1 - confidence

    def excess(mu: float) -> float:
        return _balance(canaries, guesses, correct, mu, miss)

    if correct <= 0 or excess(0.0) <= 0:
        return 0.0
    return math.inf if excess(MOST_MU) > 0 else float(brentq(excess, 0.0, MOST_MU, xtol=1e-9))


def _balance(canaries: int, guesses: int, correct: int, mu: float, miss: float) -> float:
    """Return what the chances of k guesses add up to, less k / m; above 0 they contradict mu-GDP.

    Suppose that r or more guesses are right with probability `miss`. A canary is then guessed right among them with
    probability R = miss r / m at least, and wrong with W = miss (k - r) / m. Step by step for one right guess less:
    wrong guesses have at least the probability that mu-GDP demands, W' = max(W, Phi(Phi^-1(R) - mu)), and right ones
    grow with them, R' = R + i / (k - i) (W' - W). All guesses together make R + W = k / m; more is impossible.
    """
    right, wrong = miss * correct / canaries, miss * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        demanded = max(wrong, float(ndtr(ndtri(right) - mu)))
        if demanded == wrong:
            break
        right, wrong = min(1.0, right + i / (guesses - i) * (demanded - wrong)), demanded
    return right + wrong - guesses / canaries


def noise_limit(
    noise: Sequence[float] | np.ndarray[tuple[int, ...], np.dtype[np.floating]], confidence: float
) -> float:
    """Return an upper limit of the standard deviation of Gaussian noise, whose sum of squares is chi-square."""
    values = np.asarray(noise, np.float64).ravel()
    if not len(values):
        return 0.0
    return math.sqrt(float(np.sum(values**2)) / float(chi2.ppf(1 - confidence, len(values))))


def epsilon_of_scales(larger: float, smaller: float, coordinates: int, delta: float) -> float:
    """Return epsilon of N(0, larger^2 I) against N(0, smaller^2 I), the larger of both directions.

    The ratio of densities is a function of ||x||^2, which is chi-square: with rho = larger / smaller the first is above
    e^epsilon times the second where ||x||^2 / smaller^2 > t = 2 (epsilon + d ln rho) rho^2 / (rho^2 - 1), and the
    second above the first where it is below t = 2 (d ln rho - epsilon) rho^2 / (rho^2 - 1).
    """
    if larger <= smaller or coordinates < 1:
        return 0.0
    if smaller <= 0 or (rho := larger / smaller) > 1e6:
        return MOST_EPSILON
    widest, d = rho * rho / (rho * rho - 1), coordinates

    def spread(epsilon: float) -> float:
        t = 2 * widest * (epsilon + d * math.log(rho))
        return float(chi2.sf(t / rho**2, d)) - math.exp(min(epsilon + float(chi2.logsf(t, d)), 0.0)) - delta

    def gathered(epsilon: float) -> float:
        t = 2 * widest * (d * math.log(rho) - epsilon)
        return float(chi2.cdf(t, d)) - math.exp(min(epsilon + float(chi2.logcdf(t / rho**2, d)), 0.0)) - delta

    return max(_root(spread), _root(gathered))


def _root(excess: Excess) -> float:
    """Return the epsilon at which delta(epsilon) falls to delta; 0 if it is below everywhere."""
    if excess(0.0) <= 0:
        return 0.0
    return MOST_EPSILON if excess(MOST_EPSILON) > 0 else float(brentq(excess, 0.0, MOST_EPSILON, xtol=1e-9))


def hidden_by_a_draw(epsilon_at: Excess, rate: float, delta: float) -> float:
    """Return epsilon of a release that holds the unit with probability `rate`: ln(1 + rate (e^epsilon - 1)).

    epsilon_at: epsilon of the release that holds it for certain, as a function of delta, taken at delta / rate.
    """
    certain = epsilon_at(min(delta / rate, 1.0)) if rate > 0 else 0.0
    return certain + math.log(rate + (1 - rate) * math.exp(-certain)) if certain > 0 else 0.0


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return epsilon of Gaussian noise of this mu, at most MOST_EPSILON."""
    return min(MOST_EPSILON, gaussian_epsilon(mu, delta)) if math.isfinite(mu) else MOST_EPSILON
