"""Which clients of a cohort are trained in which call, and on which device."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def in_order(count: int, chunk: int) -> Array:
    """Return the places of a cohort's clients, int [calls, chunk]; the last call is filled up with the last client."""
    return np.pad(np.arange(count), (0, -count % chunk), mode="edge").reshape(-1, chunk)


def by_size(sizes: Array, chunk: int, devices: int) -> Array:
    """Return the places of clients of different sizes, int [calls, chunk], of which each device has chunk / devices.

    The largest come first and go to the devices in turn, so that all have about as much to do; the last call is filled
    up with the smallest client.
    """
    order = np.argsort(-sizes, kind="stable")
    in_turn = np.arange(chunk).reshape(-1, devices).T.ravel()
    dealt: Array = order[in_order(len(sizes), chunk)][:, in_turn]
    return dealt
