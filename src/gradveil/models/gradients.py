"""Losses and gradients: of a whole batch for plain training, of every example for what must be protected."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from gradveil.models.networks import Model
from gradveil.tree import Array, Tree


def loss(model: Model, params: Tree, x: Array, y: Array) -> Array:
    """Return the loss of one example: cross-entropy -log softmax(model(x))[y], or (model(x) - y)^2 of a number y.

    Labels of a floating-point type are numbers to predict, for which the model has one output: the last logit.
    """
    logits = model.apply(params, x)
    if is_number(y):
        return jnp.square(logits[-1] - y)
    return jax.nn.logsumexp(logits) - logits[y]


def is_number(y: Any) -> bool:
    """Whether labels are numbers to predict, and not numbers of classes."""
    return bool(jnp.issubdtype(jnp.result_type(y), jnp.floating))


def trained(model: Model, params: Tree) -> Tree:
    """Return the parameters that gradients move: all, or those after the first `frozen_leaves` of a model with some."""
    frozen = getattr(model, "frozen_leaves", 0)
    return params[frozen:] if frozen else params


def joined(model: Model, params: Tree, weights: Tree) -> Tree:
    """Return all parameters, with `weights` in place of the trained ones."""
    frozen = getattr(model, "frozen_leaves", 0)
    return (*params[:frozen], *weights) if frozen else weights


def per_example_gradients(model: Model, params: Tree, x: Array, y: Array) -> Tree:
    """Return the gradient of each example's loss in the trained parameters, a lot with leaves [B, ...]."""

    def one(weights: Tree, x: Array, y: Array) -> Array:
        return loss(model, joined(model, params, weights), x, y)

    return jax.vmap(jax.grad(one), in_axes=(None, 0, 0))(trained(model, params), x, y)


def batch_gradient(model: Model, params: Tree, x: Array, y: Array, weights: Array) -> Tree:
    """Return the gradient of sum_j weights[j] loss_j: the plain path, with no gradient of any single example."""

    def weighted(p: Tree) -> Any:
        at = joined(model, params, p)
        return jnp.vdot(weights, jax.vmap(partial(loss, model), in_axes=(None, 0, 0))(at, x, y))

    return jax.grad(weighted)(trained(model, params))
