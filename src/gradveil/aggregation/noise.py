"""Shares of discrete Gaussian noise: each node adds one, and any r - t of them make the noise that is promised."""

import hashlib
import math
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from gradveil.aggregation.ring import sensitivity
from gradveil.errors import BadInput

Bytes = Callable[[int], bytes]
"""A source of random bytes: so many, new ones each time."""
Integers = np.ndarray[Any, np.dtype[np.int64]]
_WIDTH = 10.0
"""Proposals reach at least this many standard deviations; beyond 9.42 the chance to accept is below 2^-64 and is 0."""
_MOST = 2.0**52
_LEAST_BITS = 3

secret_bytes: Bytes = os.urandom


def seeded_bytes(*words: int) -> Bytes:
    """Return a source for tests and simulations: the Philox generator whose key is a digest of these numbers."""
    # Not numpy's SeedSequence, for which (1, 2) and (1, 2, 0) are the same.
    generator = np.random.Philox(key=int.from_bytes(hashlib.sha256(repr(words).encode()).digest()[:16], "little"))
    return lambda count: generator.random_raw(-(-count // 8)).astype("<u8").tobytes()[:count]


def share_deviation(multiplier: float, size: int, records: int, nodes: int, tolerated: int) -> float:
    """Return s = z Delta / sqrt(r - t), the standard deviation of one node's share in units.

    The adversary knows the shares of t colluding nodes and can subtract them; the others add up to z Delta.
    """
    if not nodes > tolerated >= 0:
        raise BadInput(f"tolerated = {tolerated}: must be at least 0 and below the {nodes} nodes of the sum")
    if not 0 < multiplier < math.inf:
        raise BadInput(f"noise_multiplier = {multiplier}: must be a finite number above 0")
    return multiplier * sensitivity(size, records) / math.sqrt(nodes - tolerated)


def discrete_gaussian(deviation: float, size: int, take: Bytes) -> Integers:
    """Draw whole numbers k with probability proportional to exp(-k^2 / (2 s^2)), int64 [size].

    By rejection: k is uniform in [-2^(b-1), 2^(b-1)) with 2^(b-1) >= 10 s, and kept with that probability. How many
    proposals it takes does not depend on the numbers that are kept.
    """
    if not 0 < deviation <= _MOST:
        raise BadInput(f"deviation = {deviation}: noise needs a standard deviation above 0 and at most {_MOST:g} units")
    bits = max(_LEAST_BITS, math.ceil(math.log2(_WIDTH * deviation)) + 1)
    rate = min(1.0, math.sqrt(2 * math.pi) * deviation / 2**bits)
    kept = np.empty(0, np.int64)
    while len(kept) < size:
        proposals = int((size - len(kept)) / rate * 1.02) + 64
        words = np.frombuffer(take(16 * proposals), "<u8").reshape(2, proposals).astype(np.uint64)
        k = (words[0] >> np.uint64(64 - bits)).astype(np.int64) - (1 << (bits - 1))
        kept = np.concatenate([kept, k[words[1] < thresholds(k, deviation)]])
    return kept[:size]


def thresholds(k: Integers, deviation: float) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """Return floor(2^64 exp(-k^2 / (2 s^2))), for k = 0 the largest float64 below 2^64.

    Each is too small or too large by a relative 2^-45 at most, and by 1 from rounding down.
    """
    chance = np.minimum(np.exp(-0.5 * np.square(k / deviation)), 1 - 2.0**-53)
    return (chance * 2.0**64).astype(np.uint64)
