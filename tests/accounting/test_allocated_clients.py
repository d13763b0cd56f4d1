"""Whole clients under random allocation, against all placements counted one by one and against drawn outputs."""

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import comb

from gradveil.accounting.accountant import account
from gradveil.accounting.allocated_clients import farthest
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.tight import gaussian_epsilon


def lengths(records, lots, seen, capacity):
    """Give S of every placement of the records, each of which is as likely as any other."""
    for places in product(range(lots), repeat=records):
        counts = np.bincount(places, minlength=lots)[:seen]
        yield math.sqrt(sum(min(count, capacity) ** 2 for count in counts.tolist()))


@pytest.mark.parametrize("shape", [(6, 3, 3, 6), (6, 3, 3, 3), (5, 4, 2, 5), (7, 2, 1, 7)])
@pytest.mark.parametrize("chance", [0.5, 0.05, 0.002])
def test_no_more_placements_move_sums_farther_than_the_chance_allows(shape, chance):
    """The bound may be loose, but not by more than a quarter of what a Chernoff bound of the counted ones is."""
    counted = np.array(list(lengths(*shape)))
    bound = farthest(*shape, chance)
    assert np.mean(counted > bound) <= chance
    rates = np.geomspace(1e-3, 8, 400)
    chernoff = min(math.log(np.mean(np.exp(r * counted**2)) / chance) / r for r in rates)
    assert bound == pytest.approx(math.sqrt(min(chernoff, counted.max() ** 2)), rel=2e-3)


def test_many_records_move_little_more_than_on_the_average_and_never_more_than_full_lots():
    average = math.sqrt(500 + 500 * 499 / 100)
    assert 1.1 * average < farthest(500, 100, 100, 30, 1e-15) < 1.2 * average
    assert farthest(10, 2, 2, 10, 1e-300) == 10.0
    assert farthest(50_000, 100, 100, 600, 1e-15) == math.sqrt(83 * 600**2 + 200**2)


def made(z, records):
    return Release(
        round=0, surface=2, unit="example", part="sum", sigmas=(z, z), ratio=1.0, layers=1, draw="sum",
        expected=records / 2, capacity=records, client_size=records, share=False, example_sampling="allocation",
        example_rate=0.5, touches=1, cohort_sampling="fixed", cohort_rate=1.0, cohort=4, copies=1, data_dependent=False,
    )  # fmt: skip


@pytest.mark.parametrize(("z", "records"), [(2.0, 2), (4.0, 4), (12.0, 6)])
def test_epsilon_of_a_whole_client_holds_for_outputs_that_were_drawn(z, records):
    """All records pull the same way into two lots: both hockey-sticks at epsilon, from 100,000 outputs each."""
    delta, draws, rng = 0.01, 100_000, np.random.default_rng(8)
    epsilon = account(Ledger((made(z, records),), 1), delta, "add-remove", "client-server").epsilon
    counts = np.arange(records + 1)
    moved = np.stack([counts, records - counts], axis=1)

    def log_ratio(x):
        exponents = (x @ moved.T - (moved**2).sum(axis=1) / 2) / z**2
        return np.log(np.exp(exponents) @ (comb(records, counts) / 2**records))

    noise = rng.normal(0, z, (2, draws, 2))
    there = noise[0] + moved[rng.binomial(records, 0.5, draws)]
    for gain in (
        np.maximum(0, -np.expm1(epsilon - log_ratio(there))),
        np.maximum(0, -np.expm1(epsilon + log_ratio(noise[1]))),
    ):
        assert gain.mean() - 4 * gain.std() / math.sqrt(draws) <= delta
    removed = np.maximum(0, -np.expm1(0.5 * epsilon - log_ratio(there)))
    assert removed.mean() > delta, "half of it would be too little"


def test_a_whole_client_costs_far_less_than_batches_that_are_all_full():
    release = Release(
        round=0, surface=2, unit="example", part="sum", sigmas=(60.0,) * 100, ratio=1.0, layers=1, draw="sum",
        expected=5.0, capacity=30, client_size=500, share=False, example_sampling="allocation", example_rate=0.01,
        touches=1, cohort_sampling="fixed", cohort_rate=1.0, cohort=4, copies=1, data_dependent=False,
    )  # fmt: skip
    found = account(Ledger((release,), 1), 1e-5, "add-remove", "client-server").epsilon
    assert found == pytest.approx(gaussian_epsilon(farthest(500, 100, 100, 30, 1e-15) / 60, 1e-5), rel=1e-6)
    assert found < 0.2 * gaussian_epsilon(10 * 30 / 60, 1e-5)
