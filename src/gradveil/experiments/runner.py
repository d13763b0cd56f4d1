"""One training run from start or checkpoint to its end: train, evaluate, record, stop."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from gradveil import codec, store
from gradveil.data.dataset import Dataset
from gradveil.engines.serial import Serial
from gradveil.engines.vectorized import Execution, Vectorized
from gradveil.errors import BadInput
from gradveil.experiments import recording
from gradveil.experiments.budget import Budget
from gradveil.experiments.course import course
from gradveil.federation import server
from gradveil.federation.engine import Engine, Population
from gradveil.federation.evaluate import Score, norm_quantiles, score
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.federation.rounds import Round, cohort_of, rounds
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.surface import Surface

Line = dict[str, Any]
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

    population: who holds what, where the examples are on this machine. tried: attempts that the next round has behind
    it. may_retry: whether a round that too few answered is tried again. recall: adds to a checkpoint's state what
    happened after it, and says how often its round was tried.
    """

    plan: Plan
    dataset: Dataset
    population: Population | None
    engine: Engine
    state: State
    folder: Path
    budget: Budget
    roots: Keys
    lines: list[Line] = field(default_factory=list)
    seconds: float = 0.0
    tried: int = 0
    may_retry: Callable[[State], bool] = lambda state: True
    recall: Callable[[State], tuple[State, int]] = lambda state: (state, 0)

    @property
    def stopped_because(self) -> str | None:
        """Say why the run is over, or None if it is not: the caller's two ways to stop are predicates on its lines."""
        reached = self.plan.target_accuracy
        if self.lines and reached is not None and self.lines[-1]["stop_accuracy"] >= reached:
            return "target-accuracy"
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
    """Make the engine that the options name."""
    if options.engine == "serial":
        return Serial(plan, population)
    return Vectorized(plan, population, options.execution)


def prepare(plan: Plan, dataset: Dataset, folder: Path, options: Options) -> Run:
    """Lay out the folder, or take up the run that it holds."""
    _refuse_unless_new(folder, options.resume)
    population = Population.of(plan, dataset)
    budget = Budget(plan, dataset, population.copies)
    lay_out(plan, dataset, folder, options.watch)
    return begin(plan, dataset, folder, budget, population, build_engine(plan, population, options))


def _refuse_unless_new(folder: Path, resume: bool) -> None:
    if (folder / store.PLAN).exists() and not resume:
        raise BadInput(
            f"out = {str(folder)!r}: already holds a run; add --resume to go on with it, or name a new folder"
        )


def lay_out(plan: Plan, dataset: Dataset, folder: Path, watch: frozenset[int] = frozenset()) -> None:
    """Make the folder of a run, or accept the one that is there."""
    store.create(folder, plan, dataset)
    store.keep_watching(folder, watch)


def begin(
    plan: Plan, dataset: Dataset, folder: Path, budget: Budget, population: Population | None, engine: Engine
) -> Run:
    """Start from new weights, or from the checkpoint in the folder."""
    roots = Keys.of(plan.seed, plan.noise_source is NoiseSource.SECRET)
    state = server.init(plan, dataset.shape, len(dataset.classes), roots)
    run = Run(plan, dataset, population, engine, state, folder, budget, roots)
    _catch_up(run, store.read_metrics(folder))
    return run


def _catch_up(run: Run, lines: list[Line]) -> None:
    """Take up the state of the checkpoint, and of the lines those that it knows of."""
    if (run.folder / store.LATEST).exists():
        run.state = store.restore(run.folder / store.LATEST, run.state)
    run.state, run.tried = run.recall(run.state)
    run.lines = [line for line in lines if line["round"] < run.state.round]
    run.seconds = sum(line["seconds"] for line in run.lines)


def proceed(run: Run) -> Iterator[Line]:
    """Train round after round; each is on disk before its line is yielded. The folder is locked meanwhile."""
    with store.locked(run.folder):
        began, watch = time.perf_counter(), store.watched(run.folder)
        _catch_up(run, store.read_metrics(run.folder))
        store.cut_metrics(run.folder, run.state.round)
        if not (run.folder / store.LATEST).exists():
            store.save(run.folder, run.state, watched=0 in watch)
        if _over(run):
            return
        _record(run, watch)
        for done in rounds(run.plan, run.engine, run.state, run.roots, run.tried, run.may_retry):
            line = _line(run, done, time.perf_counter() - began)
            store.append_metrics(run.folder, line)
            store.save(run.folder, done.state, watched=done.state.round in watch)
            run.state, run.seconds, run.tried = done.state, run.seconds + line["seconds"], 0
            run.lines.append(line)
            yield line
            began = time.perf_counter()
            if _over(run):
                return
            _record(run, watch)


def _record(run: Run, watch: frozenset[int]) -> None:
    """Record what the next round will show, if it is watched and its secret keys could not be made again."""
    if run.population is not None and run.plan.noise_source is NoiseSource.SECRET and run.state.round in watch:
        recording.record(run.folder, run.plan, run.population, run.state, run.roots)


def _over(run: Run) -> bool:
    return run.stopped_because is not None


