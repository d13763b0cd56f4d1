"""How records are split among clients: the paper's label-sorted shards, IID, and Dirichlet class proportions."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gradveil.data.records import Array
from gradveil.errors import BadInput
from gradveil.fields import settle

_BLOCKS = 10
_MANY, _PICKS = 20_000, 1_000


class Partition(Protocol):
    """A rule that gives each client its records.

    `shards(labels [n], clients, size, rng)` is int32 [clients, size], record numbers in the client's fixed order.
    Guarantees, for size <= n: no client holds a record twice; the same `rng` state gives the same shards.
    """

    def shards(self, labels: Array, clients: int, size: int, rng: np.random.Generator) -> Array:
        """Return the record numbers of each client."""
        ...


@dataclass(frozen=True, slots=True)
class TwoShards:
    """The paper's scheme: each client gets a random pair of shards from the label-sorted records.

    The records in order of their label are cut by position into 10 blocks; each block contributes
    clients * size / 10 records as permutations of itself, one after the other; the whole is cut into 2 * clients
    shards of size / 2. With 50000 records and size 500, 100 clients are disjoint and 1000 hold every record 10 times.

    Two departures keep a record from being twice in one client, and change nothing where the paper's clients are
    disjoint: pairs that overlap exchange a shard with another client, and there are fewer blocks than 10 where a
    block would be smaller than a shard.
    """

    def shards(self, labels: Array, clients: int, size: int, rng: np.random.Generator) -> Array:
        """Return the record numbers of each client, shuffled once inside the client; `size` must be even."""
        _check(labels, clients, size)
        if size % 2:
            raise BadInput(f"client_size = {size}: must be even, since a client holds two shards of half that size")
        pieces = _sorted_shards(labels, clients, size // 2, rng)
        pairs = _disjoint_pairs(pieces, rng)
        rows = pieces[pairs].reshape(clients, size)
        return rng.permuted(rows, axis=1)


@dataclass(frozen=True, slots=True)
class Iid:
    """An even deal: one permutation of all records, and fresh ones when it is used up.

    Guarantees: disjoint while clients * size <= n; otherwise no record is dealt twice more often than another.
    """

    def shards(self, labels: Array, clients: int, size: int, rng: np.random.Generator) -> Array:
        """Return the record numbers of each client."""
        _check(labels, clients, size)
        deck = _Deck(np.arange(len(labels), dtype=np.int32), rng)
        return np.stack([deck.take(size) for _ in range(clients)])


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """Each client draws class proportions p ~ Dir(alpha, ..., alpha) and its records by them.

    Class counts ~ Multinomial(size, p), what exceeds a class's records going to the others by the same p. Within
    a class, records are dealt without repetition over clients until all are dealt, then anew.
    """

    alpha: float

    def __post_init__(self) -> None:
        settle(self)
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise BadInput(f"alpha = {self.alpha}: must be a finite number above 0")
        if not 1e-6 <= self.alpha <= 1e9:  # beyond, the draw of proportions is no number any more
            raise BadInput(f"alpha = {self.alpha}: must be between 1e-6 and 1e9")

    def shards(self, labels: Array, clients: int, size: int, rng: np.random.Generator) -> Array:
        """Return the record numbers of each client, shuffled once inside the client."""
        _check(labels, clients, size)
        decks = [_Deck(np.flatnonzero(labels == label).astype(np.int32), rng) for label in np.unique(labels)]
        room = np.array([len(deck.records) for deck in decks])
        rows = np.empty((clients, size), dtype=np.int32)
        for client in rows:
            counts = _counts(rng.dirichlet(np.full(len(decks), self.alpha)), size, room, rng)
            client[:] = np.concatenate([decks[i].take(int(counts[i])) for i in np.flatnonzero(counts)])
        return rng.permuted(rows, axis=1)


PARTITIONS = (TwoShards, Iid, Dirichlet)


def copies(shards: Array, n: int) -> int:
    """Return how often the most frequent of `n` records appears over all slots of all clients.

    Accounting needs it: so many clients may use one record in a round.

    >>> copies(np.array([[0, 1], [1, 2]]), 3)
    2
    """
    return int(np.bincount(shards.ravel(), minlength=n).max())


def _check(labels: Array, clients: int, size: int) -> None:
    if clients < 1 or size < 1:
        raise BadInput(f"clients = {clients}, client_size = {size}: both must be at least 1")
    if size > len(labels):
        raise BadInput(f"client_size = {size}: must be at most the number of records, {len(labels)}")


class _Deck:
    """Records dealt in the order of a permutation, then of a fresh one, never one record twice in a hand."""

    def __init__(self, records: Array, rng: np.random.Generator) -> None:
        self.records, self._rng = records, rng
        self._order, self._next = rng.permutation(records), 0

    def take(self, count: int) -> Array:
        """Return the next `count` records, at most as many as there are."""
        hand = self._order[self._next : self._next + count]
        self._next += count
        if len(hand) < count:
            fresh = self._rng.permutation(self.records)
            # What the hand already has goes to the end of the fresh permutation.
            again = np.isin(fresh, hand)
            self._order, self._next = np.concatenate([fresh[~again], fresh[again]]), count - len(hand)
            hand = np.concatenate([hand, self._order[: self._next]])
        return hand


def _sorted_shards(labels: Array, clients: int, half: int, rng: np.random.Generator) -> Array:
    """Return int32 [2 * clients, half]: the blocks' permutations in a row, cut into shards."""
    n, total = len(labels), 2 * clients * half
    blocks = np.array_split(np.argsort(labels, kind="stable").astype(np.int32), min(_BLOCKS, n // half))
    ends = np.cumsum([len(quota) for quota in np.array_split(np.arange(total), len(blocks))])
    row, at = np.empty(total, dtype=np.int32), 0
    for block, end in zip(blocks, ends.tolist(), strict=True):
        deck = _Deck(block, rng)
        while at < end:
            # A shard may begin in one block and end in the next; a hand ends where the shard or the block does.
            stop = min(end, (at // half + 1) * half)
            row[at:stop] = deck.take(stop - at)
            at = stop
    return row.reshape(2 * clients, half)


def _disjoint_pairs(pieces: Array, rng: np.random.Generator) -> Array:
    """Return shard numbers [clients, 2]: random pairs, exchanged until the two shards of a client share no record.

    Where no exchange helps (few clients, shards nearly as large as a block), shard i goes with shard i + clients:
    half the row lies between them and a block is at most that long, so they share no block.
    """
    pairs = rng.permutation(len(pieces)).reshape(-1, 2)

    def clash(a: int, b: int) -> bool:
        return len(np.intersect1d(pieces[a], pieces[b], assume_unique=True)) > 0

    for client in range(len(pairs)):
        if not clash(*pairs[client]):
            continue
        a, b = pairs[client]
        for other in _others(len(pairs), rng):
            # Two pairs can be matched anew in two ways.
            swaps = [(c, d) for c, d in (pairs[other], pairs[other, ::-1]) if not (clash(a, d) or clash(c, b))]
            if swaps:
                c, d = swaps[0]
                pairs[client], pairs[other] = (a, d), (c, b)
                break
        else:
            return rng.permutation(np.arange(len(pieces)).reshape(2, -1).T)
    return pairs


def _others(count: int, rng: np.random.Generator) -> Iterable[int]:
    """Return clients to try an exchange with: all in random order, or picks where there are very many.

    A permutation of all for every overlap would take time in proportion to the square of their number.
    """
    return rng.permutation(count) if count <= _MANY else (int(rng.integers(count)) for _ in range(_PICKS))


def _counts(p: Array, size: int, room: Array, rng: np.random.Generator) -> Array:
    """Draw class counts ~ Multinomial(size, p), none above `room`; the excess is drawn again over the rest."""
    counts = np.zeros(len(room), dtype=np.int64)
    while (left := size - int(counts.sum())) > 0:
        free = room - counts
        weight = np.where(free > 0, p, 0.0)
        # A small alpha can leave the open classes no weight at all.
        weight = weight if weight.sum() > 0 else free.astype(np.float64)
        counts += np.minimum(rng.multinomial(left, weight / weight.sum()), free)
    return counts
