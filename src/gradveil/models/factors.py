"""Gradients of single examples as products: their norms and weighted sums, with as few of them written out as possible.

A layer y = x W gives example j the gradient X_j' D_j, with X_j [R, i] the rows that W multiplied and D_j [R, o] the
gradient of the loss in the rows of y; a dense layer has R = 1, a convolution a row for every place. With R = 1 the norm
is |X_j| |D_j|, and the weighted sum over a batch is one matrix product. With more rows each gradient is made: that
costs no more than the plain batch's, since the rows of an example are multiplied once either way, and the gradients of
a few examples stay in the cache. Batches are therefore taken some examples at a time.

Only for models that promise `products`: every matrix among the parameters is used once, as the right side of `@`.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.models.gradients import batch_gradient, loss
from gradveil.models.networks import Model
from gradveil.tree import Array, Tree

BLOCK = 8
"""The most examples of a convolutional network that are taken at a time."""

Weigh = Callable[[Array, Array], Array]
"""From norms [n, M] and mask [n] of some examples to the weights [n, M] of their gradients."""


def in_products(model: Model) -> bool:
    """Whether a model promises that this module can be used for it."""
    return bool(getattr(model, "products", False))


def gradient_sums(model: Model, params: Tree, x: Array, y: Array, mask: Array, weigh: Weigh) -> tuple[Array, Tree]:
    """Return the norms [n, M] of the examples' gradients, and their sum with the weights that `weigh` makes of them.

    An example of weight 0 is left out, also where its gradient is not finite.
    """
    total, norms = _in_blocks(model, params, partial(_block_sums, model, params, weigh), (x, y, mask))
    return norms.reshape(-1, norms.shape[-1])[: len(y)], total


def plain_gradient(model: Model, params: Tree, x: Array, y: Array, weights: Array) -> Tree:
    """Return the gradient of sum_j weights[j] loss_j, as `batch_gradient`; for training, where a batch may be large."""
    if not in_products(model):
        return batch_gradient(model, params, x, y, weights)
    total, _ = _in_blocks(model, params, lambda *block: (batch_gradient(model, params, *block), ()), (x, y, weights))
    return total


def _in_blocks(
    model: Model, params: Tree, one: Callable[..., tuple[Tree, Any]], batch: tuple[Array, Array, Array]
) -> tuple[Tree, Any]:
    """Add up the sums that `one` gives for each block of a batch, whose last column is 0 for what fills the last block.

    What else it gives is stacked, [blocks, ...], or as it is where the batch is one block.
    """
    count = len(batch[1])
    size = _block_size(count) if _has_rows(model, params, batch[0]) else count
    if size == count:
        return one(*batch)
    missing = -count % size
    padded = (jnp.pad(a, [(0, missing)] + [(0, 0)] * (a.ndim - 1)) for a in batch)
    blocks = tuple(a.reshape(-1, size, *a.shape[1:]) for a in padded)

    def add(total: Tree, block: tuple[Array, ...]) -> tuple[Tree, Any]:
        summed, more = one(*block)
        return jax.tree.map(jnp.add, total, summed), more

    return jax.lax.scan(add, jax.tree.map(jnp.zeros_like, params), blocks)


def _block_size(count: int) -> int:
    """Return how many examples to take at a time: at most `BLOCK`, so that little is left to fill up."""
    sizes = range(BLOCK // 2, BLOCK + 1)
    return count if count <= BLOCK else min(sizes, key=lambda size: (-count % size, -size))


def _block_sums(model: Model, params: Tree, weigh: Weigh, x: Array, y: Array, mask: Array) -> tuple[Tree, Array]:
    layers = [_made(layer) for layer in _layers(model, params, x, y)]
    norms = jnp.concatenate([_norms(layer) for layer in layers], axis=1)
    weights = weigh(norms, mask)
    return tuple(_weighted(weights[:, [m]], layer) for m, layer in enumerate(layers)), norms


class _Product(NamedTuple):
    """The gradients of a matrix: inputs [n, ..., i] and errors [n, ..., o], a row for each place of an example."""

    inputs: Array
    errors: Array


class _Tapped:
    """A matrix that notes what it is multiplied with, and adds a shift to the product."""

    def __init__(self, weights: Array, shift: Array | float, seen: list[tuple[Array, Array]]) -> None:
        self._weights, self._shift, self._seen = weights, shift, seen

    def __rmatmul__(self, inputs: Array) -> Array:
        outputs = inputs @ self._weights + self._shift
        self._seen.append((inputs, outputs))
        return outputs


def _layers(model: Model, params: Tree, x: Array, y: Array) -> list[Array | _Product]:
    """Return the gradients of a block by layer: products for matrices, [n, ...] for what else is trained."""
    shapes = _output_shapes(model, params, x)

    def one(moved: Tree, x: Array, y: Array) -> tuple[Array, list[Array]]:
        seen: list[tuple[Array, Array]] = []
        tapped = tuple(_Tapped(p, m, seen) if p.ndim == 2 else m for p, m in zip(params, moved, strict=True))
        return loss(model, tapped, x, y), [inputs for inputs, _ in seen]

    outputs = iter(shapes)
    start = tuple(jnp.zeros(next(outputs)) if p.ndim == 2 else p for p in params)
    errors, inputs = jax.vmap(jax.grad(one, has_aux=True), in_axes=(None, 0, 0))(start, x, y)
    rows = iter(inputs)
    return [_Product(next(rows), e) if p.ndim == 2 else e for p, e in zip(params, errors, strict=True)]


def _output_shapes(model: Model, params: Tree, x: Array) -> list[tuple[int, ...]]:
    """Return the shapes of the products with each matrix, of one example, in the order of the parameters."""

    def outputs(params: Tree, x: Array) -> list[Array]:
        seen: list[tuple[Array, Array]] = []
        model.apply(tuple(_Tapped(p, 0.0, seen) if p.ndim == 2 else p for p in params), x)
        return [out for _, out in seen]

    return [output.shape for output in jax.eval_shape(outputs, params, x[0])]


def _has_rows(model: Model, params: Tree, x: Array) -> bool:
    return any(len(shape) > 1 for shape in _output_shapes(model, params, x))


def _made(layer: Array | _Product) -> Array | _Product:
    """Return a dense layer's gradients as they are, and those of a layer with rows written out, [n, i, o]."""
    if not isinstance(layer, _Product) or layer.errors.ndim == 2:
        return layer
    inputs, errors = (a.reshape(a.shape[0], -1, a.shape[-1]) for a in layer)
    return jnp.einsum("nri,nro->nio", inputs, errors)


def _norms(layer: Array | _Product) -> Array:
    """Return the norm of each example's gradient, [n, 1]."""
    if isinstance(layer, _Product):
        return tree.layer_norms(layer.inputs) * tree.layer_norms(layer.errors)
    return tree.layer_norms(layer)


def _weighted(weights: Array, layer: Array | _Product) -> Array:
    """Sum the gradients with weights [n, 1]."""
    if not isinstance(layer, _Product):
        summed: Array = tree.weighted_sum(weights, layer)
        return summed
    inputs, errors = tree.weigh((weights != 0).astype(jnp.float32), layer.inputs), tree.weigh(weights, layer.errors)
    product: Array = inputs.T @ errors
    return product
