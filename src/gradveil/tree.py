"""Arithmetic on parameter trees: any pytree of arrays, one leaf a *layer* (the paper's m = 1..M).

A *lot* is a tree whose leaves carry a leading axis of units, so that leaf m has shape [n, ...].
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.normals import normals

Tree = Any
Array = jax.Array

_FEW = 16


def layer_norms(lot: Tree) -> Array:
    """Return the l2 norm of each unit in each layer, shape [n, M].

    A unit whose squares overflow float32 has norm infinity; a clip then scales it to zero, which keeps every bound.
    """
    leaves = jax.tree.leaves(lot)
    return jnp.stack([jnp.sqrt(jnp.sum(jnp.square(_rows(a)), axis=1)) for a in leaves], axis=1)


def _rows(leaf: Array) -> Array:
    """Lay each unit of a leaf out as one row, also where there are no units."""
    return leaf.reshape(leaf.shape[0], math.prod(leaf.shape[1:]))


def norms(tree: Tree) -> Array:
    """Return the l2 norm of each layer of one tree, shape [M]."""
    return layer_norms(lot_of_one(tree))[0]


def lot_of_one(tree: Tree) -> Tree:
    """View one tree as a lot with a single unit."""
    return jax.tree.map(lambda a: a[None], tree)


def weighted_sum(weights: Array, lot: Tree) -> Tree:
    """Sum the units of a lot, unit j of layer m weighted by weights[j, m]; shape [n, M] and lot -> tree.

    A unit of weight 0 is left out, also where it is not finite.
    """
    leaves, shape = jax.tree.flatten(lot)
    return jax.tree.unflatten(shape, [_weighted(weights[:, m], a) for m, a in enumerate(leaves)])


def _weighted(weights: Array, leaf: Array) -> Array:
    """Sum the units of one layer; a few are added in one loop, many as a product, which needs a copy of them."""
    if 0 < leaf.shape[0] <= _FEW:
        return sum((_scaled(weights[j], leaf[j]) for j in range(1, leaf.shape[0])), _scaled(weights[0], leaf[0]))
    kept = jnp.where(_column(weights, leaf) != 0, leaf, 0.0)
    return jnp.tensordot(weights, kept, 1)


def _scaled(weights: Array, leaf: Array) -> Array:
    return jnp.where(weights != 0, weights * leaf, 0.0)


def _column(weights: Array, leaf: Array) -> Array:
    """Shape weights [n] so that they multiply the units of a leaf [n, ...]."""
    return weights.reshape((-1,) + (1,) * (leaf.ndim - 1))


def summed(lot: Tree, weights: Array) -> Tree:
    """Sum the units of a lot, unit j weighted by weights[j] in all layers; a lot without layers stays so."""
    return jax.tree.map(lambda a: jnp.tensordot(weights, a, 1), lot)


def weigh(weights: Array, lot: Tree) -> Tree:
    """Scale unit j of layer m by weights[j, m], keeping the lot; weight 0 gives zeros, also where it is not finite."""
    leaves, shape = jax.tree.flatten(lot)
    return jax.tree.unflatten(shape, [_scaled(_column(weights[:, m], a), a) for m, a in enumerate(leaves)])


def add_scaled(tree: Tree, other: Tree, factor: Array | float) -> Tree:
    """Return tree + factor * other."""
    return jax.tree.map(lambda a, b: a + factor * b, tree, other)


def subtract(tree: Tree, other: Tree) -> Tree:
    """Return tree - other."""
    return jax.tree.map(jnp.subtract, tree, other)


def size(tree: Tree) -> int:
    """Return the number of coordinates of a tree."""
    return sum(int(np.prod(np.shape(a))) for a in jax.tree.leaves(tree))


def flat(lot: Tree) -> Array:
    """Lay the layers of each unit side by side, shape [n, d]."""
    return jnp.concatenate([_rows(a) for a in jax.tree.leaves(lot)], axis=1)


def unflat(vector: Array, like: Tree) -> Tree:
    """Cut a vector [d] into the layers of `like`."""
    leaves, shape = jax.tree.flatten(like)
    edges = np.cumsum([0, *(a.size for a in leaves)])
    parts = [vector[i:j].reshape(a.shape) for i, j, a in zip(edges[:-1], edges[1:], leaves, strict=True)]
    return jax.tree.unflatten(shape, parts)


def gaussian(key: Array, like: Tree) -> Tree:
    """Draw one standard normal per coordinate of `like`, all in a single call (a call a layer is slower)."""
    return unflat(normals(key, size(like)), like)


def is_finite(lot: Tree) -> Array:
    """Return for each unit of a lot whether all its coordinates are finite, shape [n]."""
    leaves = jax.tree.leaves(lot)
    return jnp.stack([jnp.isfinite(_rows(a)).all(axis=1) for a in leaves]).all(axis=0)
