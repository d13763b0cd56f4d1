"""zCDP as the paper uses it: rho = sum q^2 / z^2, then epsilon = rho + 2 sqrt(rho ln(1 / delta)).

The factor q^2 stands for sampling and holds for small q and large z only; a guarantee never rests on it.
"""

import math

from gradveil.accounting.steps import Steps, rho


def zcdp(steps: Steps, delta: float) -> float:
    """Return the paper's epsilon by zCDP."""
    total = rho(steps)
    return total + 2 * math.sqrt(total * math.log(1 / delta)) if math.isfinite(total) else math.inf
