"""Algorithm 1, the outer loop, as a generator: the caller's `for` evaluates, records and stops."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from gradveil import keys
from gradveil.federation import server
from gradveil.federation.engine import Engine, TooFew
from gradveil.federation.messages import RoundTask, task_for
from gradveil.federation.plan import Plan
from gradveil.federation.server import State
from gradveil.keys import Key, Keys
from gradveil.privacy.sanitize import ClipMetrics


class Round(NamedTuple):
    """A finished round: its number, the state after it, the cohort, and metrics of the surface where the method acts.

    attempts: how many it took. remarks: the engine's own entries for the round's line of metrics.
    """

    t: int
    state: State
    cohort: np.ndarray[Any, Any]
    metrics: ClipMetrics
    attempts: int
    remarks: dict[str, Any]


def rounds(
    plan: Plan,
    engine: Engine,
    state: State,
    roots: Keys,
    attempts: int = 0,
    may_retry: Callable[[State], bool] = lambda state: True,
) -> Iterator[Round]:
    """Train from a state to the plan's last round, one Round at a time.

    Every draw of round t depends on the key, t and the attempt alone, so a resumed run is bit-identical to one that
    never stopped. attempts: failed attempts at the first round so far. may_retry: called after every failed attempt,
    with that attempt counted.
    """
    while state.round < plan.rounds:
        done = _round(plan, engine, state, roots, attempts, may_retry)
        yield done
        state, attempts = done.state, 0


def _round(
    plan: Plan, engine: Engine, state: State, roots: Keys, attempts: int, may_retry: Callable[[State], bool]
) -> Round:
    """Repeat a round until enough clients reply; each attempt counts as a participation of its whole cohort."""
    t, attempt = state.round, attempts
    while True:
        cohort, task = cohort_of(plan, t, roots, attempt), round_task(plan, t, state, roots, attempt)
        try:
            reports = engine.train(task, cohort)
            break
        except TooFew:
            state, attempt = server.counted(state, cohort), attempt + 1
            if not may_retry(state):
                raise
    after, metrics = server.absorb(plan, task, state, reports)
    missing = np.setdiff1d(cohort, reports.clients)
    return Round(t, server.counted(after, missing), cohort, metrics, attempt + 1, reports.remarks)


def round_task(plan: Plan, t: int, state: State, roots: Keys, attempt: int = 0) -> RoundTask:
    """Return the task of an attempt at round t."""
    return task_for(plan, t, state.params, state.clip_state, _named(roots.private, "round", t, attempt))


def cohort_of(plan: Plan, t: int, roots: Keys, attempt: int = 0) -> np.ndarray[Any, Any]:
    """Draw the clients of round t; known before the round, so that its cost is too."""
    return plan.cohort_sampling.draw(_named(roots.private, "cohort", t, attempt), plan.clients, plan.cohort)


def _named(key: Key, purpose: str, t: int, attempt: int) -> Key:
    """Return the key of a round; another attempt at it has another key."""
    first = keys.named(key, purpose, t)
    return keys.named(first, "attempt", attempt) if attempt else first
