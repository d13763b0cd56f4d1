"""What preparation rounds learn of the features before any gradient: their mean, and their second moment.

A preparation is one round in which every client sends the sum of one bounded vector an example, noised like any other
sum. What the server makes of the mean of all of them (a center, a whitening matrix) becomes part of the model's
parameters, which later rounds hold fixed.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import jax.numpy as jnp
import numpy as np

from gradveil.errors import BadInput
from gradveil.fields import real, settle
from gradveil.tree import Array

Host = np.ndarray[Any, Any]
_LEAST = 1e-12
"""Below this norm a vector has no direction."""
_FLOOR = 1e-6
"""The least ridge, for noise that is close to none."""


class Preparation(Protocol):
    """A noised sum of one vector an example, and what it is used for."""

    name: ClassVar[str]
    """What the ledger calls the round."""

    @property
    def share(self) -> float:
        """Its part of the budget: mu of this round over mu of the whole run."""

    def init(self, size: int) -> Array:
        """Return the value before the round, for features [size]."""

    def length(self, size: int) -> int:
        """Return the length d of a vector."""

    def vectors(self, x: Array) -> Array:
        """Return the vector of each example, [n, size] -> [n, d]; each has norm at most 1 if the features have."""

    def norms(self, x: Array) -> Array:
        """Return the norm of each vector, [n, size] -> [n], without making them."""

    def total(self, x: Array, weights: Array) -> Array:
        """Return sum_j weights[j] vectors(x)[j], [d], without making them."""

    def value(self, mean: Host, noise_std: float) -> Host:
        """Return what the server makes of the noised mean of all vectors."""

    def apply(self, value: Array, x: Array) -> Array:
        """Return the features of one example, [size], as later rounds use them."""


def unit(x: Array) -> Array:
    """Return x / ||x|| along the last axis; zeros stay zeros, also in gradients."""
    square = jnp.sum(jnp.square(x), axis=-1, keepdims=True)
    return x * jnp.where(square > _LEAST**2, 1 / jnp.sqrt(jnp.maximum(square, _LEAST**2)), 0.0)


def _check(share: float) -> None:
    if not 0 < share < 1:
        raise BadInput(f"share = {share}: a part of the budget lies between 0 and 1")


@dataclass(frozen=True, slots=True)
class NoisedMean:
    """The mean m of the features; later rounds use unit(x - m)."""

    share: float
    name: ClassVar[str] = "mean"

    def __post_init__(self) -> None:
        settle(self)
        _check(self.share)

    def init(self, size: int) -> Array:
        """Return zeros."""
        return jnp.zeros(size)

    def length(self, size: int) -> int:
        """Return k."""
        return size

    def vectors(self, x: Array) -> Array:
        """Return the features themselves."""
        return x

    def norms(self, x: Array) -> Array:
        """Return ||x||."""
        return jnp.sqrt(jnp.sum(jnp.square(x), axis=1))

    def total(self, x: Array, weights: Array) -> Array:
        """Return sum_j w_j x_j."""
        total: Array = weights @ x
        return total

    def value(self, mean: Host, noise_std: float) -> Host:
        """Return the mean as it is."""
        return mean

    def apply(self, value: Array, x: Array) -> Array:
        """Center and scale: unit(x - m)."""
        return unit(x - value)


@dataclass(frozen=True, slots=True)
class NoisedSecondMoment:
    """The second moment M = mean of x x'; later rounds use unit(x E (e + l)^-1/2) with M = E diag(e) E'.

    x x' is symmetric, so only its upper triangle is sent, entries off the diagonal times sqrt(2): its l2 norm is then
    the Frobenius norm of x x', which is ||x||^2. Noise of standard deviation s on that vector is noise s on the
    diagonal of M and s / sqrt(2) off it, whose eigenvalues reach about s sqrt(2 k): the ridge is
    l = `ridge` s sqrt(2 k), and eigenvalues below 0 count as 0.
    """

    share: float
    ridge: float = 1.2
    name: ClassVar[str] = "second-moment"

    def __post_init__(self) -> None:
        settle(self)
        _check(self.share)
        real("ridge", self.ridge)

    def init(self, size: int) -> Array:
        """Return the identity, which whitens nothing."""
        return jnp.eye(size)

    def length(self, size: int) -> int:
        """Return k (k + 1) / 2."""
        return size * (size + 1) // 2

    def vectors(self, x: Array) -> Array:
        """Return the scaled upper triangle of every x x'."""
        rows, columns, scale = _triangle(x.shape[1])
        return x[:, rows] * x[:, columns] * scale

    def norms(self, x: Array) -> Array:
        """Return ||x||^2."""
        return jnp.sum(jnp.square(x), axis=1)

    def total(self, x: Array, weights: Array) -> Array:
        """Return the scaled upper triangle of sum_j w_j x_j x_j'."""
        rows, columns, scale = _triangle(x.shape[1])
        total: Array = ((weights[:, None] * x).T @ x)[rows, columns] * scale
        return total

    def value(self, mean: Host, noise_std: float) -> Host:
        """Return the whitening matrix E (max(e, 0) + l)^-1/2, float32 [k, k]."""
        size = (math.isqrt(8 * len(mean) + 1) - 1) // 2
        rows, columns, scale = _triangle(size)
        moment = np.zeros((size, size))
        moment[rows, columns] = moment[columns, rows] = mean.astype(np.float64) / scale
        eigenvalues, vectors = np.linalg.eigh(moment)
        ridge = max(self.ridge * noise_std * math.sqrt(2 * size), _FLOOR)
        whitening: Host = (vectors / np.sqrt(np.maximum(eigenvalues, 0.0) + ridge)).astype(np.float32)
        return whitening

    def apply(self, value: Array, x: Array) -> Array:
        """Whiten and scale: unit(x W)."""
        return unit(x @ value)


def _triangle(size: int) -> tuple[Host, Host, Host]:
    """Return rows and columns of an upper triangle, and the factor of each entry: 1 on the diagonal, sqrt(2) off it."""
    rows, columns = np.triu_indices(size)
    return rows, columns, np.where(rows == columns, 1.0, math.sqrt(2)).astype(np.float32)
