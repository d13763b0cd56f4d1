"""What a plan would take, found by training a few clients of it for real and throwing them away."""

import math
import resource
import sys
import time
from dataclasses import dataclass

import numpy as np

from gradveil import keys, tree
from gradveil.data.dataset import Dataset
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.evaluate import score
from gradveil.federation.messages import task_for
from gradveil.federation.plan import Plan
from gradveil.federation.plan_data import data_for
from gradveil.keys import Keys
from gradveil.runs.runner import Options, build_engine


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected seconds for the whole plan, peak memory in bytes, parameters of the model, copies of a record."""

    seconds: float
    memory_bytes: int
    parameters: int
    copies: int


@dataclass(frozen=True, slots=True)
class RoundCost:
    """Seconds that training `clients` clients and one evaluation took; parameters of the model, copies of a record."""

    clients: int
    training: float
    testing: float
    parameters: int
    copies: int

    def seconds(self, plan: Plan, steps: int) -> float:
        """Scale up to all rounds of a plan; it was measured with `steps` local steps."""
        calls = math.ceil(plan.cohort / self.clients)
        return (self.training * calls * plan.local_steps / steps + self.testing) * plan.rounds


def estimate(plan: Plan, dataset: Dataset, options: Options) -> Estimate:
    """Time one small cohort and one evaluation after compilation, and scale up to T rounds of K clients."""
    cost = measured(plan, dataset, options)
    gathered = 3 * 4 * cost.parameters * plan.cohort
    return Estimate(cost.seconds(plan, plan.local_steps), _peak_memory() + gathered, cost.parameters, cost.copies)


def measured(plan: Plan, dataset: Dataset, options: Options) -> RoundCost:
    """Train a few clients for real after compilation, and evaluate."""
    dataset = data_for(plan, dataset)
    population, roots = Population.of(plan, dataset), Keys.of(plan.seed, False)
    state = server.init(plan, dataset.shape, len(dataset.classes), roots)
    engine = build_engine(plan, population, options)
    few = np.arange(min(plan.cohort, engine.clients_per_call))
    task = task_for(plan, len(plan.preparation), state.params, state.clip_state, keys.named(roots.private, "round", 0))
    engine.train(task, few)
    score(plan.model, state.params, dataset.test)  # both are compiled by now, and compiled once whatever the rounds
    began = time.perf_counter()
    engine.train(task, few)
    trained = time.perf_counter()
    score(plan.model, state.params, dataset.test)
    tested = time.perf_counter()
    return RoundCost(len(few), trained - began, tested - trained, tree.size(state.params), population.copies)


def _peak_memory() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
