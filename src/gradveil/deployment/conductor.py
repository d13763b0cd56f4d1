"""The server of a federation: a run like any other, whose engine is Flower and whose data is on the nodes."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from logging import FileHandler, getLogger
from pathlib import Path
from typing import Any

from gradveil import codec
from gradveil.data.dataset import Dataset
from gradveil.data.natural_clients import SIZES
from gradveil.data.sampling import CohortSampling
from gradveil.data.sources import load
from gradveil.deployment.journal import JOURNAL, Journal
from gradveil.deployment.node_clients import NO_SCHEMA
from gradveil.engines.flower.flower_engine import Flower, Roster
from gradveil.engines.flower.posting import Posting
from gradveil.engines.flower.processes import owner_only
from gradveil.engines.flower.sum_engine import SummingFlower
from gradveil.errors import BadInput, RunFailed
from gradveil.federation.canary_rows import refuse_unfit
from gradveil.federation.engine import Engine, Population, TooFew
from gradveil.federation.plan import Plan
from gradveil.federation.plan_data import data_for
from gradveil.federation.server import State
from gradveil.privacy.clip import Unclipped
from gradveil.privacy.prune import Dssgd
from gradveil.runs import runner, store
from gradveil.runs.budget import Budget
from gradveil.runs.runner import Run

SETTINGS, STATUS = "federation.json", "federation-status.json"
LOG = "federation.log"
RUNNING, DONE, FAILED = "running", "done", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """How a plan is executed over nodes.

    attempts: at a round before the run fails. max_update_norm: updates above it are rejected, in addition to the limit
    that follows from the plan. holders: the node of each client, by number, where the plan names the clients. canaries:
    how many records of nobody nodes are asked to train on, for an audit of the run.
    """

    nodes: tuple[str, ...]
    deadline: float = 120.0
    patience: float = 300.0
    attempts: int = 3
    max_update_norm: float | None = None
    data_dir: str | None = None
    holders: tuple[int, ...] | None = None
    canaries: int = 0

    def __post_init__(self) -> None:
        for name in ("deadline", "patience", "attempts", "max_update_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise BadInput(f"{name} = {value}: must be a finite number above 0")
        if not self.nodes or len(set(self.nodes)) < len(self.nodes):
            raise BadInput("nodes: name at least one, and each only once")


def lay_out(plan: Plan, dataset: Dataset, folder: Path, federation: Federation) -> None:
    """Make the run folder, with the plan and the federation's settings."""
    if plan.clients < len(federation.nodes):
        raise BadInput(f"clients = {plan.clients}: must be at least the number of nodes, {len(federation.nodes)}")
    if plan.client_sizes and (federation.holders is None or len(federation.holders) != plan.clients):
        raise BadInput(
            "client_sizes: nodes name their clients; give what `gradveil federate clients` wrote by --clients"
        )
    if dataset.fitted is not None:
        raise BadInput(NO_SCHEMA)
    if plan.validation is not None or plan.validation_file is not None:
        raise BadInput("validation: nodes train on all rows that they hold; leave it out")
    if plan.train_all:
        raise BadInput("train_all: nodes hold the training split only; leave it out")
    if plan.secure_sum is not None and plan.secure_sum.nodes != len(federation.nodes):
        raise BadInput(f"secure_sum: is of {plan.secure_sum.nodes} nodes, and {len(federation.nodes)} are named")
    if plan.secure_sum is not None and federation.max_update_norm is not None:
        raise BadInput("max_update_norm: no single update can be seen in a secure sum; leave it out")
    _refuse_own_parts(codec.encode(plan))
    if federation.canaries:
        refuse_unfit(plan, federation.canaries)
    budget_of(plan, dataset)
    with owner_only():
        runner.lay_out(plan, dataset, folder)
        store.write_json(folder / SETTINGS, codec.encode(federation))


def _refuse_own_parts(table: dict[str, Any]) -> None:
    """Refuse parts that are not gradveil's: nodes import no code that a plan names."""
    for name, part in (table | table["method"]).items():
        if isinstance(part, dict) and codec.SOURCE in part:
            raise BadInput(f"{name} = {part['kind']!r}: nodes run gradveil's own parts only, and no code of a plan")


