"""Clients are dealt to calls and devices so that little is computed twice and no device waits for another."""

import numpy as np
import pytest

from gradveil.engines.dealing import by_size, in_order

SIZES = {"largest first": [60, 25, 9, 5, 3], "largest last": [3, 5, 9, 25, 60], "alike": [7, 7, 7, 7, 7]}


def test_clients_of_one_size_are_trained_in_their_order_and_the_last_fills_up():
    assert in_order(5, 4).tolist() == [[0, 1, 2, 3], [4, 4, 4, 4]]
    assert in_order(4, 4).tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize("chunk", [4, 6, 8])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
def test_all_are_trained_and_only_the_smallest_more_than_once(sizes, chunk):
    rows = np.array(sizes)[by_size(np.array(sizes), chunk, 2)]
    padding = rows.size - len(sizes)
    assert sorted(rows.ravel().tolist()) == sorted(sizes + [min(sizes)] * padding)


def test_the_devices_take_the_largest_in_turn():
    halves = by_size(np.array([10, 90, 50, 40]), 4, 2).reshape(2, 2)
    assert halves.tolist() == [[1, 3], [2, 0]]
