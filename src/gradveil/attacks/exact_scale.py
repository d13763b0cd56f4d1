"""The scale of an example whose direction is known: G = X^T D stays the same if x_i is doubled and d_i is halved.

A bias fixes it (its gradient is the sum of all d_i), and so does a one-hot feature (its values add up to 1). Otherwise
the network itself does: at the true scale, the example's own gradient is its term of G.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.attacks.dense_input import DenseInput
from gradveil.attacks.leak import Host, Leak, Reading, Stage
from gradveil.models.gradients import loss
from gradveil.tree import Array, Tree

AGREES = 0.99
"""The cosine between a found d and that of the found example from which on the two belong together."""
SETTLED = 1 - 1e-9
"""The cosine beyond which only rounding is left."""
SLACK = 0.1
"""How far a value may lie outside of what examples have, as a part of their range."""
WITHIN = 0.999
"""The part of a vector in a row space from which on it is taken to belong there."""
SCALES = np.exp(np.linspace(-np.log(100), np.log(100), 65))
FINEST = 4
"""How often the grid of scales is narrowed by the factor 16, to the precision of the parameters."""


class Rows(NamedTuple):
    """The factors of a first layer's gradient: x [k, inputs] and d [k, units], a row of each for every example."""

    x: Host
    d: Host

    def times(self, factors: Host) -> "Rows":
        """Return the rows with x_i multiplied by a factor and d_i divided by it; their product stays the same."""
        return Rows(self.x * factors[:, None], self.d / factors[:, None])


class Explained(NamedTuple):
    """Rows at their true scale, the labels [k] that explain them best, and which rows [k] can be told to be right.

    settled: whether all are right, and nothing is left to be corrected.
    """

    rows: Rows
    labels: Host
    correct: Host
    settled: bool


def explained(leak: Leak, reading: Reading, layer: DenseInput, rows: Rows) -> Explained:
    """Fix the scale of each row by what the leak offers, then find the label whose gradient is its d."""
    rows = rows.times(_factors(leak, reading, layer, rows))
    own = _own_rows(leak.stage, reading, rows.x)
    cosines = np.einsum("kcu,ku->kc", own, rows.d) / np.maximum(
        np.linalg.norm(own, axis=2) * np.linalg.norm(rows.d, axis=1)[:, None], 1e-300
    )
    # Later steps take place at parameters that are not known, so their examples must be judged by themselves.
    several, agreement = leak.stage.steps > 1, np.max(cosines, axis=1)
    correct = _plausible(leak, rows.x) if several else agreement >= AGREES
    return Explained(rows, np.argmax(cosines, axis=1), correct, several or bool(agreement.min() >= SETTLED))


def confirmed(leak: Leak, reading: Reading, basis: Host, x: Host) -> Host:
    """Return combinations q [k, B] of the basis [B, units] that are the d of one of the examples x, at any scale.

    Whatever D was taken for, an x whose own d is in the row space of G is an example of the batch: a space of B
    dimensions out of many units holds no other by chance.
    """
    rotation, sizes, space = np.linalg.svd(basis, full_matrices=False)
    scales = np.ones(1) if level_columns(leak) else np.concatenate([SCALES, -SCALES])
    kept = []
    for one in x:
        own = _own_rows(leak.stage, reading, scales[:, None] * one).reshape(-1, basis.shape[1])
        within = own @ space.T
        shares = np.linalg.norm(within, axis=1) / np.maximum(np.linalg.norm(own, axis=1), 1e-300)
        if shares.max() >= WITHIN:
            vector = (within[np.argmax(shares)] / sizes) @ rotation.T
            kept.append(vector / np.linalg.norm(vector))
    return np.array(kept).reshape(-1, len(basis))


