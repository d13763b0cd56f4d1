"""Batches of clients that hold different numbers of examples: drawn at their rates, computed in few compiled sizes.

Unless they are given, all rates are q = B / max_i |D_i|, so that a record is sampled as often wherever it is. A batch
of client i has q_i |D_i| examples on average, by which its sum is divided.
"""

from collections import Counter
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import bdtr

from gradveil.data.sampling import BatchIndices, Poisson, Sampling, Whole
from gradveil.errors import BadInput, quoted
from gradveil.tree import Array

Host = np.ndarray[Any, Any]
LEAST_WEIGHT = 1e-6
MOST_RUNGS = 8
"""The most batch sizes that are compiled."""
SMALLEST_GAIN = 0.02
"""The share of all slots that another batch size must save to be worth compiling."""


class Own(NamedTuple):
    """What one client's batches depend on, or [N] of each for all clients.

    size: |D_i|. expected: q_i |D_i|. coin: the largest of 2^32 draws with which an example joins. most: the most
    examples of a batch; more are dropped, with probability below `sampling.OVERFLOW`.
    """

    size: Any
    expected: Any
    coin: Any
    most: Any


def check(sampling: Sampling, sizes: tuple[int, ...], batch: int, rates: tuple[float, ...] | None = None) -> None:
    """Refuse a sampling whose batches are not defined, or not accounted, for clients of different sizes."""
    if not isinstance(sampling, Poisson | Whole):
        raise BadInput(f"sampling = {sampling.name}: clients of different sizes need poisson or whole batches")
    if rates is not None:
        _check_rates(sampling, sizes, rates)
    elif isinstance(sampling, Poisson) and int(batch / max(sizes) * 2**32) < 1:
        raise BadInput(f"batch = {batch}: is too small a part of {max(sizes)} examples to be drawn")


def _check_rates(sampling: Sampling, sizes: tuple[int, ...], rates: tuple[float, ...]) -> None:
    if isinstance(sampling, Whole):
        raise BadInput("client_rates: whole batches hold every record; use sampling = poisson")
    if len(rates) != len(sizes):
        raise BadInput(f"client_rates: {len(sizes)} are expected, one for each client, not {len(rates)}")
    for rate in rates:
        if not 2**-32 <= rate <= 1:
            raise BadInput(f"client_rates = {rate}: must be above 0 and at most 1")


def check_weights(given: tuple[float, ...], clients: int) -> None:
    """Refuse weights that are not one for each client, or so small or large that a mean over them is none."""
    if len(given) != clients or not all(LEAST_WEIGHT <= one <= 1 / LEAST_WEIGHT for one in given):
        raise BadInput(
            f"client_weights = {quoted(given)}: one for each of the {clients} clients is expected, between "
            f"{LEAST_WEIGHT:g} and {1 / LEAST_WEIGHT:g}"
        )


def rates_of(
    sampling: Sampling, sizes: tuple[int, ...], batch: int, rates: tuple[float, ...] | None = None
) -> tuple[float, ...]:
    """Return the rate at which each client draws its records."""
    if isinstance(sampling, Whole):
        return (1.0,) * len(sizes)
    return (batch / max(sizes),) * len(sizes) if rates is None else rates


def owns(sampling: Sampling, sizes: tuple[int, ...], batch: int, rates: tuple[float, ...] | None = None) -> Own:
    """Return what the batches of every client depend on, each [N]."""
    drawn = rates_of(sampling, sizes, batch, rates)
    coins = [min(int(rate * 2**32), 2**32) - 1 for rate in drawn]  # rounded down: a guarantee counts on the rate
    counts = np.asarray(sizes, np.int32)
    most = {pair: most_of(*pair) for pair in set(zip(sizes, drawn, strict=True))}
    return Own(
        counts,
        (np.asarray(drawn) * counts).astype(np.float32),
        np.asarray(coins, np.uint32),
        np.array([most[pair] for pair in zip(sizes, drawn, strict=True)], np.int32),
    )


def rungs(
    sampling: Sampling, sizes: tuple[int, ...], batch: int, rates: tuple[float, ...] | None = None
) -> tuple[int, ...]:
    """Return the batch sizes to compile for, ascending: a batch is computed in the smallest that holds it.

    From the largest batch on, the size is added that saves most slots, by how often clients of these sizes draw batches
    of each length, until another one saves less than 2 %.
    """
    return _rungs(sizes, rates_of(sampling, sizes, batch, rates))


@lru_cache(maxsize=64)  # asked for in every round, and it can take as long as the round itself
def _rungs(sizes: tuple[int, ...], rates: tuple[float, ...]) -> tuple[int, ...]:
    share, last = _at_most(sizes, rates)
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


def rooms(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the numbers of coins to compile for, ascending: a client flips the fewest that are enough for its rows."""
    return rungs(Whole(), sizes, max(sizes))


def pick(sampling: Sampling, key: Array, rooms: tuple[int, ...], slots: int, own: Own) -> BatchIndices:
    """Choose positions 0..own.size-1 for one step, in `slots` slots."""
    if isinstance(sampling, Whole):
        positions = jnp.arange(slots)
        return BatchIndices(jnp.where(positions < own.size, positions, 0), own.size)
    ways = [partial(_drawn, key, room, slots, own) for room in rooms]
    drawn: BatchIndices = jax.lax.switch(jnp.searchsorted(jnp.asarray(rooms), own.size), ways)
    return drawn


def _drawn(key: Array, room: int, slots: int, own: Own) -> BatchIndices:
    joins = (jax.random.bits(key, (room,), jnp.uint32) <= own.coin) & (jnp.arange(room) < own.size)
    positions = jnp.nonzero(joins, size=min(room, slots), fill_value=0)[0]
    return BatchIndices(jnp.pad(positions, (0, max(0, slots - room))), jnp.minimum(jnp.sum(joins), own.most))


def weights(sizes: tuple[int, ...], given: tuple[float, ...] | None = None) -> Host:
    """Return what each client's update counts for in the mean over a cohort, float32 [N]: 1 on average.

    given: weights up to a factor; by default the sizes |D_i|. The mean is over all clients, so that neither the weight
    nor the divisor reveals who else is in a cohort.
    """
    raw_weights = np.asarray(sizes if given is None else given, np.float64)
    shares: Host = (raw_weights / raw_weights.mean()).astype(np.float32)
    return shares


def most_of(size: int, rate: float) -> int:
    """Return the most examples that a batch of a client of this size holds, drawn at this rate."""
    return size if rate >= 1 else Poisson().capacities(size, rate * size)[-1]


def _at_most(sizes: tuple[int, ...], rates: tuple[float, ...]) -> tuple[Host, int]:
    """Return the share of batches that hold at most k examples, k = 0..last, over all clients, and the last."""
    clients = Counter(zip(sizes, rates, strict=True))
    last = max(most_of(*client) for client in clients)
    lengths = np.arange(last + 1)
    share = np.zeros(last + 1)
    for (size, rate), count in clients.items():
        chance = (lengths >= size).astype(float) if rate >= 1 else bdtr(np.minimum(lengths, size), size, rate)
        share += count * np.where(lengths >= size, 1.0, chance)
    return share / len(sizes), last
