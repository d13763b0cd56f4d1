"""The three places where a gradient can be read, which are the three places where it can be protected."""

from enum import IntEnum


class Surface(IntEnum):
    """A place that gradients cross; the number is the paper's attack type.

    EXAMPLE: per-example gradients during local training (the lot is one batch).
    UPDATE: the client's update before it is sent (the lot is one update).
    SERVER: the updates as they arrive (the lot is one cohort).
    """

    SERVER = 0
    UPDATE = 1
    EXAMPLE = 2