def unbounded(plan: Plan, federation: Federation) -> bool:
    """Whether one node can move the model without limit: nothing is clipped, and max_update_norm is not set."""
    method = plan.method
    bounded = isinstance(method.prune, Dssgd) or not isinstance(method.clip, Unclipped)
    return not bounded and federation.max_update_norm is None


def settings(folder: Path) -> Federation:
    """Return the settings of the federation in a run folder."""
    federation: Federation = codec.decode(Federation, store.read_json(folder / SETTINGS))
    return federation


def copies(plan: Plan, dataset: Dataset) -> int:
    """Return how often the most copied record occurs; nodes with their own data have every record once."""
    return 1 if dataset.own or plan.client_names else Population.of(plan, dataset).copies


def budget_of(plan: Plan, dataset: Dataset) -> Budget:
    """Return the budget of a plan if only the minimum of clients reply in every round, when the noise is least."""
    if plan.client_names:
        dataset = replace(dataset, caveats=(*dataset.caveats, SIZES))
    poisson = plan.cohort_sampling is CohortSampling.POISSON  # averaged over its expected size, whoever replies
    return Budget(plan, dataset, copies(plan, dataset), None if poisson else plan.minimum_replies(plan.cohort))


def data_of(folder: Path) -> Dataset:
    """Return the server's own data, as the model of a folder's plan reads them."""
    plan, where = store.read_plan(folder), settings(folder).data_dir
    return data_for(plan, load(plan.dataset, data_dir=None if where is None else Path(where), **plan.loading))


def open_run(grid: Any, folder: Path) -> Run:
    """Return the run of a folder, from its checkpoint if it has one, with Flower as its engine."""
    plan, federation, dataset = store.read_plan(folder), settings(folder), data_of(folder)
    budget, journal = budget_of(plan, dataset), Journal(folder / JOURNAL)
    roster = Roster(federation.nodes, federation.deadline, federation.patience, holders=federation.holders)
    largest = math.inf if federation.max_update_norm is None else federation.max_update_norm
    engine: Engine = Flower(plan, dataset, grid, roster, journal.note, largest, federation.canaries)
    if plan.secure_sum is not None:
        engine = SummingFlower(plan, plan.secure_sum, dataset, Posting(grid), roster, journal.note)
    run = runner.begin(plan, dataset, folder, budget, None, engine)
    journal.check(run.lines)
    run.recall = partial(journal.recall, budget)
    run.may_retry = Retry(run, federation.attempts)
    return run


@dataclass(slots=True)
class Retry:
    """Decides whether a round is repeated: up to `limit` attempts, and within the budget."""

    run: Run
    limit: int
    failed: tuple[int, int] = (-1, 0)

    def __call__(self, state: State) -> bool:
        """Count a failed attempt, whose privacy cost is spent, and return whether another may follow."""
        t, times = self.failed
        self.failed = (state.round, times + 1 if t == state.round else 1)
        self.run.budget.repeat(state.round)
        return self.failed[1] < self.limit and self._affords(state)

    def _affords(self, state: State) -> bool:
        if self.run.plan.max_epsilon is None:
            return True
        return self.run.budget.affords(state.round + 1, int(state.participations.max()) + 1)


def conduct(grid: Any, folder: Path, after_round: Callable[[], None] = lambda: None) -> None:
    """Train the run of a folder to its end, and write its status there.

    If another process executes the run already, nothing is done or written.
    """
    if store.is_locked(folder):
        return
    # The only record of why a connection broke.
    getLogger("flwr").addHandler(FileHandler(folder / LOG, delay=True))
    write_status(folder, RUNNING)
    try:
        run = open_run(grid, folder)
        for _ in runner.proceed(run):
            write_status(folder, RUNNING)
            after_round()
        runner.conclude(run)
    except store.Busy:
        return
    except (RunFailed, BadInput, TooFew) as error:
        write_status(folder, FAILED, str(error))
    except Exception as error:
        getLogger("flwr").exception("the run ended")
        write_status(folder, FAILED, f"the server failed ({type(error).__name__}); see {folder / LOG}")
        raise
    else:
        write_status(folder, DONE)


def write_status(folder: Path, state: str, sentence: str = "") -> None:
    """Write the status of a run, for the process that started it."""
    store.write_json(folder / STATUS, {"state": state, "sentence": sentence, "at": time.time()})
