"""The three surfaces where a gradient can be read, and protected."""

from enum import IntEnum


class Surface(IntEnum):
    """A boundary that gradients cross; the number is the paper's attack type.

    EXAMPLE: per-example gradients during local training (the lot is one batch).
    UPDATE: the client's update before it is sent (the lot is one update).
    SERVER: the updates as they arrive (the lot is one cohort).
    """

    SERVER = 0
    UPDATE = 1
    EXAMPLE = 2
