"""Seconds of one local iteration of one client."""

import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gradveil import keys
from gradveil.data.dataset import Dataset
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.messages import task_for
from gradveil.federation.plan import Plan
from gradveil.keys import Keys
from gradveil.runs.runner import Options, build_engine

REPEATS = 5


def seconds_per_step(plan: Plan, dataset: Dataset) -> float:
    """Train as many clients as the engine takes at once, shared out among the devices; the median of five.

    A device trains its clients one after the other, so one step of one client takes a device
    seconds * devices / (clients * L). Compilation is left out.
    """
    population, roots = Population.of(plan, dataset), Keys.of(plan.seed, False)
    state = server.init(plan, dataset.shape, len(dataset.classes), roots)
    engine = build_engine(plan, population, Options())
    task = task_for(plan, 0, state.params, state.clip_state, keys.named(roots.private, "round", 0))
    clients = np.arange(engine.clients_per_call) % plan.clients
    engine.train(task, clients)
    seconds = statistics.median(_once(lambda: engine.train(task, clients)) for _ in range(REPEATS))
    return seconds * len(jax.local_devices()) / (len(clients) * plan.local_steps)


def _once(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began
