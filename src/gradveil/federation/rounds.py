"""Algorithm 1, the outer loop, as a generator: the caller's `for` evaluates, records and stops."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gradveil import keys
from gradveil.federation import server
from gradveil.federation.engine import Engine
from gradveil.federation.messages import task_for
from gradveil.federation.plan import Plan
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.privacy.sanitize import Measures


class Round(NamedTuple):
    """A finished round: its number, the state after it, who took part and what was measured where the method acts."""

    t: int
    state: State
    cohort: np.ndarray[Any, Any]
    measures: Measures


def rounds(plan: Plan, engine: Engine, state: State, roots: Keys) -> Iterator[Round]:
    """Train from a state to the plan's last round, one Round at a time.

    Every draw of round t depends on the key and t alone, so a run that stops and goes on is the run that never stopped.
    """
    for t in range(state.round, plan.rounds):
        cohort = cohort_of(plan, t, roots)
        task = task_for(plan, t, state.params, state.memory, keys.named(roots.private, "round", t))
        state, measures = server.absorb(plan, task, state, engine.train(task, cohort))
        yield Round(t, state, cohort, measures)


def cohort_of(plan: Plan, t: int, roots: Keys) -> np.ndarray[Any, Any]:
    """Draw the clients of round t; known before the round, so that its cost is known before it is paid."""
    return plan.cohort_sampling.draw(keys.named(roots.private, "cohort", t), plan.clients, plan.cohort)
