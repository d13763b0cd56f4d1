"""What datasets are made of: examples with their labels, and which features of a table belong together."""

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

UNCOVERED = "were taken from the private records themselves, which no epsilon here covers."
"""How every caveat of a dataset ends: what precedes it depends on the records."""


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Examples and labels: x [n, ...] uint8 (pixels, read as x / 255) or float32 (read as it is); y [n].

    y is int32, the number of a class, or float32, a number to predict.
    """

    x: Array
    y: Array

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise ValueError(f"x has {len(self.x)} examples and y {len(self.y)} labels")
        if self.x.dtype not in (np.uint8, np.float32) or self.y.dtype not in (np.int32, np.float32):
            raise ValueError(
                f"x must be uint8 or float32 and y int32 or float32, not {self.x.dtype} and {self.y.dtype}"
            )

    def __len__(self) -> int:
        return len(self.y)


@dataclass(frozen=True, slots=True)
class Feature:
    """One feature of a table and its values start..stop-1 in a row: a number has one, a category one per level."""

    name: str
    start: int
    stop: int


def readable(x: Any) -> Any:
    """Return stored examples (NumPy or JAX) as a model reads them: bytes become x / 255, numbers stay."""
    return x.astype(np.float32) / np.float32(255) if x.dtype == np.uint8 else x
