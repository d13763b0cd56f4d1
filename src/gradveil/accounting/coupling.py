"""Noise that ends, as it is seen in a sum over clients: charged by how seldom its end is met at all.

What one client draws ends at NOISE_END of its own standard deviations. A record may move the sum over clients by more
than one share ends at, and `participation.beyond` then charges everything. But whatever the records are, the draws of
all clients are those of a true Gaussian mechanism G except with probability tau = (draws) P(|N(0, 1)| > NOISE_END). So
the mechanism M that is run has

    P(M(D) in S) <= P(G(D) in S) + tau <= e^eps P(G(D') in S) + delta + tau
                                       <= e^eps P(M(D') in S) + delta + (1 + e^eps) tau.
"""

import math
from collections.abc import Callable, Sequence

from scipy.special import ndtr

from gradveil.accounting import participation
from gradveil.accounting.release import Release

SMALL = 1e-3
"""Part of delta below which a charge for the end of the noise is not worth another bound."""


def tau(releases: Sequence[Release]) -> float:
    """Bound the probability that any draw of any client passes the end; 1 where the number of draws is not known."""
    if any(r.numbers < 1 for r in releases):
        return 1.0
    draws = math.fsum(r.numbers * r.cohort * len(r.sigmas) for r in releases)
    return float(draws * 2 * ndtr(-participation.NOISE_END))


def coupled(epsilon_at: Callable[[float], float], delta: float, releases: Sequence[Release]) -> float:
    """Return an epsilon of noise that ends, from the epsilon at a delta of noise that does not; infinite if none fits.

    (1 + e^eps) tau is set aside for the eps of half of delta, which is larger than that of what remains.
    """
    differ = tau(releases)
    if differ >= delta:
        return math.inf
    most = epsilon_at(delta / 2)
    aside = (1 + math.exp(most)) * differ if most < 700 else math.inf
    return epsilon_at(delta - aside) if aside <= delta / 2 else math.inf
