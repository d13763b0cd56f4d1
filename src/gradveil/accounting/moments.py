"""The moments accountant: Renyi divergences of the sampled Gaussian, summed, then turned into epsilon.

`moments` uses the classic conversion min over orders a of rdp(a) + ln(1 / delta) / (a - 1), with which the paper's
figures come out; `rdp` uses the improved conversion of dp-accounting on the same divergences.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import dp_accounting
import numpy as np
from dp_accounting.rdp import rdp_privacy_accountant

from gradveil.accounting.steps import Steps, is_noiseless, rounded

ORDERS = (1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512)
Array = np.ndarray[Any, Any]


def moments(steps: Steps, delta: float) -> float:
    """Give epsilon by the classic conversion."""
    if is_noiseless(steps):
        return math.inf
    total = _divergence(steps)
    if not total.any():
        return 0.0
    return max(0.0, float(np.min(total + math.log(1 / delta) / (np.array(ORDERS) - 1))))


def rdp(steps: Steps, delta: float) -> float:
    """Give epsilon by the improved conversion (Canonne, Kamath and Steinke)."""
    if is_noiseless(steps):
        return math.inf
    total = _divergence(steps)
    if not total.any():
        return 0.0
    epsilon, _ = rdp_privacy_accountant.compute_epsilon(np.array(ORDERS, float), total, delta)
    return max(0.0, float(epsilon))


def _divergence(steps: Steps) -> Array:
    """Sum the Renyi divergences of all steps over ORDERS; multipliers are rounded down to at most 100 levels."""
    coarse, _ = rounded(steps)
    total = np.zeros(len(ORDERS))
    for step in coarse:
        total += step.times * _one(step.z, step.q)
    return total


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the note that some low orders were left out: fewer orders only make epsilon larger."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


@lru_cache(maxsize=1024)
def _one(z: float, q: float) -> Array:
    accountant = rdp_privacy_accountant.RdpAccountant(orders=ORDERS)
    event = dp_accounting.GaussianDpEvent(z)
    with _quiet():
        accountant.compose(event if q == 1 else dp_accounting.PoissonSampledDpEvent(q, event))
    return np.array(accountant.rdp)
