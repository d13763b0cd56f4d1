"""Clients of different sizes draw at one rate, from their own rows alone, and waste few slots."""

import jax
import numpy as np
import pytest

from gradveil.data import unequal
from gradveil.data.sampling import Allocation, Poisson, Whole
from gradveil.errors import BadInput

HOSPITALS = (6000, 2100, 700, 250, 90, 30)
LOGNORMAL = tuple(np.maximum(3, np.random.default_rng(0).lognormal(5, 1, 300)).astype(int).tolist())
MANY_SMALL = (5000, *[40] * 200)
POPULATIONS = {"hospitals": HOSPITALS, "lognormal": LOGNORMAL, "many small": MANY_SMALL, "two": (1000, 999)}


def _drawn(sizes, rate, steps=200):
    """Draw the batch lengths of every client by NumPy, [steps, N]."""
    return np.random.default_rng(1).binomial(np.asarray(sizes), rate, (steps, len(sizes)))


def _slots(lengths, rungs):
    """Count the rows that are computed, padding included, by looking up each batch by hand."""
    return sum(min(rung for rung in rungs if rung >= length) for length in lengths.ravel().tolist())


@pytest.mark.parametrize("rate", [0.05, 0.5])
@pytest.mark.parametrize("sizes", POPULATIONS.values(), ids=POPULATIONS)
def test_unequal_clients_take_at_most_1_3_times_the_rows_of_equal_ones(sizes, rate):
    batch = round(rate * max(sizes))
    rungs = unequal.rungs(Poisson(), sizes, batch)
    mean = round(sum(sizes) / len(sizes))
    pair = Poisson().capacities(mean, max(1, round(rate * mean)))
    ours = _slots(_drawn(sizes, batch / max(sizes)), rungs)
    equal = _slots(np.minimum(_drawn([mean] * len(sizes), rate), pair[-1]), pair)
    assert len(rungs) <= unequal.MOST_RUNGS
    assert ours <= 1.3 * equal


@pytest.mark.parametrize("sizes", POPULATIONS.values(), ids=POPULATIONS)
def test_whole_batches_take_at_most_1_3_times_their_rows(sizes):
    rungs = unequal.rungs(Whole(), sizes, max(sizes))
    assert rungs[-1] == max(sizes)
    assert _slots(np.array(sizes), rungs) <= 1.3 * sum(sizes)


def test_without_rungs_the_waste_would_be_far_beyond_that():
    lengths = _drawn(HOSPITALS, 0.5)
    assert _slots(lengths, (max(HOSPITALS),)) > 3 * lengths.sum()


@pytest.mark.parametrize(("sizes", "batch"), [((40, 25, 3), 20), ((40, 1), 40)])
def test_a_client_draws_each_of_its_own_rows_at_the_common_rate_and_no_other(sizes, batch):
    sampling, slots = Poisson(), unequal.rungs(Poisson(), sizes, batch)[-1]
    owns, draws = unequal.owns(sampling, sizes, batch), 2000
    keys = jax.random.split(jax.random.key(0), draws)
    for i, size in enumerate(sizes):
        own = unequal.Own(*(part[i] for part in owns))
        picked = jax.vmap(lambda key, own=own: unequal.pick(sampling, key, unequal.rooms(sizes), slots, own))(keys)
        real = np.arange(slots) < np.asarray(picked.real)[:, None]
        counts = np.bincount(np.asarray(picked.positions)[real], minlength=max(sizes))
        assert not counts[size:].any()
        rate = batch / max(sizes)
        assert np.all(np.abs(counts[:size] / draws - rate) <= 5 * np.sqrt(rate * (1 - rate) / draws))
        assert own.expected == pytest.approx(rate * size)


def test_whole_batches_hold_every_row_once_and_pad_with_a_row_of_their_own():
    own = unequal.Own(*(part[1] for part in unequal.owns(Whole(), (5, 3), 5)))
    picked = unequal.pick(Whole(), jax.random.key(0), (5,), 5, own)
    assert picked.positions.tolist() == [0, 1, 2, 0, 0]
    assert int(picked.real) == 3


def test_weights_are_the_sizes_and_one_on_average():
    assert unequal.weights((10, 20, 60)).tolist() == pytest.approx([1 / 3, 2 / 3, 2])


def test_a_sampling_that_is_not_defined_for_them_is_refused():
    with pytest.raises(BadInput, match="sampling = allocation: clients of different sizes need poisson or whole"):
        unequal.check(Allocation(), (3, 2), 1)


def test_clients_with_rates_of_their_own_draw_at_them():
    sizes, rates, draws = (40, 10), (0.1, 0.7), 2000
    owns, slots = unequal.owns(Poisson(), sizes, 4, rates), unequal.rungs(Poisson(), sizes, 4, rates)[-1]
    keys = jax.random.split(jax.random.key(1), draws)
    for i, (size, rate) in enumerate(zip(sizes, rates, strict=True)):
        own = unequal.Own(*(part[i] for part in owns))
        picked = jax.vmap(lambda key, own=own: unequal.pick(Poisson(), key, unequal.rooms(sizes), slots, own))(keys)
        assert np.mean(picked.real) / size == pytest.approx(rate, abs=5 * np.sqrt(rate * (1 - rate) / (draws * size)))
        assert own.expected == pytest.approx(rate * size)
