"""A node's answer to an attempt, in the order that matters: check, compute, charge, and only then noise and mask."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gradveil.aggregation import ring
from gradveil.aggregation.epoch import Epochs, Refused
from gradveil.aggregation.masks import Attempt, masked
from gradveil.aggregation.noise import Bytes, discrete_gaussian, secret_bytes, share_deviation
from gradveil.aggregation.ring import Reals, Units


@dataclass(frozen=True, slots=True, eq=False)
class SumAnswer:
    """What leaves a node: the digest of all that it was told, and uint64 [size] that is uniform taken alone."""

    attempt: bytes
    masked: Units


@dataclass(frozen=True, slots=True, kw_only=True)
class Contribution:
    """What a node adds to a sum.

    multiplier: z, the noise of the whole sum in units of what one record can change. records: m, how many were summed.
    compute: return their sum in units of C, float64 [size], as `ring.bounded_sum` does.
    """

    multiplier: float
    records: int
    compute: Callable[[], Reals]


def answer(
    epochs: Epochs,
    attempt: Attempt,
    contribution: Contribution,
    charge: Callable[[Attempt], None],
    *,
    within: float,
    begun: float | None = None,
    take: Bytes = secret_bytes,
    clock: Callable[[], float] = time.monotonic,
) -> SumAnswer:
    """Answer an attempt once, or raise Refused.

    charge: write down that this attempt is released; it is on disk when it returns, and it may refuse. within: seconds
    after which nothing is sent, from `begun` on the clock, which is now unless given. Nothing here fails because of
    data: what is not finite or too large is clamped.
    """
    begun = clock() if begun is None else begun
    pairs = epochs.admit(attempt)
    units = ring.encode(contribution.compute())
    if units.shape != (attempt.size,):
        raise Refused(f"size = {attempt.size}: the sum of this round has {units.size} coordinates")
    if clock() - begun > within:
        raise Refused(f"within = {within:g}: the time for an answer is over")
    deviation = share_deviation(
        contribution.multiplier, attempt.size, contribution.records, len(attempt.cards), attempt.tolerated
    )
    charge(attempt)
    noisy = units + discrete_gaussian(deviation, attempt.size, take).astype(np.uint64)
    return SumAnswer(attempt.digest, masked(noisy, epochs.name, pairs, attempt.digest))
