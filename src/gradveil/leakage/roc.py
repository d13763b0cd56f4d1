"""From scores of members and others to an AUC and to TPR at small FPR, each with its interval."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.stats import binomtest, norm, rankdata

from gradveil.leakage.membership_record import RateRecord

Array = np.ndarray[Any, Any]
FPRS = (0.001, 0.01)


def auc(members: Array, others: Array) -> float:
    """Return the share of pairs in which the member scores higher; ties count half."""
    m, n = len(members), len(others)
    ranks = rankdata(np.concatenate([members, others]))
    return float((ranks[:m].sum() - m * (m + 1) / 2) / (m * n))


def auc_interval(area: float, m: int, n: int) -> tuple[float, float]:
    """Return the 95 % interval of an AUC of m members and n others, by Newcombe's score method.

    The ends are where |found - a| = 1.96 sqrt(V(a)), with the variance of exponential scores as Hanley and McNeil,
    V(a) = a (1 - a) (1 + (N - 1) ((1 - a) / (2 - a) + a / (1 + a))) / (m n), N = (m + n) / 2. It never shrinks to a
    point, also where all members score higher.
    """
    middle, z = (m + n) / 2, float(norm.ppf(0.975))

    def excess(a: float) -> float:
        spread = 1 + (middle - 1) * ((1 - a) / (2 - a) + a / (1 + a))
        return abs(area - a) - z * math.sqrt(max(a * (1 - a) * spread / (m * n), 0.0))

    edge = 1e-12  # at 0 and 1 the variance is 0, and the end would be taken for the other one
    low = 0.0 if area <= edge else float(brentq(excess, 0.0, min(area, 1 - edge)))
    high = 1.0 if area >= 1 - edge else float(brentq(excess, max(area, edge), 1.0))
    return low, high


def rate_at(
    fpr: float, members: Array, others: Array, calibration: Array, bound: Callable[[float], float] | None
) -> RateRecord:
    """Return TPR at an FPR, whose threshold is the j-th highest calibration score with j = floor(FPR (n + 1)).

    A further non-member scores above it with probability j / (n + 1), which is at most the FPR; so n >= 1 / FPR - 1.
    """
    needed, allowed = math.ceil(1 / fpr - 1e-9) - 1, None if bound is None else bound(fpr)
    if len(calibration) < needed:
        none = dict.fromkeys(("hits", "tpr", "tpr_ci", "false_alarms", "false_alarm_ci"))
        return RateRecord(fpr=fpr, needed=needed, bound=allowed, **none)
    j = math.floor(fpr * (len(calibration) + 1) + 1e-9)
    threshold = np.sort(calibration)[-j]
    hits, alarms = int(np.sum(members > threshold)), int(np.sum(others > threshold))
    return RateRecord(
        fpr=fpr,
        needed=needed,
        hits=hits,
        tpr=hits / len(members),
        tpr_ci=_interval(hits, len(members)),
        false_alarms=alarms,
        false_alarm_ci=_interval(alarms, len(others)),
        bound=allowed,
    )


def _interval(hits: int, trials: int) -> tuple[float, float]:
    low, high = binomtest(hits, trials).proportion_ci()
    return float(low), float(high)
