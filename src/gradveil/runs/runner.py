"""One training run from start or checkpoint to its end: train, evaluate, record, stop."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from gradveil import codec
from gradveil.data.dataset import Dataset
from gradveil.engines.local_sums import LocalSums
from gradveil.engines.serial import Serial
from gradveil.engines.vectorized import Execution, Vectorized
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.engine import Engine, Population
from gradveil.federation.evaluate import score
from gradveil.federation.ledger import shape_of
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.federation.plan_data import data_for
from gradveil.federation.rounds import Round, cohort_of, rounds
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.privacy.inspection import inspect
from gradveil.runs import recording, store
from gradveil.runs.budget import Budget
from gradveil.runs.counted import guarantees
from gradveil.runs.epsilon_curve import epsilon_curves
from gradveil.runs.round_line import line_of, suggested_clip
from gradveil.runs.run_records import ClientRecord, RoundLine, RunResult

ENGINES = ("vectorized", "serial")


@dataclass(frozen=True, slots=True)
class Options:
    """How a run is carried out; nothing in here changes a result beyond rounding, and only `engine` does that.

    watch: rounds whose checkpoints are kept, counted as rounds done, so that 0 is the untrained model.
    """

    engine: str = "vectorized"
    execution: Execution = field(default_factory=Execution)
    watch: frozenset[int] = frozenset()
    resume: bool = False

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise BadInput(f"engine = {self.engine!r}: must be one of {', '.join(ENGINES)}")


@dataclass(slots=True)
class Run:
    """A run under way: what it needs, and how far it has come.

    population: who holds what, where the examples are on this machine. earlier: stretches that were trained when the
    plan had another number of rounds. head: the chain's digest after the last line. tried: failed attempts at the next
    round. may_retry: whether a round that too few clients answered is repeated. recall: adds to a checkpoint's state
    what happened after it, and returns how often its round was tried.
    """

    plan: Plan
    dataset: Dataset
    population: Population | None
    engine: Engine
    state: State
    folder: Path
    budget: Budget
    roots: Keys
    lines: list[RoundLine] = field(default_factory=list)
    earlier: tuple[store.Earlier, ...] = ()
    head: str = ""
    seconds: float = 0.0
    tried: int = 0
    may_retry: Callable[[State], bool] = lambda state: True
    recall: Callable[[State], tuple[State, int]] = lambda state: (state, 0)

    @property
    def stopped_because(self) -> str | None:
        """Return why the run is over, or None if it is not."""
        last = self.lines[-1] if self.lines else None
        reached = None if last is None else self.plan.reached(last.stop_accuracy, last.stop_rmse)
        if reached is not None:
            return reached
        if self.state.round >= self.plan.rounds:
            return "rounds"
        return None if self._affords_next() else "budget"

    def _affords_next(self) -> bool:
        """Ask what the next round would have cost, before it is trained."""
        if self.plan.max_epsilon is None:
            return True
        counts = self.state.participations.copy()
        counts[cohort_of(self.plan, self.state.round, self.roots, self.tried)] += 1
        return self.budget.affords(self.state.round + 1, int(counts.max()))


def build_engine(plan: Plan, population: Population, options: Options) -> Engine:
    """Make the engine that the options name; a secure sum has but one."""
    if plan.secure_sum is not None:
        return LocalSums(plan, population)
    if options.engine == "serial":
        return Serial(plan, population)
    return Vectorized(plan, population, options.execution)


def prepare(
    plan: Plan,
    dataset: Dataset,
    folder: Path,
    options: Options,
    extracted: Callable[[float], None] = lambda share: None,
) -> Run:
    """Create the run folder, or resume the run in it. extracted: called with the share of features that are there."""
    exists = _has_run(folder, options.resume)
    source, dataset = dataset, data_for(plan, dataset, extracted)
    population = Population.of(plan, dataset)
    budget = Budget(plan, dataset, population.copies)
    inspect(plan.method, shape_of(plan, dataset.shape, len(dataset.classes)))
    if not exists:
        store.create(folder, plan, dataset, options.watch, source)
    engine = build_engine(plan, population, options)
    if exists:
        store.accept(folder, plan, dataset)
        store.add_watched(folder, options.watch)
    return begin(plan, dataset, folder, budget, population, engine)


def _has_run(folder: Path, resume: bool) -> bool:
    exists = store.exists(folder / store.PLAN)
    if exists and not resume:
        raise BadInput(f"out = {str(folder)!r}: already holds a run; add --resume to continue it, or name a new folder")
    return exists


def lay_out(plan: Plan, source: Dataset, folder: Path) -> None:
    """Make the folder of a run, or accept the one that is there. source: the dataset before any features."""
    dataset = data_for(plan, source)
    if store.exists(folder / store.PLAN):
        store.accept(folder, plan, dataset)
    else:
        store.create(folder, plan, dataset, source=source)


def begin(
    plan: Plan, dataset: Dataset, folder: Path, budget: Budget, population: Population | None, engine: Engine
) -> Run:
    """Start from new weights, or from the checkpoint in the folder."""
    roots = Keys.of(plan.seed, plan.noise_source is NoiseSource.SECRET)
    state = server.init(plan, dataset.shape, len(dataset.classes), roots)
    run = Run(plan, dataset, population, engine, state, folder, budget, roots)
    _catch_up(run)
    return run


def _catch_up(run: Run) -> store.Checkpoint | None:
    """Restore the state of the checkpoint, and its line of metrics if a kill kept that from being written."""
    history = store.read_history(run.folder, run.plan)
    latest = store.latest(run.folder, history, run.state)
    run.budget.trained_under(history.earlier)
    run.earlier, run.head, run.lines = history.earlier, history.heads[-1], list(history.lines)
    if latest is not None:
        run.state, run.head = latest.state, latest.head
        run.lines += [latest.line] if latest.line is not None and run.state.round > len(run.lines) else []
    run.state, run.tried = run.recall(run.state)
    run.seconds = sum(line.seconds for line in run.lines)
    return latest


def proceed(run: Run) -> Iterator[RoundLine]:
    """Train round after round; each is on disk before its line is yielded. The folder is locked meanwhile."""
    with store.locked(run.folder):
        began, watch = time.perf_counter(), store.watched(run.folder)
        _settle(run, watch)
        if _over(run):
            return
        _record(run, watch)
        for done in rounds(run.plan, run.engine, run.state, run.roots, run.tried, run.may_retry):
            line = store.linked(run.head, run.plan, _line(run, done, time.perf_counter() - began))
            checkpoint = store.Checkpoint(done.state, line, line.chain)
            store.save(run.folder, checkpoint, watched=done.state.round in watch)
            store.append_metrics(run.folder, line)
            run.state, run.seconds, run.tried = done.state, run.seconds + line.seconds, 0
            run.head = checkpoint.head
            run.lines.append(line)
            yield line
            began = time.perf_counter()
            if _over(run):
                return
            _record(run, watch)


def _line(run: Run, done: Round, seconds: float) -> RoundLine:
    return line_of(run.plan, run.dataset, run.population, run.budget, done, seconds)


def _settle(run: Run, watch: frozenset[int]) -> None:
    """Complete the folder from its checkpoint (line of metrics, copy if watched), or write the first checkpoint."""
    latest = _catch_up(run)
    if latest is None:
        latest = store.Checkpoint(run.state, None, run.head)
        return store.save(run.folder, latest, watched=0 in watch)
    history, done = store.read_history(run.folder, run.plan), latest.state.round
    store.complete(run.folder, history, latest.line if done > len(history.lines) else None)
    if done in watch and not store.exists(store.watched_path(run.folder, done)):
        store.save(run.folder, latest, watched=True)


def _record(run: Run, watch: frozenset[int]) -> None:
    """Record what the next round will show, if it is watched and its keys are secret, so it cannot be replayed."""
    secret = run.plan.noise_source is NoiseSource.SECRET and run.plan.secure_sum is None
    if run.population is not None and secret and run.state.round in watch:
        recording.record(run.folder, run.plan, run.population, run.state, run.roots)


def _over(run: Run) -> bool:
    return run.stopped_because is not None


def conclude(run: Run) -> RunResult:
    """Write params.npz and result.json; returns the result. The folder is locked meanwhile: accounting takes time."""
    with store.locked(run.folder):
        result = _result(run)
        store.write_record(run.folder / store.RESULT, result)
        return result


def _result(run: Run) -> RunResult:
    counted, records = guarantees(run.plan, run.budget, run.state, run.roots, run.earlier)
    plan, params = run.plan, server.model_of(run.plan, run.state)
    digest = store.save_params(run.folder, params)
    final = score(plan.model, params, run.dataset.test)
    data = store.read_data(run.folder)
    return RunResult(
        dataset=plan.dataset,
        method=plan.method.name,
        accuracy=final.accuracy,
        accuracy_interval=final.interval(),
        loss=final.loss if np.isfinite(final.loss) else None,
        majority_baseline=run.dataset.majority_baseline() if final.rmse is None else None,
        test_examples=final.n,
        rounds=run.state.round,
        rounds_counted=counted,
        earlier_rounds=run.earlier,
        stopped_because=run.stopped_because,
        run_dir=str(run.folder),
        seconds=run.seconds,
        seed=plan.seed,
        noise_source=plan.noise_source.value,
        draw=plan.method.draw.value,
        copies=run.budget.copies,
        max_participations=int(run.state.participations.max()),
        plan_sha256=codec.digest(plan),
        data_sha256=data.sha256,
        params_sha256=digest,
        metrics_head=run.head,
        suggested_clip=suggested_clip(run.lines),
        guarantees=records,
        presumed=run.budget.presumed(counted, int(run.state.participations.max())),
        as_the_paper_accounts=run.budget.as_the_paper_accounts(run.state.round),
        epsilon_over_rounds=epsilon_curves(run.budget, run.lines, records, counted),
        clients=_clients(run, counted),
        rmse=final.rmse * run.dataset.unit if final.rmse is not None and np.isfinite(final.rmse) else None,
        mean_baseline=None if final.rmse is None else run.dataset.mean_baseline(),
    )


def _clients(run: Run, counted: int) -> tuple[ClientRecord, ...] | None:
    """Account every client that the data name; one that could have taken part in more rounds is counted in them."""
    plan, names = run.plan, run.plan.client_names or run.dataset.client_names
    if not plan.client_sizes:
        return None
    more = counted - run.state.round
    took_part = run.state.participations.tolist()
    spent = run.budget.by_client(counted, [count + more for count in took_part])
    weights = server.client_weights(plan)
    return tuple(
        ClientRecord(
            name=names[i],
            examples=plan.sizes[i],
            participations=took_part[i],
            epsilon=spent[i] if np.isfinite(spent[i]) else None,
            rate=plan.rates[i],
            weight=1.0 if weights is None else float(weights[i]),
        )
        for i in range(plan.clients)
    )
