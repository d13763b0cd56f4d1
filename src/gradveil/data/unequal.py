"""Batches of clients that hold different numbers of examples: drawn at one rate, and computed in few compiled sizes.

Every client draws at the rate q = B / max_i |D_i|, so a record is sampled as often wherever it is; a batch of client i
has q |D_i| examples on average, by which its sum is divided.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import bdtr

from gradveil.data.sampling import BatchIndices, Poisson, Sampling, Whole
from gradveil.errors import BadInput
from gradveil.tree import Array

Host = np.ndarray[Any, Any]
MOST_RUNGS = 8
"""The most batch sizes that are compiled."""
SMALLEST_GAIN = 0.02
"""The share of all slots that another batch size must save to be worth compiling."""


class Own(NamedTuple):
    """What one client's batches depend on, or [N] of each for all clients.

    size: |D_i|. expected: q |D_i|. coin: the largest of 2^32 draws with which an example joins. most: the most
    examples of a batch; more are dropped, with probability below `sampling.OVERFLOW`.
    """

    size: Any
    expected: Any
    coin: Any
    most: Any


def check(sampling: Sampling, sizes: tuple[int, ...], batch: int) -> None:
    """Refuse a sampling whose batches are not defined, or not accounted, for clients of different sizes."""
    if not isinstance(sampling, Poisson | Whole):
        raise BadInput(f"sampling = {sampling.name}: clients of different sizes need poisson or whole batches")
    if isinstance(sampling, Poisson) and int(batch / max(sizes) * 2**32) < 1:
        raise BadInput(f"batch = {batch}: is too small a part of {max(sizes)} examples to be drawn")


def owns(sampling: Sampling, sizes: tuple[int, ...], batch: int) -> Own:
    """Return what the batches of every client depend on, each [N]."""
    rate = _rate(sampling, sizes, batch)
    coin = min(int(rate * 2**32), 2**32) - 1  # rounded down: a guarantee counts on the rate
    held = np.asarray(sizes, np.int32)
    most = {size: most_of(size, rate) for size in set(sizes)}
    return Own(
        held,
        (rate * held).astype(np.float32),
        np.full(len(held), coin, np.uint32),
        np.array([most[size] for size in sizes], np.int32),
    )


def rungs(sampling: Sampling, sizes: tuple[int, ...], batch: int) -> tuple[int, ...]:
    """Return the batch sizes to compile for, ascending: a batch is computed in the smallest that holds it.

    From the largest batch on, the size is added that saves most slots, by how often clients of these sizes draw batches
    of each length, until another one saves less than 2 %.
    """
    share, last = _at_most(sampling, sizes, batch)
    chosen = [0, last]
    while len(chosen) <= MOST_RUNGS:
        ends = np.array(sorted(chosen))
        lengths = np.arange(last + 1)
        above = ends[np.minimum(np.searchsorted(ends, lengths), len(ends) - 1)]
        below = ends[np.maximum(np.searchsorted(ends, lengths) - 1, 0)]
        saved = (above - lengths) * (share[lengths] - np.where(below > 0, share[below], 0.0))
        total = float(np.sum(np.diff(share, prepend=0.0) * np.maximum(above, ends[1])))
        best = int(np.argmax(saved))
        if saved[best] < SMALLEST_GAIN * total or best in chosen:
            break
        chosen.append(best)
    return tuple(sorted(chosen)[1:])


def pick(sampling: Sampling, key: Array, room: int, slots: int, own: Own) -> BatchIndices:
    """Choose positions 0..own.size-1 for one step, in `slots` slots; room: the examples of the largest client."""
    if isinstance(sampling, Whole):
        places = jnp.arange(slots)
        return BatchIndices(jnp.where(places < own.size, places, 0), own.size)
    joins = (jax.random.bits(key, (room,), jnp.uint32) <= own.coin) & (jnp.arange(room) < own.size)
    positions = jnp.nonzero(joins, size=slots, fill_value=0)[0]
    return BatchIndices(positions, jnp.minimum(jnp.sum(joins), own.most))


def weights(sizes: tuple[int, ...]) -> Host:
    """Return what each client's update counts for in the mean over a cohort, float32 [N]: |D_i| over the mean size.

    The mean is over all clients, so that neither the weight nor the divisor reveals who else is in a cohort.
    """
    held = np.asarray(sizes, np.float64)
    shares: Host = (held / held.mean()).astype(np.float32)
    return shares


def _rate(sampling: Sampling, sizes: tuple[int, ...], batch: int) -> float:
    return 1.0 if isinstance(sampling, Whole) else batch / max(sizes)


def most_of(size: int, rate: float) -> int:
    """Return the most examples that a batch of a client of this size holds, drawn at this rate."""
    return size if rate >= 1 else Poisson().capacities(size, rate * size)[-1]


def _at_most(sampling: Sampling, sizes: tuple[int, ...], batch: int) -> tuple[Host, int]:
    """Return the share of batches that hold at most k examples, k = 0..last, over all clients, and the last."""
    rate = _rate(sampling, sizes, batch)
    held, counts = np.unique(sizes, return_counts=True)
    last = max(most_of(int(size), rate) for size in held)
    lengths = np.arange(last + 1)
    share = np.zeros(last + 1)
    for size, count in zip(held.tolist(), counts.tolist(), strict=True):
        chance = (lengths >= size).astype(float) if rate >= 1 else bdtr(np.minimum(lengths, size), size, rate)
        share += count * np.where(lengths >= size, 1.0, chance)
    return share / len(sizes), last
