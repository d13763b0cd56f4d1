"""Losses and gradients: of a whole batch for plain training, of every example for what must be protected."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from gradveil.models.networks import Model
from gradveil.tree import Array, Tree


def loss(model: Model, params: Tree, x: Array, y: Array) -> Array:
    """Return the cross-entropy -log softmax(model(x))[y] of one example."""
    logits = model.apply(params, x)
    return jax.nn.logsumexp(logits) - logits[y]


def per_example_gradients(model: Model, params: Tree, x: Array, y: Array) -> Tree:
    """Return the gradient of each example's loss, a lot with leaves [B, ...]."""
    return jax.vmap(jax.grad(partial(loss, model)), in_axes=(None, 0, 0))(params, x, y)


def batch_gradient(model: Model, params: Tree, x: Array, y: Array, weights: Array) -> Tree:
    """Return the gradient of sum_j weights[j] loss_j: the plain path, with no gradient of any single example."""

    def weighted(p: Tree) -> Any:
        return jnp.vdot(weights, jax.vmap(partial(loss, model), in_axes=(None, 0, 0))(p, x, y))

    return jax.grad(weighted)(params)
