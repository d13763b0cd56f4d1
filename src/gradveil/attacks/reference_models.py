"""How well a model knows a record, beside models that never saw it: the margin of its label, less what is usual.

A record that every model finds easy is no member for that. Reference models of the same kind, trained on public records
alone, say how easy it is (difficulty calibration; Watson et al., and LiRA without models that saw the record).
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradveil.attacks.leak import Host, Public, Stage
from gradveil.models.gradients import joined, loss, trained
from gradveil.models.networks import Model
from gradveil.tree import Array, Tree

STEPS, LOT, RATE, CHUNK = 600, 64, 3e-3, 500


def margins(model: Model, params: Tree, x: Host, y: Host) -> Host:
    """Return log p(y) - log(1 - p(y)) of each record, [n]: the logit of its label over all others."""
    parts = [
        np.asarray(_margins(model, params, *(jnp.asarray(_filled(a, i)) for a in (x, y))))
        for i in range(0, len(y), CHUNK)
    ]
    logits: Host = np.concatenate(parts)[: len(y)].astype(np.float64)
    return np.nan_to_num(logits, nan=0.0, posinf=1e6, neginf=-1e6)


def _filled(a: Host, start: int) -> Host:
    """Return a chunk of rows, filled up with the first, so that one program serves all chunks."""
    part = a[start : start + CHUNK]
    filled: Host = np.concatenate([part, np.repeat(a[:1], CHUNK - len(part), axis=0)])
    return filled


@partial(jax.jit, static_argnums=0)
def _margins(model: Model, params: Tree, x: Array, y: Array) -> Array:
    def one(example: Array, label: Array) -> Array:
        logits = model.apply(params, example)
        others = jnp.where(jnp.arange(logits.shape[0]) == label, -jnp.inf, logits)
        return logits[label] - jax.nn.logsumexp(others)

    return jax.vmap(one)(x, y)


def usual_margins(stage: Stage, params: Tree, public: Public, x: Host, y: Host, count: int, key: Array) -> Host:
    """Return the mean margin of each record, [n], over `count` models of the stage's kind trained on public records.

    What preparation rounds learned is taken from `params`.
    """
    own, labels = jnp.asarray(public.x), jnp.asarray(public.y)
    each = [
        margins(stage.model, _reference(stage.model, stage.shape, stage.classes, params, own, labels, one), x, y)
        for one in jax.random.split(key, count)
    ]
    mean: Host = np.mean(each, axis=0)
    return mean


@partial(jax.jit, static_argnums=(0, 1, 2))
def _reference(
    model: Model, shape: tuple[int, ...], classes: int, params: Tree, x: Array, y: Array, key: Array
) -> Tree:
    """Train a model on public records by Adam."""
    rule, (start, lots) = optax.adam(RATE), jax.random.split(key)
    weights = trained(model, model.init(start, shape, classes))

    def error(at: Tree, rows: Array) -> Array:
        losses = jax.vmap(partial(loss, model, joined(model, params, at)))(x[rows], y[rows])
        return jnp.mean(losses)

    def step(carry: tuple[Tree, Tree], one: Array) -> tuple[tuple[Tree, Tree], None]:
        rows = jax.random.randint(one, (LOT,), 0, y.shape[0])
        move, state = rule.update(jax.grad(error)(carry[0], rows), carry[1])
        return (optax.apply_updates(carry[0], move), state), None

    (weights, _), _ = jax.lax.scan(step, (weights, rule.init(weights)), jax.random.split(lots, STEPS))
    return joined(model, params, weights)


def beside_usual(own: Host, usual: Host, calibration: slice) -> Host:
    """Return own margins less those that a line through the calibration records predicts from the usual ones, [n].

    The line makes up for models that are more or less sure of everything than the reference models are.
    """
    known = np.stack([np.ones_like(usual), usual], axis=1)
    line = np.linalg.lstsq(known[calibration], own[calibration], rcond=None)[0]
    rest: Host = own - known @ line
    return rest
