"""Laws that every partition keeps, and the shape of the paper's own."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradveil.data import partition
from gradveil.data.partition import PARTITIONS, Dirichlet, Iid, TwoShards, copies
from gradveil.errors import BadInput


def _some(kind):
    return kind(0.3) if kind is Dirichlet else kind()


@st.composite
def deals(draw, enough=False):
    """Labels, clients, size of a shard, seed; `enough`: there are records for every client."""
    n = draw(st.integers(2, 60))
    labels = np.array(draw(st.lists(st.integers(0, 11), min_size=n, max_size=n)))
    size = 2 * draw(st.integers(1, n // 2))
    return labels, draw(st.integers(1, n // size if enough else 25)), size, draw(st.integers(0, 2**32))


def _held_twice(shards):
    ordered = np.sort(shards, axis=1)
    return int((ordered[:, 1:] == ordered[:, :-1]).sum())


@pytest.mark.parametrize("kind", PARTITIONS)
@given(deal=deals())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_every_client_holds_exactly_size_different_records(kind, deal):
    labels, clients, size, seed = deal
    shards = _some(kind).shards(labels, clients, size, np.random.default_rng(seed))
    assert shards.shape == (clients, size)
    assert shards.dtype == np.int32
    assert shards.min() >= 0
    assert shards.max() < len(labels)
    assert _held_twice(shards) == 0


@pytest.mark.parametrize("kind", PARTITIONS)
@given(deal=deals())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_the_same_generator_state_gives_the_same_shards(kind, deal):
    labels, clients, size, seed = deal
    one, two = (_some(kind).shards(labels, clients, size, np.random.default_rng(seed)) for _ in range(2))
    assert np.array_equal(one, two)


@pytest.mark.parametrize("kind", PARTITIONS)
def test_another_seed_gives_other_shards(kind):
    labels = np.arange(1000) % 10
    one, two = (_some(kind).shards(labels, 10, 50, np.random.default_rng(seed)) for seed in (0, 1))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("kind", [TwoShards, Iid])
@given(deal=deals(enough=True))
@settings(max_examples=150, deadline=None, derandomize=True)
def test_records_are_copied_only_when_they_do_not_suffice(kind, deal):
    labels, clients, size, seed = deal
    shards = kind().shards(labels, clients, size, np.random.default_rng(seed))
    assert copies(shards, len(labels)) == 1


@given(deal=deals())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_an_even_deal_copies_no_record_twice_more_often_than_another(deal):
    labels, clients, size, seed = deal
    shards = Iid().shards(labels, clients, size, np.random.default_rng(seed))
    counts = np.bincount(shards.ravel(), minlength=len(labels))
    assert counts.max() - counts.min() <= 1


@pytest.mark.parametrize("kind", PARTITIONS)
@pytest.mark.parametrize(("clients", "size"), [(0, 2), (3, 0), (3, 12)])
def test_impossible_sizes_are_refused(kind, clients, size):
    with pytest.raises(BadInput, match="size"):
        _some(kind).shards(np.arange(10) % 2, clients, size, np.random.default_rng(0))


def test_two_shards_refuses_an_odd_size():
    with pytest.raises(BadInput, match="client_size = 5: must be even"):
        TwoShards().shards(np.arange(10) % 2, 2, 5, np.random.default_rng(0))


@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_dirichlet_refuses_an_alpha_that_is_not_positive(alpha):
    with pytest.raises(BadInput, match="alpha"):
        Dirichlet(alpha)


@pytest.mark.parametrize(("clients", "times"), [(100, 1), (1000, 10)])
def test_the_papers_scheme_deals_every_record_equally_often(clients, times):
    labels = np.random.default_rng(3).integers(0, 10, 50_000)
    shards = TwoShards().shards(labels, clients, 500, np.random.default_rng(0))
    assert np.all(np.bincount(shards.ravel(), minlength=50_000) == times)
    assert copies(shards, 50_000) == times
    assert _held_twice(shards) == 0


def test_the_papers_clients_hold_few_classes():
    labels = np.random.default_rng(3).integers(0, 10, 50_000)
    shards = TwoShards().shards(labels, 100, 500, np.random.default_rng(0))
    kinds = [len(np.unique(labels[held])) for held in shards]
    assert max(kinds) <= 5
    assert 2.5 < np.mean(kinds) < 4.0


def test_two_shards_without_overlap_keeps_the_random_pairs():
    """Where clients are disjoint no pair is exchanged: a client may hold two shards of one block, as in the paper."""
    labels = np.repeat(np.arange(10), 100)
    single = 0
    for seed in range(20):
        shards = TwoShards().shards(labels, 50, 20, np.random.default_rng(seed))
        single += sum(len(np.unique(labels[held])) == 1 for held in shards)
    assert 0.05 < single / 1000 < 0.14


def test_two_shards_finds_disjoint_pairs_where_exchanging_shards_cannot():
    for seed in range(400):
        shards = TwoShards().shards(np.zeros(19), 5, 12, np.random.default_rng(seed))
        assert _held_twice(shards) == 0


def test_a_small_alpha_makes_clients_of_few_classes_and_a_large_one_of_all():
    labels = np.arange(5000) % 10

    def share(alpha):
        shards = Dirichlet(alpha).shards(labels, 50, 100, np.random.default_rng(0))
        return np.mean([np.bincount(labels[held]).max() / 100 for held in shards])

    assert share(0.05) > 0.7
    assert share(1000.0) < 0.2


def test_copies_is_the_largest_count_over_all_slots():
    assert copies(np.array([[0, 1, 1], [1, 2, 3]]), 5) == 3


def test_among_very_many_clients_none_holds_a_record_twice_and_overlaps_are_not_compared_with_all(monkeypatch):
    class Counted:
        """A generator that notes how many numbers each permutation had."""

        def __init__(self, random):
            self.random, self.sizes = random, []

        def __getattr__(self, name):
            return getattr(self.random, name)

        def permutation(self, numbers):
            self.sizes.append(np.size(numbers) if np.ndim(numbers) else numbers)
            return self.random.permutation(numbers)

    monkeypatch.setattr(partition, "_MANY", 100)
    random = Counted(np.random.default_rng(3))
    shards = TwoShards().shards(np.arange(200) % 10, 2_000, 10, random)
    assert _held_twice(shards) == 0
    assert random.sizes.count(4_000) == 1
    assert 2_000 not in random.sizes
