"""Fixed linear maps from many features to few: drawn from a seed, or fitted to procedural pictures. No record is read.

A map is a value with `fit`, which gives its matrix. Signs of fitted columns are settled by a rule, since eigenvectors
have none of their own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.linalg

from gradveil.errors import BadInput
from gradveil.fields import settle, whole
from gradveil.models.features.glyphs import glyphs
from gradveil.models.features.leaves import leaves, objects

Matrix = np.ndarray[Any, Any]
Raw = Callable[[Matrix], Matrix]
"""Gives the features before the map: pictures float32 [n, h, w, c] -> [n, d]."""
Shape = tuple[int, ...]
_RIDGE = 1e-4
"""Added to variances before they are inverted; features have norm at most 1."""


class FixedMap(Protocol):
    """A linear map from d numbers to `k`, known before any record is seen; k is None where all numbers stay."""

    @property
    def k(self) -> int | None:
        """How many numbers are left."""

    @property
    def words(self) -> str:
        """Where the map comes from, as the end of a sentence; empty if there is none."""

    def fit(self, raw: Raw, shape: Shape, seed: int) -> Matrix | None:
        """Return the matrix float32 [d, k] for examples of a shape, None for no map."""


@dataclass(frozen=True, slots=True)
class NoMap:
    """All numbers stay."""

    @property
    def k(self) -> None:
        """No number is set."""

    @property
    def words(self) -> str:
        """Say nothing."""
        return ""

    def fit(self, raw: Raw, shape: Shape, seed: int) -> None:
        """Return no matrix."""


@dataclass(frozen=True, slots=True)
class RandomMap:
    """Orthonormal columns drawn from the seed."""

    k: int = 400

    def __post_init__(self) -> None:
        settle(self)
        whole("k", self.k)

    @property
    def words(self) -> str:
        """Say that no picture is behind it."""
        return "a seeded random projection, for which no picture was used"

    def fit(self, raw: Raw, shape: Shape, seed: int) -> Matrix:
        """Orthogonalize a Gaussian matrix."""
        width = _checked(self.k, raw(np.zeros((1, *shape), np.float32)).shape[1])
        columns: Matrix = np.linalg.qr(np.random.default_rng([seed, 3]).standard_normal((width, self.k)))[0]
        return _signed(columns)


@dataclass(frozen=True, slots=True)
class GlyphMap:
    """Discriminants (LDA) of procedural glyphs: `skeletons` classes of `copies` deformed copies each.

    Columns solve T v = lambda (W + 1e-4 I) v, where T is the second moment of centered unit features and W that within
    classes; column i is scaled by lambda_i^(1/4).
    """

    k: int = 200
    skeletons: int = 5000
    copies: int = 3

    def __post_init__(self) -> None:
        settle(self)
        whole("k", self.k)
        whole("skeletons", self.skeletons, 2, 100_000)
        whole("copies", self.copies, 2, 100)

    @property
    def words(self) -> str:
        """Say what the glyphs know of MNIST."""
        return (
            f"discriminants of {self.skeletons} procedural glyphs: no real picture was used, but their format "
            "(a pen's strokes in a box of 20 of 28 pixels, centered by mass) is the one that MNIST publishes"
        )

    def fit(self, raw: Raw, shape: Shape, seed: int) -> Matrix:
        """Draw the glyphs in the size of the examples and find their discriminants."""
        pictures = glyphs(self.skeletons, self.copies, min(shape[:2]), seed)
        rows = raw(_placed(pictures, shape)).astype(np.float64)
        rows -= rows.mean(axis=0)
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-8)
        width = _checked(self.k, rows.shape[1])
        classes = rows.reshape(self.skeletons, self.copies, width)
        within = (classes - classes.mean(axis=1, keepdims=True)).reshape(rows.shape)
        spread = within.T @ within / (self.skeletons * (self.copies - 1)) + _RIDGE * np.eye(width)
        values, vectors = scipy.linalg.eigh(
            rows.T @ rows / len(rows), spread, subset_by_index=(width - self.k, width - 1)
        )
        return _signed(vectors[:, ::-1] * np.maximum(values[::-1], 0) ** 0.25)


@dataclass(frozen=True, slots=True)
class LeafMap:
    """Principal components of procedural dead leaves; column i is scaled by (variance_i + 1e-4)^-power.

    objects: the leaves are cut out along mirror-symmetric outlines on black.
    """

    k: int = 800
    power: float = 0.4
    pictures: int = 3000
    objects: bool = False

    def __post_init__(self) -> None:
        settle(self)
        whole("k", self.k)
        if not 0 <= self.power <= 1:
            raise BadInput(f"power = {self.power}: must be between 0 and 1")
        whole("pictures", self.pictures, 2, 100_000)
        if self.k >= self.pictures:
            raise BadInput(f"k = {self.k}: must be below the number of pictures, {self.pictures}")

    @property
    def words(self) -> str:
        """Say what the leaves know of the data."""
        knows = (
            "that they stand on black and are symmetric follows the published format of Fashion-MNIST"
            if self.objects
            else "dead leaves were chosen because they imitate the statistics of natural images"
        )
        return f"principal components of {self.pictures} procedural dead-leaves pictures: no real picture, but {knows}"

    def fit(self, raw: Raw, shape: Shape, seed: int) -> Matrix:
        """Paint the leaves in the size of the examples and find their components by the smaller Gram matrix."""
        paint = objects if self.objects else leaves
        # Not the seed of the dictionary: its pictures would be among those that the components are fitted to.
        pictures = paint(self.pictures, max(shape[:2]), shape[2], seed + 1_000_003)[:, : shape[0], : shape[1]]
        rows = raw(pictures).astype(np.float64)
        rows -= rows.mean(axis=0)
        _checked(self.k, rows.shape[1])
        n = len(rows)
        values, vectors = scipy.linalg.eigh(rows @ rows.T / n, subset_by_index=(n - self.k, n - 1))
        variances = np.maximum(values[::-1], 0)
        columns = rows.T @ vectors[:, ::-1] / np.sqrt(n * np.maximum(variances, 1e-12))
        return _signed(columns * (variances + _RIDGE) ** -self.power)


MAPS = (NoMap, RandomMap, GlyphMap, LeafMap)


def _checked(k: int, width: int) -> int:
    if k > width:
        raise BadInput(f"k = {k}: these features have only {width} numbers")
    return width


def _signed(columns: Matrix) -> Matrix:
    """Return the columns as float32, each with the sign that makes its entry of largest size positive."""
    largest = columns[np.argmax(np.abs(columns), axis=0), np.arange(columns.shape[1])]
    return (columns * np.where(largest < 0, -1, 1)).astype(np.float32)


def _placed(pictures: Matrix, shape: Shape) -> Matrix:
    """Put square gray pictures [n, side, side] into the middle of black ones of a shape, alike in every channel."""
    top, left = ((length - pictures.shape[1]) // 2 for length in shape[:2])
    whole_picture = np.zeros((len(pictures), *shape), np.float32)
    side = pictures.shape[1]
    whole_picture[:, top : top + side, left : left + side] = pictures[..., None]
    return whole_picture
