"""The fast engine: clients mapped by `lax.map` and spread over all local devices, L steps as one scan.

`lax.map` runs the very same program for each client, so neither the order of the cohort nor the number of
devices nor the chunk changes a bit of any update (`vmap` would).
"""

from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from gradveil.data.unequal import Own
from gradveil.engines.cache import keep_compiled_programs
from gradveil.engines.dealing import by_size, in_order
from gradveil.engines.pool import Pool
from gradveil.engines.serial import empty
from gradveil.errors import BadInput
from gradveil.federation import client
from gradveil.federation.client import ClientData
from gradveil.federation.engine import Population
from gradveil.federation.messages import ClientSpec, Report, Reports, RoundTask
from gradveil.federation.plan import Plan
from gradveil.models.gradients import trained
from gradveil.models.regression import SoftmaxRegression

Array = np.ndarray[Any, Any]
_AXIS = "devices"
_ClientFields = tuple[jax.Array, jax.Array, Own | None]
"""The shards, numbers and own sizes of clients."""


@dataclass(frozen=True, slots=True)
class Execution:
    """How a plan is executed; nothing here changes a result.

    devices: how many local devices to use (None: all). chunk: the most clients that a device trains in one call; larger
    chunks save little, smaller ones react to an interrupt sooner.
    """

    devices: int | None = None
    chunk: int = 16

    def __post_init__(self) -> None:
        if self.devices is not None and self.devices < 1:
            raise BadInput(f"devices = {self.devices}: must be at least 1")
        if self.chunk < 1:
            raise BadInput(f"chunk = {self.chunk}: must be at least 1")


_EVERYTHING = Execution()


class Vectorized:
    """Trains a cohort on all local devices at once."""

    def __init__(self, plan: Plan, population: Population, execution: Execution = _EVERYTHING) -> None:
        keep_compiled_programs()
        devices = tuple(jax.local_devices()[: execution.devices])
        mesh = Mesh(np.array(devices), (_AXIS,))
        everywhere = NamedSharding(mesh, PartitionSpec())
        self._plan, self._population, self._mesh = plan, population, mesh
        self._pool, self._y = Pool(population.x, everywhere), jax.device_put(population.y, everywhere)
        self._chunk = _chunk(plan.cohort, len(devices), execution.chunk) * len(devices)

    @property
    def clients_per_call(self) -> int:
        """One chunk per device."""
        return self._chunk

    def train(self, task: RoundTask, cohort: Array) -> Reports:
        """Train the cohort chunk by chunk; the last chunk is filled up with copies of a client, which are dropped."""
        clients = np.sort(cohort)
        spec = ClientSpec.of(self._plan, int(task.t))
        if not len(clients):
            return Reports(clients, *empty(spec, task, self._population))
        work, own = self._work(spec, task), self._population.of_clients(clients)
        chunk, sizes = self._chunk, None if own is None else own.size
        places = in_order(len(clients), chunk) if sizes is None else by_size(sizes, chunk, self._mesh.size)
        kept = np.unique(places, return_index=True)[1]
        parts = [self._train_chunk(*work, clients[row]) for row in places]
        stacked = jax.tree.map(lambda *leaves: np.concatenate(leaves)[kept], *parts)
        return Reports(clients, *stacked)

    def _work(self, spec: ClientSpec, task: RoundTask) -> tuple[ClientSpec, RoundTask, jax.Array]:
        """Return what is compiled and done, and on what: after a preparation the rest of the model, on its features."""
        model = spec.model
        if spec.stage is not None or not isinstance(model, SoftmaxRegression) or not model.frozen_leaves:
            return spec, task, self._pool.examples()
        features = self._pool.features(model, task.params)
        return replace(spec, model=model.rest), task._replace(params=trained(model, task.params)), features

    def _train_chunk(self, spec: ClientSpec, task: RoundTask, x: jax.Array, clients: Array) -> Report:
        chunk_fields = self._population.shards[clients], clients, self._population.of_clients(clients)
        report: Report = jax.tree.map(np.asarray, _program(spec, self._mesh)(task, x, self._y, chunk_fields))
        return report


def _chunk(cohort: int, devices: int, wish: int) -> int:
    """Return the clients per device and call: as many as wished, or fewer if that leaves less padding.

    At least 2: XLA unrolls a loop of 1, and rounds differently then.
    """
    each = -(-cohort // devices)
    return min(range(2, max(wish, 2) + 1), key=lambda chunk: (-(-each // chunk) * chunk, -chunk))


@lru_cache(maxsize=32)
def _program(spec: ClientSpec, mesh: Mesh) -> Any:
    """Compile for a client's spec: task, pool, (shards [chunk, size], numbers [chunk], own) -> stacked Report."""
    split, replicated = PartitionSpec(_AXIS), PartitionSpec()

    def cohort(task: RoundTask, x: jax.Array, y: jax.Array, clients: _ClientFields) -> Report:
        def train_client(client_fields: _ClientFields) -> Report:
            return client.train(spec, task, ClientData(x, y, *client_fields))

        reports: Report = jax.lax.map(train_client, clients)
        return reports

    spread = partial(jax.shard_map, mesh=mesh, in_specs=(replicated, replicated, replicated, split), out_specs=split)
    return jax.jit(spread(cohort, check_vma=False))