def _plausible(leak: Leak, x: Host) -> Host:
    """Say which rows look like examples: their levels are 0 or 1, or all values are in the range of public ones."""
    if levels := level_columns(leak):
        values = np.concatenate([x[:, part] for part in levels], axis=1)
        decided: Host = np.abs(values - np.round(np.clip(values, 0, 1))).max(axis=1) <= SLACK
        return decided
    public = leak.public.x.reshape(len(leak.public.x), -1)
    low, high = public.min(axis=0), public.max(axis=0)
    slack = SLACK * (high - low).max()
    inside: Host = np.all((x >= low - slack) & (x <= high + slack), axis=1)
    return inside


def level_columns(leak: Leak) -> list[slice]:
    """Return the one-hot features: those of several values that add up to 1 in every public row."""
    parts = [slice(c.start, c.stop) for c in leak.stage.columns if c.stop - c.start > 1]
    return [part for part in parts if np.allclose(leak.public.x[:, part].sum(axis=1), 1, atol=1e-5)]


def _factors(leak: Leak, reading: Reading, layer: DenseInput, rows: Rows) -> Host:
    """Return what each x must be multiplied by, from the bias, the levels or the network."""
    if layer.bias is not None:
        shares = np.linalg.lstsq(rows.d.T, layer.bias.astype(np.float64), rcond=None)[0]
        return np.asarray(1 / np.where(shares == 0, 1, shares))
    if levels := level_columns(leak):
        sums = np.stack([rows.x[:, part].sum(axis=1) for part in levels])
        return np.asarray(sums.sum(axis=0) / np.maximum(np.square(sums).sum(axis=0), 1e-300))
    usual = np.median(np.linalg.norm(leak.public.x.reshape(len(leak.public.x), -1), axis=1))
    lengths = usual / np.maximum(np.linalg.norm(rows.x, axis=1), 1e-300)
    return np.array([_factor(leak.stage, reading, x, d, s) for x, d, s in zip(*rows, lengths, strict=True)])


def _factor(stage: Stage, reading: Reading, x: Host, d: Host, usual: float) -> float:
    """Search the factor at which the network, shown the example, has d as its own; from `usual`, then ever nearer."""
    best = usual
    for narrowing in range(1 + FINEST):
        steps = best * SCALES ** (1 / 16**narrowing)
        trial = np.concatenate([steps, -steps]) if narrowing == 0 else steps
        own = _own_rows(stage, reading, trial[:, None] * x)
        misfit = np.linalg.norm(own * trial[:, None, None] - d, axis=2).min(axis=1)
        best = float(trial[np.argmin(misfit)])
    return best


def _own_rows(stage: Stage, reading: Reading, x: Host) -> Host:
    """Return the d of each example with each label, [k, classes, units], as it would be alone in its batch."""
    own = _rows_of(stage, reading.params, reading.clip_state, jnp.asarray(x, jnp.float32))
    return np.asarray(own, np.float64)


@partial(jax.jit, static_argnums=0)
def _rows_of(stage: Stage, params: Tree, clip_state: Tree, x: Array) -> Array:
    def one(pair: tuple[Array, Array]) -> Array:
        flat, label = pair
        gradient = _alone(stage, params, clip_state, flat.reshape(stage.shape), label)
        # One example's gradient is x d^T, so d is x^T (x d^T) / |x|^2.
        row: Array = flat @ jax.tree.leaves(gradient)[0] / jnp.maximum(jnp.sum(jnp.square(flat)), 1e-30)
        return row

    labels = jnp.tile(jnp.arange(stage.classes), x.shape[0])
    rows: Array = jax.lax.map(one, (jnp.repeat(x, stage.classes, axis=0), labels))
    return rows.reshape(x.shape[0], stage.classes, -1)


def _alone(stage: Stage, params: Tree, clip_state: Tree, x: Array, label: Array) -> Tree:
    """Return what one example adds to the reading; of several steps, as if all took place at the first parameters."""
    if stage.steps == 1:
        return stage.replay(params, clip_state, x[None], label[None])
    gradient = jax.grad(partial(loss, stage.model))(params, x, label)
    return jax.tree.map(lambda a: a / stage.examples, gradient)
