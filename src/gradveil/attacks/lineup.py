"""One trial of identification: the true record of one place in a batch among public ones."""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np

from gradveil import tree
from gradveil.attacks import identify
from gradveil.attacks.leak import Leak
from gradveil.attacks.score import Truth

GAUSSIAN_DRAWS, MIXED_DRAWS, MEMORY = 50, 8, 20_000_000
"""Readings drawn at all places of a batch to learn what the best adversary reaches (a mean over all trials is taken),
fewer where coordinates are held back, which cannot be judged all at once, as many as these values hold, but at least
four at a place."""


class Trial(NamedTuple):
    """Whether the true record was picked out of n, and how often the best adversary picks it; NaN if not known."""

    hit: bool
    optimum: float


def lineup(
    leak: Leak, truth: Truth, position: int, sizes: Sequence[int], random: np.random.Generator, places: int = 1
) -> dict[int, Trial]:
    """Try whether the likelihood picks the true record of a place out of n, n - 1 of them public, for n of `sizes`.

    The adversary is given all other examples of the reading. The true record must be likelier than all others; a tie
    counts as a miss. places: how many of the batch are tried, which share the draws.
    """
    most = max(sizes)
    rows = random.choice(len(leak.public.x), most - 1, replace=False)
    batch = padded(truth, leak.stage.examples)
    x = np.repeat(batch.x[None], most, axis=0)
    y = np.repeat(batch.y[None], most, axis=0)
    x[1:, position], y[1:, position] = leak.public.x[rows], leak.public.y[rows]
    draws = _draws(leak, places) if leak.stage.exact else 0
    key = jax.random.key(int(random.integers(2**31)))
    log_likelihoods, drawn = identify.log_likelihoods_and_draws(leak, x, y, draws, key)
    known = bool(draws) and bool(np.isfinite(drawn).all())
    return {
        n: Trial(
            hit=bool(log_likelihoods[0] > log_likelihoods[1:n].max()),
            optimum=float(np.mean(drawn[0] > drawn[1:n].max(axis=0))) if known else float("nan"),
        )
        for n in sizes
    }


def _draws(leak: Leak, places: int) -> int:
    most = MIXED_DRAWS if leak.stage.sparse else GAUSSIAN_DRAWS
    return max(4, min(most, MEMORY // tree.size(leak.readings[0].gradient)) // places)


def padded(truth: Truth, usual: int) -> Truth:
    """Pad a batch of varying size, so that few sizes have to be compiled."""
    empty = -len(truth.y) % 16 if len(truth.y) != usual else 0
    x = np.concatenate([truth.x, np.zeros((empty, *truth.x.shape[1:]), truth.x.dtype)])
    return Truth(x, np.concatenate([truth.y, np.full(empty, -1, truth.y.dtype)]))
