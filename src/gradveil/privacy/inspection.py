"""Checks of custom parts before they are trusted: of a clip on random lots, of the others that they can be called."""

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import tree
from gradveil.errors import BadInput
from gradveil.own_code import called, is_own
from gradveil.privacy.clip import Clip, NormStats, joint_norms
from gradveil.privacy.method import Method
from gradveil.tree import Array, Tree

_SLACK = 1e-3
_NUMBERS = 2_000_000
"""The size of a lot, in numbers: more units of a small model, fewer of a large one."""


def own_parts(method: Method) -> tuple[str, ...]:
    """Return the names of a method's custom parts, those that are not gradveil's."""
    parts = (method.prune, method.clip, method.sensitivity, method.noise)
    return tuple(type(part).__qualname__ for part in parts if is_own(part))


def inspect(method: Method, params: Tree) -> None:
    """Refuse a custom clip whose units exceed its bound, or that declares `sound` and learns from un-noised norms.

    A custom clip, prune rule or sensitivity that raises is refused too.

    params: a tree of the model's shape. The lots are random, with norms from 1e-3 to 1e6: a refusal is certain, a pass
    proves nothing.
    """
    if not own_parts(method):
        return
    params = jax.tree.map(lambda leaf: jnp.zeros(np.shape(leaf)), params)
    with called("clip", method.clip):
        _inspect_clip(method.clip, params)
    with called("prune", method.prune):
        jax.eval_shape(lambda: method.prune(params, jax.random.key(0)))
    with called("sensitivity", method.sensitivity):
        jax.eval_shape(lambda: method.sensitivity(_norm_stats(1.0, params), jnp.asarray(1.0)))


def _inspect_clip(clip: Clip, params: Tree) -> None:
    name, state = type(clip).__qualname__, clip.init(params)
    for seed in range(3):
        lot = _lot(params, jax.random.key(seed))
        largest, bound = _largest(clip, lot, state), float(clip.bound(state))
        if not largest <= bound * (1 + _SLACK):
            raise BadInput(
                f"clip = {name}: a clipped unit has norm {largest:.3g}, and must be at most its bound C = {bound:.3g}"
            )
    if clip.sound and _learns_from_raw_norms(clip, params, state):
        raise BadInput(f"clip = {name}: declares sound = True, but its statistics depend on norms without noise")


def _lot(params: Tree, key: Array) -> Tree:
    """Draw units of very different norms, [n, ...] in the shapes of `params`."""
    n = max(3, min(16, _NUMBERS // max(tree.size(params), 1)))
    norms = jnp.logspace(-3, 6, n)
    leaves, shape = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    drawn = [jax.random.normal(k, (n, *np.shape(leaf))) for k, leaf in zip(keys, leaves, strict=True)]
    lot = jax.tree.unflatten(shape, drawn)
    scale = norms / jnp.maximum(joint_norms(tree.layer_norms(lot))[:, 0], 1e-30)
    return tree.weigh(jnp.broadcast_to(scale[:, None], (n, len(leaves))), lot)


def _largest(clip: Clip, lot: Tree, state: Tree) -> float:
    """Return the largest norm of a clipped unit: over all layers if the clip's bound is joint, else of a layer."""
    transformed = clip.transform(lot, state)
    norms = tree.layer_norms(transformed)
    after = tree.layer_norms(tree.weigh(jnp.asarray(clip.scales(norms, state)), transformed))
    return float(jnp.max(joint_norms(after) if clip.joint else after))


def _norm_stats(norm: float, params: Tree) -> NormStats:
    """Return what is measured of four units all of whose layers have one norm."""
    norms = jnp.full((4, len(jax.tree.leaves(params))), norm)
    return NormStats(norms, norms, norms[0], jnp.ones(4))


def _learns_from_raw_norms(clip: Clip, params: Tree, state: Tree) -> bool:
    """Whether the statistics of two crossings differ that differ in un-noised norms only."""
    noised = jax.tree.map(lambda a: jnp.ones(np.shape(a)), params)

    def statistics(norm: float) -> list[Array]:
        return jax.tree.leaves(clip.statistics(_norm_stats(norm, params), noised, jnp.asarray(1.0), state))

    pairs = zip(statistics(1e-3), statistics(1e3), strict=True)
    return any(not np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True) for a, b in pairs)
