"""What server and clients exchange in a round, and the static description of a client's work."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from gradveil.data.sampling import Sampling
from gradveil.data.unequal import rooms, rungs
from gradveil.federation.plan import Plan
from gradveil.models.networks import Model
from gradveil.models.preparation import Preparation
from gradveil.privacy.method import StaticMethod, TracedMethod, combine, split_static
from gradveil.privacy.sanitize import ClipMetrics
from gradveil.tree import Array, Tree


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """The part of a plan that decides a client's compiled program. Hashable; numbers come in the RoundTask.

    honest: H, among whom shared noise is split. stage: the preparation that the round is, None for gradients. rungs,
    rooms: the sizes of batches and clients to compile for where clients hold different numbers of examples.
    """

    model: Model
    static: StaticMethod
    sampling: Sampling
    batch: int
    steps: int
    size: int
    cohort: int
    honest: int
    stage: Preparation | None = None
    rungs: tuple[int, ...] = ()
    rooms: tuple[int, ...] = ()

    @property
    def capacities(self) -> tuple[int, ...]:
        """The batch sizes to compile for, ascending."""
        return self.rungs or self.sampling.capacities(self.size, self.batch)

    @staticmethod
    def of(plan: Plan, t: int | None = None) -> "ClientSpec":
        """Take from a plan what is compiled for round t; by default for a round of gradients."""
        at = plan.rounds if t is None else t
        static, _ = split_static(plan.method_at(at))
        return ClientSpec(
            plan.model,
            static,
            plan.sampling,
            plan.batch,
            plan.local_steps,
            plan.client_size,
            plan.cohort,
            plan.honest,
            plan.stage(at),
            rungs(plan.sampling, plan.sizes, plan.batch, plan.client_rates) if plan.client_sizes else (),
            rooms(plan.sizes) if plan.client_sizes else (),
        )

    def method(self, task: "RoundTask") -> TracedMethod:
        """Return the method with the numbers of a round's task."""
        return combine(self.static, task.dynamic)


class RoundTask(NamedTuple):
    """One round's task for every client of the cohort: a pytree of arrays.

    t: the round. clip_state: the state of an adaptive clip. dynamic: the method's numbers for `ClientSpec.static`;
    sigmas: float32 [L]; key: the round's private key.
    """

    t: Array
    params: Tree
    clip_state: Tree
    dynamic: tuple[Any, ...]
    learning_rate: Array
    sigmas: Array
    key: Array


class Report(NamedTuple):
    """One client's reply: its update W_L - W_0 as released, the clip's statistics and the metrics of its crossings.

    In a preparation round the update is the noised mean of the client's vectors.
    """

    update: Tree
    statistics: Tree
    metrics: ClipMetrics


class Reports(NamedTuple):
    """The replies of a cohort, stacked on a leading axis in ascending order of client number.

    Over a network some clients may be missing. remarks: the engine's own entries for the round's line of metrics.
    noise_std: of the noise on the mean, where only the sum of all updates is known; that sum is then the one update.
    """

    clients: np.ndarray[Any, Any]
    update: Tree
    statistics: Tree
    metrics: ClipMetrics
    remarks: dict[str, Any] = {}  # noqa: RUF012 - a NamedTuple copies nothing, and nobody writes into it
    noise_std: float | None = None


def task_for(plan: Plan, t: int, params: Tree, clip_state: Tree, key: Array) -> RoundTask:
    """Return the task of round t."""
    _, dynamic = split_static(plan.method_at(t))
    return RoundTask(
        t=jnp.int32(t),
        params=params,
        clip_state=clip_state,
        dynamic=tuple(jnp.float32(n) for n in dynamic),
        learning_rate=jnp.float32(plan.learning_rate),
        sigmas=jnp.asarray(plan.sigmas()[t], jnp.float32),
        key=key,
    )
