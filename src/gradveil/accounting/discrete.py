"""What the sampler of discrete Gaussian noise adds to an epsilon and a delta: it is not quite the ideal one.

Whether a draw is kept is decided by a probability in float64. It has a relative error below 2^-45 and is rounded down
to a multiple of 2^-64, which adds at most 2^-60 to the total variation of a draw. With D draws, a = D 2^-45 and
tau = D 2^-60, the mechanism M that is run and the ideal one G have P(M in S) <= e^a P(G in S) + tau and the reverse, so

    P(M(d) in S) <= e^(eps + 2 a) P(M(d') in S) + e^a delta + (1 + e^(eps + a)) tau.

The ideal discrete Gaussian is accounted as the Gaussian of the same scale: at those of a secure sum, 10^7 units and
more, the two differ by less than 1e-10 in epsilon.
"""

import math
from collections.abc import Callable, Sequence

from gradveil.accounting import caveats
from gradveil.accounting.release import Release
from gradveil.accounting.threats import Loss

RELATIVE, ABSOLUTE = 2.0**-45, 2.0**-60
_MOST = 700.0
"""Beyond it e^epsilon overflows."""


def draws(releases: Sequence[Release]) -> float:
    """Count the numbers that all nodes draw; infinite where that is not known."""
    masked = [r for r in releases if r.masked]
    return math.inf if any(r.numbers < 1 for r in masked) else math.fsum(r.numbers * r.cohort for r in masked)


def charged(loss_at: Callable[[float], Loss], delta: float, releases: Sequence[Release]) -> Loss:
    """Return a loss at delta of noise as it is drawn, from the loss at a delta of ideal noise.

    What tau takes is set aside for the epsilon of half of delta, which is larger than that of what remains.
    """
    count = draws(releases)
    added, tau = RELATIVE * count, ABSOLUTE * count
    most = loss_at(delta / 2).epsilon + 2 * added
    aside = (1 + math.exp(most)) * tau if most < _MOST else math.inf
    if aside > delta / 2:
        return Loss(math.inf, (caveats.COARSE,))
    loss = loss_at((delta - aside) * math.exp(-added))
    return loss._replace(epsilon=loss.epsilon + 2 * added)
