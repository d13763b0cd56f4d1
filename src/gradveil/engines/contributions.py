"""What one node adds to a secure sum, and what the server makes of the whole one.

In process and over a network the same functions run on the same rows in the same shapes, so both give the same bits.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.aggregation import ring
from gradveil.aggregation.noise import Bytes, secret_bytes, seeded_bytes, share_deviation
from gradveil.aggregation.ring import RESOLUTION, Reals, Units
from gradveil.data.dataset import readable
from gradveil.errors import BadInput
from gradveil.federation import client
from gradveil.federation.messages import ClientSpec, Reports, RoundTask
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.federation.secure_sum import SecureSum
from gradveil.privacy.clip import Flat
from gradveil.privacy.sanitize import ClipMetrics
from gradveil.tree import Tree

Array = np.ndarray[Any, Any]
_NUMBERS = 2**22
"""Numbers that are made at a time: the vectors of some records."""


@dataclass(frozen=True, slots=True)
class RoundSum:
    """The sum of one round: the vectors that are added, their bound C, and the noise.

    like: shape of one record's vector, a tree. records: the most that a node holds, for all nodes the same number.
    """

    spec: ClientSpec
    sums: SecureSum
    like: Tree
    bound: float
    multiplier: float
    records: int

    @staticmethod
    def of(plan: Plan, t: int, params: Tree, shape: tuple[int, ...]) -> "RoundSum":
        """Return the sum of round t, for examples of a shape."""
        sums, clip, spec = plan.secure_sum, plan.method_at(t).clip, ClientSpec.of(plan, t)
        if sums is None or not isinstance(clip, Flat):
            raise BadInput("secure_sum: the plan has none")
        one = jax.ShapeDtypeStruct((1, *shape), jnp.float32), jax.ShapeDtypeStruct((1,), jnp.int32)
        lot = jax.eval_shape(partial(client.lot_of, spec), params, *one)
        like = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype), lot)
        records = -(-plan.clients // sums.nodes) * plan.client_size
        return RoundSum(spec, sums, like, clip.c, float(plan.sigmas()[t, 0]), records)

    @property
    def size(self) -> int:
        """The coordinates d of the sum."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.like))

    def deviation(self, nodes: int) -> float:
        """Return the standard deviation of one node's noise among so many, in units."""
        return share_deviation(self.multiplier, self.size, self.records, nodes, self.sums.colluders)

    def added(self, params: Tree, x: Array, y: Array) -> Reals:
        """Return sum_j v_j / max(||v_j||, C) over records, in units of C, float64 [d].

        A record's vector is computed from its own row alone; what is not finite counts as zero.
        """
        total, step = np.zeros(self.size), max(1, _NUMBERS // self.size)
        for i in range(0, len(y), step):
            lot = _lot(self.spec, params, readable(jnp.asarray(x[i : i + step])), jnp.asarray(y[i : i + step]))
            rows = [np.asarray(leaf).reshape(len(leaf), -1) for leaf in jax.tree.leaves(lot)]
            total += ring.bounded_sum(np.concatenate(rows, axis=1).astype(np.float64), self.bound)
        return total

    def reports(self, plan: Plan, units: Units, clients: Array, nodes: int, remarks: dict[str, Any]) -> Reports:
        """Return what the server absorbs: the sum of the clients' updates as if one had sent it."""
        factor = 1.0 if self.spec.stage is not None else -plan.learning_rate
        vector = ring.decode(units, self.bound) * (factor / plan.batch)
        leaves, structure = jax.tree.flatten(self.like)
        cuts = np.split(vector, np.cumsum([math.prod(leaf.shape) for leaf in leaves])[:-1])
        shaped = [cut.reshape(1, *leaf.shape).astype(np.float32) for cut, leaf in zip(cuts, leaves, strict=True)]
        noise = self.deviation(nodes) * math.sqrt(nodes) * self.bound / RESOLUTION
        unseen = ClipMetrics(*(np.full(1, np.nan, np.float32) for _ in ClipMetrics._fields))  # type: ignore[arg-type]
        update = jax.tree.unflatten(structure, shaped)
        return Reports(clients, update, (), unseen, remarks, noise / (plan.batch * len(clients)))


@partial(jax.jit, static_argnums=0)
def _lot(spec: ClientSpec, params: Tree, x: jax.Array, y: jax.Array) -> Tree:
    return client.lot_of(spec, params, x, y)


def noise_bytes(plan: Plan, key: tuple[int, int] | None, node: int) -> Bytes:
    """Return where a node's noise comes from: the operating system, or the round's key where the plan is seeded."""
    if plan.noise_source is NoiseSource.SECRET or key is None:
        return secret_bytes
    return seeded_bytes(*key, node)


def key_words(plan: Plan, task: RoundTask) -> tuple[int, int] | None:
    """Return the round's key as two numbers if the plan is seeded; nobody needs one otherwise."""
    if plan.noise_source is NoiseSource.SECRET:
        return None
    high, low = jax.random.key_data(task.key)
    return int(high), int(low)
