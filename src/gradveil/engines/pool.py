"""The examples of all clients on the devices, as the rounds of a model read them."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Sharding

from gradveil.data.dataset import readable
from gradveil.models.regression import SoftmaxRegression
from gradveil.tree import Tree

_CHUNK = 500
"""Examples at once: a compiled size, so that neither memory nor bits depend on how many there are."""


class Pool:
    """The examples as they are, or their features after the preparation of a model; one of the two at a time.

    What preparation rounds learned is fixed while gradients are sent. Its features are computed once for all of these
    rounds, since whitening takes k / classes times what a gradient on whitened features takes.
    """

    def __init__(self, x: np.ndarray[Any, Any], place: Sharding) -> None:
        self._host, self._place = x, place
        self._learned: tuple[np.ndarray[Any, Any], ...] = ()
        self._x: jax.Array | None = None

    def examples(self) -> jax.Array:
        """Return the examples as they are."""
        if self._x is None or self._learned:
            self._x, self._learned = None, ()
            self._x = jax.device_put(self._host, self._place)
        return self._x

    def features(self, model: SoftmaxRegression, params: Tree) -> jax.Array:
        """Return what `model.features` returns of all examples, float32 [n, k]."""
        learned = tuple(np.asarray(part) for part in params[: model.frozen_leaves])
        if self._x is None or not _same(learned, self._learned):
            self._x = None  # frees the other form before this one is made
            self._x, self._learned = jax.device_put(_in_chunks(model, params, self._host), self._place), learned
        return self._x


def _same(one: tuple[np.ndarray[Any, Any], ...], other: tuple[np.ndarray[Any, Any], ...]) -> bool:
    return len(one) == len(other) and all(map(np.array_equal, one, other))


def _in_chunks(model: SoftmaxRegression, params: Tree, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    feature_params = (*params[: model.frozen_leaves], jnp.zeros(()))
    parts = [_features(model, feature_params, np.resize(x[i : i + _CHUNK], (_CHUNK, *x.shape[1:]))) for i in _starts(x)]
    return np.concatenate([np.asarray(part) for part in parts])[: len(x)]


def _starts(x: np.ndarray[Any, Any]) -> range:
    return range(0, len(x), _CHUNK)


@partial(jax.jit, static_argnums=0)
def _features(model: SoftmaxRegression, params: Tree, x: jax.Array) -> jax.Array:
    return model.features(params, readable(x))
