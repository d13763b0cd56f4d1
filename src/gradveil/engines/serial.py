"""The reference engine: a Python loop over clients and steps, slow, to compare the others with."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.federation import client
from gradveil.federation.client import ClientData
from gradveil.federation.engine import Population
from gradveil.federation.messages import ClientSpec, Report, Reports, RoundTask
from gradveil.federation.plan import Plan

_step = jax.jit(client.step, static_argnums=0)
_prepare = jax.jit(client.prepare, static_argnums=0)


class Serial:
    """Trains one client after another, one local step after another."""

    def __init__(self, plan: Plan, population: Population) -> None:
        self._plan, self._population = plan, population

    @property
    def clients_per_call(self) -> int:
        """One client after another."""
        return 1

    def train(self, task: RoundTask, cohort: np.ndarray[Any, Any]) -> Reports:
        """Train the cohort in ascending order of client number."""
        clients = np.sort(cohort)
        reports = [self._train_one(task, int(number)) for number in clients]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *reports) if reports else self._empty(task)
        return Reports(clients, *stacked)

    def _train_one(self, task: RoundTask, number: int) -> Report:
        pool, shard = self._population, self._population.shards[number]
        data = ClientData(*jax.tree.map(jnp.asarray, (pool.x, pool.y, shard, number, pool.of_clients(number))))
        spec = ClientSpec.of(self._plan, int(task.t))
        if spec.stage is not None:
            prepared: Report = _prepare(spec, task, data)
            return prepared
        progress = client.begin(spec, task)
        for index in range(spec.steps):
            progress = _step(spec, task, data, progress, jnp.asarray(index))
        return client.finish(spec, task, data, progress)

    def _empty(self, task: RoundTask) -> Report:
        return empty(ClientSpec.of(self._plan, int(task.t)), task, self._population)


def empty(spec: ClientSpec, task: RoundTask, population: Population) -> Report:
    """Return the stacked reports of a cohort without clients, as Poisson sampling may draw one."""
    fields = population.x, population.y, population.shards[0], np.int32(0)
    data = ClientData(*fields, population.of_clients(0))  # type: ignore[arg-type]
    shapes = jax.eval_shape(partial(client.train, spec), task, data)
    no_reports: Report = jax.tree.map(lambda s: np.zeros((0, *s.shape), s.dtype), shapes)
    return no_reports
