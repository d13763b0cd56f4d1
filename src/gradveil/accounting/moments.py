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

from gradveil.accounting.steps import Step, Steps, is_noiseless, rounded

ORDERS = (1.25, 1.5, 1.75, 2, 2.25, 2.5, 3, 3.5, 4, 4.5, *range(5, 64), 128, 256, 512)
Array = np.ndarray[Any, Any]


def moments(steps: Steps, delta: float) -> float:
    """Return epsilon by the classic conversion."""
    if is_noiseless(steps):
        return math.inf
    total = _divergence(steps)
    if not total.any():
        return 0.0
    return max(0.0, float(np.min(total + math.log(1 / delta) / (np.array(ORDERS) - 1))))


RATIO, LEAST = 1.02, 0.3


def running(sigmas: Array, q: float, delta: float) -> Array:
    """Return the moments epsilon after every single step, float [steps], for a schedule of many different sigmas.

    Divergences are interpolated as in `moments`, between fixed multipliers a ratio of 1.02 apart, so that schedules
    share them. Below a sigma of 0.3 epsilon is infinite: such steps hide next to nothing.
    """
    z = np.maximum(np.asarray(sigmas, float), LEAST)
    first, last = (math.floor(math.log(edge / LEAST, RATIO)) for edge in (z.min(), z.max()))
    edges = LEAST * RATIO ** np.arange(first, last + 2)
    spent = np.cumsum(_between(z, edges, q), axis=0)
    epsilon: Array = np.min(spent + math.log(1 / delta) / (np.array(ORDERS) - 1), axis=1)
    return np.where(np.logical_or.accumulate(np.asarray(sigmas) < LEAST), np.inf, epsilon)


def rdp(steps: Steps, delta: float) -> float:
    """Return epsilon by the improved conversion (Canonne, Kamath and Steinke)."""
    if is_noiseless(steps):
        return math.inf
    total = _divergence(steps)
    if not total.any():
        return 0.0
    epsilon, _ = rdp_privacy_accountant.compute_epsilon(np.array(ORDERS, float), total, delta)
    return max(0.0, float(epsilon))


def _divergence(steps: Steps) -> Array:
    """Sum the Renyi divergences of all steps over ORDERS.

    Beyond 100 different multipliers, divergences at whole orders a are interpolated: there exp((a - 1) rdp) is a sum of
    exponentials in 1 / z^2 with positive weights, so a chord lies above it. At other orders z is rounded down.
    """
    total = np.zeros(len(ORDERS))
    for q in {step.q for step in steps if step.times}:
        sampled = [step for step in steps if step.q == q and step.times]
        coarse, _ = rounded(sampled)
        exact = len({step.z for step in sampled}) == len({step.z for step in coarse})
        total += sum(s.times * _one(s.z, q) for s in coarse) if exact else _interpolated(sampled, q)
    return total


def _interpolated(steps: list[Step], q: float) -> Array:
    z, times = np.array([s.z for s in steps]), np.array([s.times for s in steps])
    edges = np.geomspace(z.min(), z.max(), 100)
    edges[0], edges[-1] = z.min(), z.max()
    summed: Array = times @ _between(z, edges, q)
    return summed


def _between(z: Array, edges: Array, q: float) -> Array:
    """Bound the divergences at z [steps, order] by those at the edges around it, by chords at whole orders."""
    levels = np.array([_one(float(edge), q) for edge in edges])  # [level, order]
    low = np.clip(np.searchsorted(edges, z, side="right") - 1, 0, len(edges) - 2)
    weight = (z**-2 - edges[low + 1] ** -2) / (edges[low] ** -2 - edges[low + 1] ** -2)
    power = np.array(ORDERS) - 1
    chords = np.logaddexp(
        np.log(np.maximum(weight, 1e-300))[:, None] + power * levels[low],
        np.log(np.maximum(1 - weight, 1e-300))[:, None] + power * levels[low + 1],
    )
    whole = np.array([order == int(order) and order >= 2 for order in ORDERS])
    bounded: Array = np.where(whole, chords / power, levels[low])
    return bounded


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
