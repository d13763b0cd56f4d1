"""What crosses between server and clients in a round, and the static description of a client's work."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from gradveil.data.sampling import Sampling
from gradveil.federation.plan import Plan
from gradveil.models.networks import Model
from gradveil.privacy.method import Kind, kernel
from gradveil.privacy.sanitize import Measures
from gradveil.tree import Array, Tree


@dataclass(frozen=True, slots=True)
class Work:
    """What of a plan decides the compiled program of a client. Hashable; numbers come in the Task."""

    model: Model
    kind: Kind
    sampling: Sampling
    batch: int
    steps: int
    size: int
    cohort: int

    @staticmethod
    def of(plan: Plan) -> "Work":
        """Take from a plan what is compiled."""
        kind, _ = kernel(plan.method)
        return Work(plan.model, kind, plan.sampling, plan.batch, plan.local_steps, plan.client_size, plan.cohort)


class Task(NamedTuple):
    """One round's order to every client of the cohort: a pytree of arrays.

    t: the round. numbers: the method's numbers for `Work.kind`; sigmas: float32 [L]; key: the round's private key.
    """

    t: Array
    params: Tree
    memory: Tree
    numbers: tuple[Any, ...]
    learning_rate: Array
    sigmas: Array
    key: Array


class Report(NamedTuple):
    """One client's answer: its update W_L - W_0 as released, the clip's note and the measures of its crossings."""

    update: Tree
    note: Tree
    measures: Measures


class Reports(NamedTuple):
    """The answers of a cohort, stacked on a leading axis in ascending order of client number.

    Over a network some clients may be missing. remarks: what the engine tells of the round, for its line of metrics.
    """

    clients: np.ndarray[Any, Any]
    update: Tree
    note: Tree
    measures: Measures
    remarks: dict[str, Any] = {}  # noqa: RUF012 - a NamedTuple copies nothing, and nobody writes into it


def task_for(plan: Plan, t: int, params: Tree, memory: Tree, key: Array) -> Task:
    """Write the order of round t."""
    _, numbers = kernel(plan.method)
    return Task(
        t=jnp.int32(t),
        params=params,
        memory=memory,
        numbers=tuple(jnp.float32(n) for n in numbers),
        learning_rate=jnp.float32(plan.learning_rate),
        sigmas=jnp.asarray(plan.sigmas()[t], jnp.float32),
        key=key,
    )
