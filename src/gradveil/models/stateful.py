"""Modules of other libraries taken apart: weights, a function of them, and a refusal of state beside them.

A running mean over a batch mixes examples, so that no gradient of a single example exists, and clipping one bounds
nothing.
"""

import copy
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import own_code
from gradveil.errors import BadInput
from gradveil.tree import Array, Tree

Parts = tuple[Tree, Callable[[Tree, Array], Array], str]
ADVICE = "so an example's gradient would depend on other examples; use group norm (GroupNorm) in its place"


def refuse_flax_state(variables: Any) -> None:
    """Refuse collections beside `params`, such as the batch_stats of a BatchNorm, by the name of the layer."""
    for collection, content in variables.items():
        if collection != "params":
            layer = ".".join(_first_path(content))
            raise BadInput(f"model: layer {layer!r} keeps state ({collection}), {ADVICE}")


def _first_path(content: Any) -> list[str]:
    path = []
    while isinstance(content, dict) and content:
        name = next(iter(content))
        path.append(str(name))
        content = content[name]
    return path[:-1] or path


def instance_parts(module: Any) -> Parts:
    """Return the weights of a module of equinox or torch, the function (weights, x) -> answer, and their digest."""
    library = own_code.library_of(module)
    if library == "equinox":
        return _equinox(module)
    if library == "torch":
        return _torch(module)
    raise BadInput(f"model: {type(module).__name__} is no module of flax.linen, equinox or torch, nor (init, apply)")


def _equinox(module: Any) -> Parts:
    import equinox

    for path, leaf in jax.tree_util.tree_leaves_with_path(module, is_leaf=_is_state):
        if _is_state(leaf):
            layer = jax.tree_util.keystr(path[:-1]).removeprefix(".")
            raise BadInput(f"model: layer {layer or type(module).__name__!r} keeps state, {ADVICE}")
    weights, rest = equinox.partition(module, equinox.is_inexact_array)
    leaves, structure = jax.tree.flatten(weights)

    def compute(params: Tree, x: Array) -> Array:
        answer: Array = equinox.combine(jax.tree.unflatten(structure, list(params)), rest)(x)
        return answer

    return tuple(leaves), compute, _digest(leaves)


def _is_state(leaf: Any) -> bool:
    return type(leaf).__name__ == "StateIndex"


def _torch(module: Any) -> Parts:
    try:
        import torch
        from torch2jax import t2j
    except ImportError:
        raise BadInput("model: modules of torch need torch2jax; install gradveil[torch]") from None
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.modules.batchnorm._NormBase) and layer.track_running_stats:
            raise BadInput(f"model: layer {name or type(layer).__name__!r} keeps state (running statistics), {ADVICE}")
    _teach_group_norm()
    still = copy.deepcopy(module).eval()
    weights = {name: jnp.asarray(value.detach().cpu().numpy()) for name, value in still.named_parameters()}
    constants = {name: jnp.asarray(value.detach().cpu().numpy()) for name, value in still.named_buffers()}
    function = t2j(still)

    def compute(params: Tree, x: Array) -> Array:
        batch = jnp.moveaxis(x, -1, 0)[None] if x.ndim == 3 else x[None]
        answer: Array = function(batch, state_dict={**params, **constants})[0]
        return answer

    return weights, compute, _digest(jax.tree.leaves(weights))


def _teach_group_norm() -> None:
    """Tell torch2jax what group norm is, which it does not know: groups of channels are standardized, then scaled."""
    import torch
    import torch2jax

    def group_norm(x: Any, groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Array:
        values, scale, shift = (getattr(item, "value", item) for item in (x, weight, bias))
        grouped = values.reshape(values.shape[0], groups, -1)
        mean, variance = (moment(grouped, axis=2, keepdims=True) for moment in (jnp.mean, jnp.var))
        normed = ((grouped - mean) / jnp.sqrt(variance + eps)).reshape(values.shape)
        per_channel = (1, -1, *(1 for _ in values.shape[2:]))
        normed = normed if scale is None else normed * scale.reshape(per_channel)
        shifted: Array = normed if shift is None else normed + shift.reshape(per_channel)
        return shifted

    if torch.nn.functional.group_norm not in torch2jax.HANDLED_FUNCTIONS:
        torch2jax.implements(torch.nn.functional.group_norm)(group_norm)


def _digest(leaves: list[Any]) -> str:
    """Return the SHA-256 of the weights; "traced" where only shapes are computed."""
    running = hashlib.sha256()
    for leaf in leaves:
        if isinstance(leaf, jax.core.Tracer):
            return "traced"
        running.update(str(np.shape(leaf)).encode())
        running.update(np.ascontiguousarray(leaf).tobytes())
    return running.hexdigest()
