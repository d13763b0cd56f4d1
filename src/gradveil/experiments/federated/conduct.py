"""The server of a federation: a run like any other, whose engine is Flower and whose examples are elsewhere."""

import time
from dataclasses import dataclass
from functools import partial
from logging import FileHandler, getLogger
from pathlib import Path
from typing import Any

from gradveil import codec, store
from gradveil.data.dataset import Dataset
from gradveil.data.sampling import CohortSampling
from gradveil.data.sources import load
from gradveil.engines.flower.apps import server_app
from gradveil.engines.flower.engine import Flower, Roster
from gradveil.errors import AnswerIsNo, BadInput
from gradveil.experiments import runner
from gradveil.experiments.budget import Budget
from gradveil.experiments.federated.journal import Journal
from gradveil.experiments.runner import Run
from gradveil.federation.engine import Population, TooFew
from gradveil.federation.plan import Plan
from gradveil.federation.server import State

SETTINGS, STATUS, JOURNAL = "federation.json", "federation-status.json", "attempts.jsonl"
LOG = "federation.log"
RUNNING, DONE, FAILED = "running", "done", "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Federation:
    """How a plan is carried out over nodes. attempts: how often a round is tried before the run gives up."""

    nodes: tuple[str, ...]
    deadline: float = 120.0
    patience: float = 300.0
    attempts: int = 3
    data_dir: str | None = None

    def __post_init__(self) -> None:
        for name in ("deadline", "patience", "attempts"):
            if getattr(self, name) <= 0:
                raise BadInput(f"{name} = {getattr(self, name)}: must be above 0")
        if not self.nodes or len(set(self.nodes)) < len(self.nodes):
            raise BadInput("nodes: name at least one, and each once")


def lay_out(plan: Plan, dataset: Dataset, folder: Path, federation: Federation) -> None:
    """Make the run folder, with what the server needs to know beside the plan."""
    if plan.clients < len(federation.nodes):
        raise BadInput(f"clients = {plan.clients}: must be at least the number of nodes, {len(federation.nodes)}")
    if plan.train_all:
        raise BadInput("train_all: nodes hold the training split alone; leave it out")
    budget_of(plan, dataset)
    runner.lay_out(plan, dataset, folder)
    store.write_json(folder / SETTINGS, codec.encode(federation))


def settings(folder: Path) -> Federation:
    """Read how the run of a folder is carried out."""
    federation: Federation = codec.decode(Federation, store.read_json(folder / SETTINGS))
    return federation


def copies(plan: Plan, dataset: Dataset) -> int:
    """Count the copies of the most copied record: nodes with their own data refuse to have any."""
    return 1 if dataset.own else Population.of(plan, dataset).copies


def budget_of(plan: Plan, dataset: Dataset) -> Budget:
    """Account a plan as if only the fewest clients that it allows answered every round: less noise adds up then."""
    poisson = plan.cohort_sampling is CohortSampling.POISSON  # averaged over its expected size, whoever answers
    return Budget(plan, dataset, copies(plan, dataset), None if poisson else plan.fewest(plan.cohort))


def taken_up(grid: Any, folder: Path) -> Run:
    """Give the run of a folder, from its checkpoint if there is one, with Flower as its engine."""
    plan = store.read_plan(folder)
    federation = settings(folder)
    where = None if federation.data_dir is None else Path(federation.data_dir)
    dataset = load(plan.dataset, data_dir=where, target=plan.target, train_all=plan.train_all)
    budget, journal = budget_of(plan, dataset), Journal(folder / JOURNAL)
    roster = Roster(federation.nodes, federation.deadline, federation.patience)
    engine = Flower(plan, dataset, grid, roster, journal.note)
    run = runner.begin(plan, dataset, folder, budget, None, engine)
    run.recall = partial(journal.recall, budget)
    run.may_retry = Retry(run, federation.attempts)
    return run


@dataclass(slots=True)
class Retry:
    """Says whether a round is tried again: not too often, and not beyond the budget."""

    run: Run
    most: int
    failed: tuple[int, int] = (-1, 0)

    def __call__(self, state: State) -> bool:
        """Count a failed attempt; what was sent in it is spent."""
        t, times = self.failed
        self.failed = (state.round, times + 1 if t == state.round else 1)
        self.run.budget.repeat(state.round)
        return self.failed[1] < self.most and self._affords(state)

    def _affords(self, state: State) -> bool:
        if self.run.plan.max_epsilon is None:
            return True
        return self.run.budget.affords(state.round + 1, int(state.participations.max()) + 1)


def conduct(grid: Any, config: dict[str, Any]) -> None:
    """Train the run of a folder to its end; how it ended is written beside it.

    Flower may start a run again that was submitted before a crash: where another process is at it, nothing is to do.
    """
    folder = Path(config["folder"])
    if store.held(folder):
        return
    # Flower throws away what a run's process prints; why a link broke would be found nowhere else.
    getLogger("flwr").addHandler(FileHandler(folder / LOG, delay=True))
    tell(folder, RUNNING)
    try:
        run = taken_up(grid, folder)
        for _ in runner.proceed(run):
            tell(folder, RUNNING)
        runner.conclude(run)
    except store.Busy:
        return
    except (AnswerIsNo, BadInput, TooFew) as error:
        tell(folder, FAILED, str(error))
    except Exception as error:
        getLogger("flwr").exception("the run ended")
        tell(folder, FAILED, f"the server failed ({type(error).__name__}); see {folder / LOG}")
        raise
    else:
        tell(folder, DONE)


def tell(folder: Path, state: str, sentence: str = "") -> None:
    """Write down how the run is going, for whoever started it."""
    store.write_json(folder / STATUS, {"state": state, "sentence": sentence, "at": time.time()})


app = server_app(conduct)
