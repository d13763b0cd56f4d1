"""The engine of secure sums on one machine: every node's whole numbers in turn, without masks, which would cancel."""

from typing import Any

import numpy as np

from gradveil.aggregation import ring
from gradveil.aggregation.noise import discrete_gaussian
from gradveil.aggregation.ring import Units
from gradveil.engines.cache import keep_compiled_programs
from gradveil.engines.contributions import RoundSum, key_words, noise_bytes
from gradveil.federation.engine import Population
from gradveil.federation.messages import Reports, RoundTask
from gradveil.federation.orders import clients_of
from gradveil.federation.plan import Plan

Array = np.ndarray[Any, Any]


class LocalSums:
    """Adds up what the nodes of a plan would, each with its own clients and its own noise."""

    def __init__(self, plan: Plan, population: Population) -> None:
        keep_compiled_programs()
        self._plan, self._population = plan, population

    @property
    def clients_per_call(self) -> int:
        """All clients of a node are one sum."""
        return self._plan.clients

    def train(self, task: RoundTask, cohort: Array) -> Reports:
        """Return the noised sum over all nodes, as the server of a network decodes it."""
        population = self._population
        one = RoundSum.of(self._plan, int(task.t), task.params, population.x.shape[1:])
        nodes = range(one.sums.nodes)
        total = ring.total(self._part(one, task, node) for node in nodes)
        return one.reports(self._plan, total, np.sort(cohort), len(nodes), {})

    def _part(self, one: RoundSum, task: RoundTask, node: int) -> Units:
        plan, population, nodes = self._plan, self._population, one.sums.nodes
        rows = population.rows(clients_of(node, nodes, np.arange(plan.clients)))
        units = ring.encode(one.added(task.params, population.x[rows], population.y[rows]))
        take = noise_bytes(plan, key_words(plan, task), node)
        noisy: Units = units + discrete_gaussian(one.deviation(nodes), one.size, take).astype(np.uint64)
        return noisy
