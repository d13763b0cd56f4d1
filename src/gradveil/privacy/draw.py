"""How noise is drawn for a lot: three interpretations of the paper, with three noise levels on the mean."""

import math
from enum import Enum


class Draw(Enum):
    """How often N(0, (sigma S)^2) is drawn for a lot of n units, and so what noise its mean carries.

    EACH: for every unit, as the paper's text: sigma S / sqrt(n) on the mean.
    SUM: once for the sum, as the authors' code and DP-SGD: sigma S / n on the mean.
    MEAN: once for the mean, as Algorithm 1: sigma S on the mean.
    """

    EACH = "each"
    SUM = "sum"
    MEAN = "mean"

    def std_factor(self, n: float) -> float:
        """Return the standard deviation on the mean of n units, in units of sigma S."""
        if self is Draw.EACH:
            return 1 / math.sqrt(n)
        return 1 / n if self is Draw.SUM else 1.0
