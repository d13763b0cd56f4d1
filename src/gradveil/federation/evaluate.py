"""How good a model is, with its interval, and how large its gradients are."""

import math
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import beta

from gradveil.data.dataset import Split, readable
from gradveil.models.gradients import is_number, per_example_gradients
from gradveil.models.networks import Model
from gradveil.models.regression import SoftmaxRegression
from gradveil.tree import Array, Tree, layer_norms

CHUNK = 250
BLOCK = 10  # examples at once: what a CNN keeps of them fits into a core's cache


class Score(NamedTuple):
    """Accuracy and mean loss on n examples; where numbers are predicted, in place of the accuracy the RMSE."""

    accuracy: float | None
    loss: float
    n: int
    rmse: float | None = None

    def interval(self, level: float = 0.95) -> tuple[float, float] | None:
        """Return the Clopper-Pearson interval of the accuracy: exact for n independent examples."""
        if self.accuracy is None:
            return None
        right, tail = round(self.accuracy * self.n), (1 - level) / 2
        low = float(beta.ppf(tail, right, self.n - right + 1)) if right else 0.0
        high = float(beta.ppf(1 - tail, right + 1, self.n - right)) if right < self.n else 1.0
        return low, high


def score(model: Model, params: Tree, split: Split) -> Score:
    """Evaluate a model on a split, in chunks of a fixed size so that memory and bits do not depend on n.

    Chunks are dealt to all local devices and added in their order, so neither do bits depend on the devices.
    """
    devices = jax.local_devices()
    copies = [jax.device_put(params, device) for device in devices]
    starts = range(0, len(split), CHUNK)
    parts = [_score_chunk(model, copies[i % len(devices)], *_chunk(split, start)) for i, start in enumerate(starts)]
    right, total = (sum(float(part[i]) for part in parts) for i in (0, 1))
    if is_number(split.y):
        return Score(None, total / len(split), len(split), math.sqrt(total / len(split)))
    return Score(right / len(split), total / len(split), len(split))


def _chunk(split: Split, start: int) -> tuple[Any, Any]:
    """Return CHUNK examples and labels, filled up with examples of label -1, or NaN among numbers."""
    x, y = split.x[start : start + CHUNK], split.y[start : start + CHUNK]
    missing, blank = CHUNK - len(y), math.nan if is_number(y) else -1
    return np.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1)), np.pad(y, (0, missing), constant_values=blank)


def logits(model: Model, params: Tree, x: Any) -> Any:
    """Return the logits [n, classes] of stored examples [n, ...], in chunks of a fixed size as `score` does."""
    parts = []
    for start in range(0, len(x), CHUNK):
        chunk = x[start : start + CHUNK]
        full = np.pad(chunk, [(0, CHUNK - len(chunk))] + [(0, 0)] * (chunk.ndim - 1))
        parts.append(np.asarray(_logits_chunk(model, params, full))[: len(chunk)])
    return np.concatenate(parts) if parts else np.zeros((0, 0), np.float32)


@partial(jax.jit, static_argnums=0)
def _logits_chunk(model: Model, params: Tree, x: Array) -> Array:
    return _logits(model, params, x)


def _logits(model: Model, params: Tree, x: Array) -> Array:
    block = CHUNK if isinstance(model, SoftmaxRegression) else BLOCK  # a whitening matrix is read once a block
    mapped: Array = jax.lax.map(partial(model.apply, params), readable(x), batch_size=block)
    return mapped


@partial(jax.jit, static_argnums=0)
def _score_chunk(model: Model, params: Tree, x: Array, y: Array) -> tuple[Array, Array]:
    logits = _logits(model, params, x)
    if is_number(y):
        squares = jnp.square(logits[:, -1] - jnp.nan_to_num(y))
        return jnp.zeros(()), jnp.sum(jnp.where(jnp.isnan(y), 0.0, squares))
    real = y >= 0
    losses = jax.nn.logsumexp(logits, axis=1) - jnp.take_along_axis(logits, jnp.maximum(y, 0)[:, None], axis=1)[:, 0]
    return jnp.sum((jnp.argmax(logits, axis=1) == y) & real), jnp.sum(losses * real)


@partial(jax.jit, static_argnums=0)
def _norms(model: Model, params: Tree, x: Array, y: Array) -> Array:
    return layer_norms(per_example_gradients(model, params, readable(x), y))


QUANTILES = (0.5, 0.9, 0.99, 1.0)


def norm_quantiles(model: Model, params: Tree, x: Any, y: Any) -> dict[str, float]:
    """Return quantiles of the per-example layer norms, over examples and layers; the last is the paper's l2-max."""
    norms = np.asarray(_norms(model, params, x, y)).ravel()
    with np.errstate(invalid="ignore"):  # a model that overflows has infinite norms
        return {f"{q:g}": float(np.quantile(norms, q)) for q in QUANTILES}
