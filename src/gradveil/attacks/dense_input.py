"""The gradient of a dense first layer: the only layer whose gradient is made of the examples themselves."""

from typing import NamedTuple

import jax
import numpy as np

from gradveil.attacks.leak import Host, Stage
from gradveil.tree import Tree


class DenseInput(NamedTuple):
    """The tensors of a first layer: weights [inputs, units], and bias [units] or None if the layer has none."""

    weights: Host
    bias: Host | None


def dense_input(stage: Stage, tensors: Tree) -> DenseInput | None:
    """Return the first layer of a tree shaped like the parameters, or None if it is not dense on the whole input."""
    first, *others = jax.tree.leaves(tensors)
    if first.ndim != 2 or first.shape[0] != int(np.prod(stage.shape)):
        return None
    has_bias = bool(others) and others[0].shape == first.shape[1:]
    return DenseInput(np.asarray(first), np.asarray(others[0]) if has_bias else None)
