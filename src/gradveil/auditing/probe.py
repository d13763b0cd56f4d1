"""A stage for audits: the plan's own client and server code, on units that the auditor chooses.

Clipping, noise, sampling and aggregation do not depend on where units come from. So a plan is audited with a model
whose gradient is the example itself, whatever the parameters: then any worst case can be tried. A linear model, whose
sums have a code path of their own, keeps that path.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.data.dataset import Dataset
from gradveil.federation import server
from gradveil.federation.ledger import shape_of
from gradveil.federation.plan import Plan
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.models.regression import SoftmaxRegression
from gradveil.tree import Array, Tree

Host = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Probe:
    """A model whose per-example gradient is the example: x [d] cut into tensors of these sizes; the label is 1."""

    sizes: tuple[int, ...]

    def init(self, key: Array, shape: tuple[int, ...], classes: int) -> Tree:
        """Return zeros, one vector a tensor."""
        return tuple(jnp.zeros(size) for size in self.sizes)

    def apply(self, params: Tree, x: Array) -> Array:
        """Return logits whose loss at label 1 has the gradient x: softplus is linear to rounding below -50."""
        edges = np.cumsum((0, *self.sizes))
        parts = [x[i:j] for i, j in pairwise(edges)]
        moved = sum(jnp.vdot(w - jax.lax.stop_gradient(w), part) for w, part in zip(params, parts, strict=True))
        return jnp.stack([jnp.asarray(50.0), -jnp.asarray(moved)])


@dataclass(frozen=True, slots=True, eq=False)
class AuditStage:
    """A plan as it is audited, the examples it takes, and what stands for a record that is not there.

    absent: the value of every number of such a record: 0, whose gradient is zero, or for a linear model NaN, whose
    gradient counts as zero.
    """

    plan: Plan
    shape: tuple[int, ...]
    classes: int
    absent: float
    label: int

    @property
    def size(self) -> int:
        """The length of an example."""
        return math.prod(self.shape)

    def start(self, roots: Keys) -> State:
        """Return the state before the first round."""
        return server.init(self.plan, self.shape, self.classes, roots)

    def nobody(self) -> Host:
        """Return the records of a client that contributes nothing, [size, d]."""
        return np.full((self.plan.client_size, self.size), self.absent, np.float32)

    def labels(self) -> Host:
        """Return the label of every record of a client."""
        return np.full(self.plan.client_size, self.label, np.int32)


def staged(plan: Plan, dataset: Dataset, longest: int) -> AuditStage:
    """Return the stage of a plan, with tensors of at most so many coordinates; their number M stays."""
    if isinstance(plan.model, SoftmaxRegression):
        size = min(math.prod(dataset.shape), longest)
        return AuditStage(replace(plan, features=None), (size,), min(len(dataset.classes), 10), math.nan, 0)
    tensors = jax.tree.leaves(shape_of(plan, dataset.shape, len(dataset.classes)))
    sizes = tuple(min(math.prod(tensor.shape), longest) for tensor in tensors)
    return AuditStage(replace(plan, model=Probe(sizes), features=None), (sum(sizes),), 2, 0.0, 1)
