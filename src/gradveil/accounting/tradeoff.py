"""What a guarantee allows a test at most: how many members it tells (TPR) at a rate of false alarms (FPR)."""

import math

from scipy.stats import norm


def gaussian_power(mu: float, fpr: float) -> float:
    """Return the largest TPR against a mu-GDP release: Phi(Phi^-1(FPR) + mu) (Dong, Roth and Su)."""
    return float(norm.cdf(norm.ppf(fpr) + mu))


def approximate_power(epsilon: float, delta: float, fpr: float) -> float:
    """Return the largest TPR under (epsilon, delta)-DP: the smaller of two lines, and 1 at most (Kairouz et al.).

    min(e^epsilon FPR + delta, 1 - e^-epsilon (1 - delta - FPR)).
    """
    if math.isinf(epsilon):
        return 1.0
    rising = math.exp(min(epsilon, 700.0)) * fpr + delta
    return min(rising, 1 - math.exp(-epsilon) * max(1 - delta - fpr, 0.0), 1.0)


def of_pairs(epsilon: float, delta: float) -> tuple[float, float]:
    """Return (epsilon, delta) of two steps between neighbors: (2 epsilon, (1 + e^epsilon) delta).

    A record of a client changes what that client contributes, as if the client left and another came.
    """
    return 2 * epsilon, min(1.0, (1 + math.exp(min(epsilon, 700.0))) * delta)