def conclude(run: Run) -> dict[str, Any]:
    """Write params.npz and result.json; returns the result. The folder is locked meanwhile: accounting takes time."""
    with store.locked(run.folder):
        result = _settled(run)
        store.write_json(run.folder / store.RESULT, result)
        return result


def _settled(run: Run) -> dict[str, Any]:
    held = run.budget.all_guarantees(run.state.round, int(run.state.participations.max()))
    plan, digest = run.plan, store.save_params(run.folder, run.state.params)
    final = score(plan.model, run.state.params, run.dataset.test)
    data = store.read_json(run.folder / store.DATA)
    return {
        "dataset": plan.dataset,
        "method": plan.method.name,
        "accuracy": final.accuracy,
        "accuracy_interval": list(final.interval()),
        "loss": final.loss if np.isfinite(final.loss) else None,
        "majority_baseline": run.dataset.majority_baseline(),
        "test_examples": final.n,
        "rounds": run.state.round,
        "stopped_because": run.stopped_because,
        "run_dir": str(run.folder),
        "seconds": run.seconds,
        "seed": plan.seed,
        "noise_source": plan.noise_source.value,
        "draw": plan.method.draw.value,
        "copies": run.budget.copies,
        "max_participations": int(run.state.participations.max()),
        "plan_sha256": codec.digest(plan),
        "data_sha256": data["sha256"],
        "params_sha256": digest,
        "suggested_clip": suggested_clip(run.lines),
        "guarantees": held,
        "as_the_paper_accounts": run.budget.as_the_paper_accounts(run.state.round),
        "epsilon_over_rounds": course(run.budget, run.lines, held),
    }


def suggested_clip(lines: list[Line]) -> list[float] | None:
    """Give the paper's advice for C, 1.5 to 2 times the l2-max of a non-private run, from its largest round."""
    seen = [line["norm_quantiles"]["1"] for line in lines if line["norm_quantiles"]]
    largest = max(seen, default=None) if None not in seen else None
    return None if largest is None else [1.5 * largest, 2 * largest]


def _line(run: Run, done: Round, seconds: float) -> Line:
    """Measure a finished round: the model, what was done to gradients, and what it took."""
    plan, params, measures = run.plan, done.state.params, done.measures
    began = time.perf_counter()
    tested = score(plan.model, params, run.dataset.test)
    stop = _stop_score(run, done, tested)
    sigmas, noisy = plan.sigmas()[done.t], not plan.method.noise.silent
    sigma = float(sigmas.mean() if plan.method.surface is Surface.EXAMPLE else sigmas[0])
    sensitivity, bound = float(measures.sensitivity), float(measures.bound)
    return {
        "round": done.t,
        "accuracy": tested.accuracy,
        "loss": tested.loss if np.isfinite(tested.loss) else None,
        "stop_accuracy": stop.accuracy,
        "sigma": sigma,
        "sensitivity": _known(sensitivity),
        "clip": bound if np.isfinite(bound) else None,
        "unit_norm": _known(float(measures.unit_norm)),
        "clipped_share": _known(float(measures.clipped)),
        "equivalent_sigma": sigma * bound / sensitivity if noisy and sensitivity > 0 and np.isfinite(bound) else None,
        "cohort": len(done.cohort),
        "max_participations": int(done.state.participations.max()),
        **_spent(run, done),
        "norm_quantiles": _probe(run.population, run.plan, done) if plan.method.idle else None,
        "seconds": seconds + time.perf_counter() - began,
        **(done.remarks | {"attempts": done.attempts} if done.remarks else {}),
    }


def _known(measure: float) -> float | None:
    """Give None for what the engine could not see, as over a network, and for norms that overflowed."""
    return measure if math.isfinite(measure) else None


def _spent(run: Run, done: Round) -> Line:
    """Account the rounds so far, and forecast how many more the budget affords if there is one.

    Without a budget only some twenty rounds of a run are accounted, since each takes a moment.
    """
    rounds_done, most = done.state.round, int(done.state.participations.max())
    limited = run.plan.max_epsilon is not None
    due = limited or rounds_done % max(1, run.plan.rounds // 20) == 0
    return {
        "spent": run.budget.spent(rounds_done, most).plain() if due else None,
        "rounds_left": run.budget.forecast(rounds_done, most) if limited else None,
    }


def _stop_score(run: Run, done: Round, tested: Score) -> Score:
    """Judge the target accuracy on the split held out for choices where there is one, else on the test split."""
    if run.plan.target_accuracy is None or run.dataset.validation is None:
        return tested
    return score(run.plan.model, done.state.params, run.dataset.validation)


PROBE = 256


def _probe(population: Population | None, plan: Plan, done: Round) -> dict[str, float | None] | None:
    """Measure per-example layer norms on up to 256 examples of the cohort: a diagnostic, outside the training loop."""
    if population is None:
        return None
    held = population.shards[done.cohort].ravel()
    if not len(held):
        return {}
    rows = held[np.linspace(0, len(held) - 1, PROBE).astype(int)]
    x, y = population.x[rows], population.y[rows]
    return {q: _known(norm) for q, norm in norm_quantiles(plan.model, done.state.params, x, y).items()}
