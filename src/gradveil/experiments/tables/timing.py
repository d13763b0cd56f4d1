"""Seconds of one local iteration of one client."""

import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradveil import keys
from gradveil.data.dataset import Dataset
from gradveil.experiments.runner import Options, build_engine
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.messages import task_for
from gradveil.federation.plan import Plan
from gradveil.keys import Keys

REPEATS = 5


def seconds_per_step(plan: Plan, dataset: Dataset) -> float:
    """Train as many clients at once as there are devices, one a device; the median of five after compilation."""
    few = replace(plan, clients=min(plan.clients, 10), cohort=min(plan.cohort, 10), rounds=1)
    population, roots = Population.of(few, dataset), Keys.of(few.seed, False)
    state = server.init(few, dataset.shape, len(dataset.classes), roots)
    engine = build_engine(few, population, Options())
    task = task_for(few, 0, state.params, state.memory, keys.named(roots.private, "round", 0))
    cohort = np.arange(min(few.cohort, engine.at_once))
    engine.train(task, cohort)
    return statistics.median(_once(lambda: engine.train(task, cohort)) for _ in range(REPEATS)) / few.local_steps


def _once(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
