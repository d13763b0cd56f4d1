"""How far a guess's gradient is from the one that was observed."""

from dataclasses import dataclass
from typing import Protocol

import jax
import jax.numpy as jnp

from gradveil.tree import Array, Tree


class Distance(Protocol):
    """A rule (observed, guessed, std, weights) -> scalar; weights are 1, or 0 for pruned coordinates."""

    def __call__(self, observed: Tree, guessed: Tree, std: Tree, weights: Tree) -> Array:
        """Compare two gradients; `std` is the noise on the observed one."""


def _total(tree: Tree) -> Array:
    """Sum all coordinates of all layers."""
    total: Array = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(tree))  # type: ignore[assignment]
    return total


def inner(a: Tree, b: Tree, weights: Tree) -> Array:
    """Return the sum over coordinates of weights a b."""
    return _total(jax.tree.map(lambda u, v, w: w * u * v, a, b, weights))


@dataclass(frozen=True, slots=True)
class SquaredL2:
    """sum_i (y_i - g_i)^2, as DLG and CPL."""

    def __call__(self, observed: Tree, guessed: Tree, std: Tree, weights: Tree) -> Array:
        """Sum squares over all layers alike."""
        return _total(jax.tree.map(lambda y, g, w: w * jnp.square(y - g), observed, guessed, weights))


@dataclass(frozen=True, slots=True)
class Cosine:
    """1 - <y, g> / (||y|| ||g||), as GradInv: only the direction counts, so a clipped gradient matches as well.

    Computed as half of the squared distance between y / ||y|| and g / ||g||, which has no rounding error near 0.
    """

    def __call__(self, observed: Tree, guessed: Tree, std: Tree, weights: Tree) -> Array:
        """Compare directions over all layers together."""
        one, other = (jax.lax.rsqrt(jnp.maximum(inner(a, a, weights), 1e-30)) for a in (observed, guessed))
        apart = jax.tree.map(lambda y, g: one * y - other * g, observed, guessed)
        return inner(apart, apart, weights) / 2


@dataclass(frozen=True, slots=True)
class LayerwiseCosine:
    """The mean over layers of 1 - cosine: a first layer with little of the norm counts as much as a last one.

    A layer that was held back whole, or of which nothing was read, counts as matched.
    """

    def __call__(self, observed: Tree, guessed: Tree, std: Tree, weights: Tree) -> Array:
        """Compare directions layer by layer."""

        def angle(y: Array, g: Array, w: Array) -> Array:
            lengths = jnp.sum(w * y * y) * jnp.sum(w * g * g)
            apart = 1 - jnp.sum(w * y * g) * jax.lax.rsqrt(jnp.maximum(lengths, 1e-30))
            return jnp.where(jnp.sum(w * y * y) == 0, 0.0, apart)

        angles = jax.tree.leaves(jax.tree.map(angle, observed, guessed, weights))
        return jnp.mean(jnp.stack(angles))


@dataclass(frozen=True, slots=True)
class Likelihood:
    """sum_i (y_i - g_i)^2 / (2 s_i^2): minus the log-likelihood under the true Gaussian noise, up to a constant.

    A reading without noise is assumed to have relative noise `least` (of the root mean square of y); otherwise only an
    exact match would count.
    """

    least: float = 1e-3

    def __call__(self, observed: Tree, guessed: Tree, std: Tree, weights: Tree) -> Array:
        """Weigh each coordinate by its precision."""
        count = jnp.maximum(_total(weights), 1.0)
        floor = self.least * jnp.sqrt(inner(observed, observed, weights) / count) + 1e-12
        scaled = jax.tree.map(
            lambda y, g, s, w: w * jnp.square((y - g) / jnp.maximum(s, floor)), observed, guessed, std, weights
        )
        return _total(scaled) / 2


DISTANCES = (SquaredL2(), Cosine(), LayerwiseCosine(), Likelihood())
