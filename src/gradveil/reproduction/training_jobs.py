"""Training behind the cells: what is kept of a run, what it guarantees, and how long one of its steps takes."""

import math
import statistics
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gradveil import codec, keys
from gradveil.accounting.accountant import account
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.data.dataset import Dataset
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.evaluate import score
from gradveil.federation.messages import task_for
from gradveil.federation.plan import Plan
from gradveil.federation.server import Diverged
from gradveil.keys import Keys
from gradveil.reproduction.job_cache import GuaranteesRecord, TimingRecord, TrainingRecord
from gradveil.runs import runner
from gradveil.runs.budget import Budget, expected_participations
from gradveil.runs.counted import planned
from gradveil.runs.runner import Options, Run, build_engine
from gradveil.surface import Surface

TIMINGS = 5


def train(run: Run, progress: Callable[[str], None]) -> TrainingRecord:
    """Train a prepared run to its end, or until it diverges."""
    plan = run.plan
    try:
        for line in runner.proceed(run):
            progress(f"{plan.method.name} {plan.dataset}: round {line.round + 1} of {plan.rounds}")
    except Diverged:
        return _diverged(run)
    return _finished(run)


def _finished(run: Run) -> TrainingRecord:
    accuracy, n = run.lines[-1].accuracy or 0.0, len(run.dataset.test)
    return TrainingRecord(
        accuracy=accuracy,
        held_out=_held_out(run),
        accuracy_error=accuracy_error(accuracy, n),
        majority=run.dataset.majority_baseline(),
        rounds=run.state.round,
        seconds=run.seconds,
        learning_rate=run.plan.learning_rate,
        curve=tuple(line.accuracy or 0.0 for line in run.lines),
        sensitivity=tuple(line.sensitivity for line in run.lines),
        plan_sha256=codec.digest(run.plan),
        diverged=False,
        guarantees=(_guarantee(run),),
    )


def _diverged(run: Run) -> TrainingRecord:
    return TrainingRecord(
        accuracy=None,
        held_out=None,
        rounds=run.state.round,
        learning_rate=run.plan.learning_rate,
        curve=tuple(line.accuracy or 0.0 for line in run.lines),
        diverged=True,
    )


def accuracy_error(accuracy: float, n: float) -> float:
    """Return the standard error of an accuracy over n independent examples; never below that of one example in n."""
    return math.sqrt(max(accuracy * (1 - accuracy), 1 / n) / n)


def _held_out(run: Run) -> float | None:
    """Score the final model on the split held out for choices, where there is one."""
    split = run.dataset.validation
    return None if split is None else score(run.plan.model, run.state.params, split).accuracy


def _guarantee(run: Run) -> dict[str, Any]:
    """Account a run that was trained."""
    ledger = run.budget.ledger(*planned(run.plan, run.budget, run.state, run.roots))
    return account(ledger, run.plan.delta, ADD_REMOVE, _adversary(run.plan)).plain()


def plan_guarantee(plan: Plan, dataset: Dataset) -> GuaranteesRecord:
    """Account a whole plan without training it, for a client that is drawn as often as the busiest is."""
    budget = Budget(plan, dataset, Population.of(plan, dataset).copies)
    ledger = budget.ledger(plan.rounds, expected_participations(plan))
    return GuaranteesRecord((account(ledger, plan.delta, ADD_REMOVE, _adversary(plan)).plain(),))


def _adversary(plan: Plan) -> str:
    """Name the strongest adversary a method can protect against: where only the server adds noise, not the server."""
    return "client-central" if plan.method.surface is Surface.SERVER else "server"


def step_seconds(plan: Plan, dataset: Dataset) -> TimingRecord:
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
    seconds = statistics.median(_seconds_of(lambda: engine.train(task, clients)) for _ in range(TIMINGS))
    return TimingRecord(seconds * len(jax.local_devices()) / (len(clients) * plan.local_steps))


def _seconds_of(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began
