"""Runs jobs: each kind by one function, each job once, its record kept in the cache."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any, cast

from gradveil import codec
from gradveil.attacks.distance import Cosine, Likelihood, SquaredL2
from gradveil.attacks.start import ClassMean, ConstantStart, Normal, Tiles, Uniform
from gradveil.attacks.zoo import ATTACKS
from gradveil.data.dataset import Dataset
from gradveil.engines.cache import drop_programs_if_many
from gradveil.errors import BadInput
from gradveil.federation.leaks import Tap
from gradveil.federation.plan import Plan
from gradveil.leakage import attack_run, scenes
from gradveil.leakage.attack_run import Outcome
from gradveil.leakage.scenes import Scene
from gradveil.reproduction import arithmetic, training_jobs
from gradveil.reproduction.committed import CommittedRecords
from gradveil.reproduction.job_cache import JobCache, JobRecord, Stored, TrainingRecord, record_of
from gradveil.reproduction.jobs import (  # fmt: skip
    Arithmetic,
    AttackJob,
    GuaranteeJob,
    Job,
    SizeJob,
    TimingJob,
    TrainingJob,
    TuningJob,
    dataset_of,
    key_of,
)
from gradveil.reproduction.stand_ins import is_stand_in
from gradveil.runs import runner, store
from gradveil.runs.runner import Options
from gradveil.surface import Surface

STARTS: dict[str, Any] = {
    "uniform": Uniform(), "normal": Normal(), "tiles 2x2": Tiles(2), "tiles 4x4": Tiles(4),
    "constant": ConstantStart(0.5), "class mean": ClassMean(),
}  # fmt: skip
DISTANCES: dict[str, Any] = {"squared L2": SquaredL2(), "cosine": Cosine(), "likelihood": Likelihood()}
VIEW = "released"
"""What the attacks of all tables read."""
NOTHING_ATTACKED: Stored = {"per_victim": [], "success_rate": None, "candidates": []}
"""The record of an attack whose network diverged before there was anything to read."""


@dataclass(frozen=True, slots=True)
class Executor:
    """Runs each job once and keeps its record in the cache.

    data: how a dataset is found by name. progress: is called with a note of what is going on. draw: makes a picture of
    an attack, which is kept with its record; attacks on table rows have none. committed: records under version control,
    which are read first; with `commits` those that are made are added to them.
    """

    cache: JobCache
    data: Callable[[str], Dataset]
    progress: Callable[[str], None] = field(default=lambda note: None)
    draw: Callable[[Outcome], bytes] | None = None
    committed: CommittedRecords | None = None
    commits: bool = False
    _digests: dict[str, str] = field(default_factory=dict)

    def run(self, job: Job) -> JobRecord:
        """Return the record of a job, from the cache if it is there."""
        record = self.cached(job)
        if record is not None:
            return record
        stored = self._stored(job)
        self.cache.write(self.key(job), stored | {"made": date.today().isoformat(), "by": _versions()})
        self._commit(job, stored)
        drop_programs_if_many()
        return record_of(job, stored)

    def cached(self, job: Job) -> JobRecord | None:
        """Return the record of a job if it is committed or in the cache, or needs no more than arithmetic."""
        if isinstance(job, Arithmetic):
            return arithmetic.value(job)
        stored = None if self.committed is None else self.committed.stored(_dataset(job), self.key(job))
        return self.cache.read(job, self.key(job)) if stored is None else record_of(job, stored)

    def _commit(self, job: Job, stored: Stored) -> None:
        """Add a record to those under version control; a timing is of this machine, and of what else it does."""
        if self.committed is None or not self.commits or isinstance(job, TimingJob):
            return
        if not self.stands_in(_dataset(job)):
            self.committed.add(_dataset(job), job, self.key(job), self._digest(_dataset(job)), stored)

    def lacks(self, name: str) -> bool:
        """Whether a dataset cannot be had."""
        try:
            self.data(name)
        except BadInput:
            return True
        return False

    def stands_in(self, name: str) -> bool:
        """Whether synthetic examples take the place of a dataset."""
        return not self.lacks(name) and is_stand_in(self.data(name))

    def key(self, job: Job) -> str:
        """Name the record of a job."""
        name = dataset_of(job)
        return key_of(job, "" if name is None else self._digest(name))

    def _digest(self, name: str) -> str:
        """Return the digest of a dataset, which takes a moment and is asked for often; recorded where it is missing."""
        if name not in self._digests:
            recorded = self.committed.data_digest(name) if self.committed is not None and self.lacks(name) else None
            self._digests[name] = self.data(name).digest() if recorded is None else recorded
        return self._digests[name]

    def _stored(self, job: Job) -> Stored:
        """Run a job, and return what is stored of it."""
        stored: Stored = self._attack(job) if isinstance(job, AttackJob) else codec.record(self._computed(job))
        return stored

    def _computed(self, job: Job) -> JobRecord:
        match job:
            case TrainingJob(plan):
                return self._train(plan)
            case TuningJob():
                return self._tune(job)
            case TimingJob(plan):
                return training_jobs.step_seconds(plan, self.data(plan.dataset))
            case GuaranteeJob(plan):
                return training_jobs.plan_guarantee(plan, self.data(plan.dataset))
            case SizeJob(dataset, name):
                return arithmetic.size(name, self.data(dataset))
            case _:
                raise TypeError(f"{type(job).__name__}: is not run here")

    def _train(self, plan: Plan, watch: frozenset[int] = frozenset()) -> TrainingRecord:
        """Train in the cache's folder for this plan, from its checkpoint if there is one."""
        dataset, folder = self.data(plan.dataset), self.cache.run_folder(self.key(TrainingJob(plan)))
        run = runner.prepare(plan, dataset, folder, Options(watch=watch, resume=True))
        return training_jobs.train(run, self.progress)

    def _trained(self, plan: Plan) -> TrainingRecord:
        return cast(TrainingRecord, self.run(TrainingJob(plan)))

    def _tune(self, job: TuningJob) -> TrainingRecord:
        """Choose a rate on the validation split, where the test split plays no part; then train with it."""
        if self.data(job.plan.dataset).validation is None:
            raise ValueError(f"{job.plan.dataset} has no split held out for choices")
        trials = {rate: replace(job.plan, learning_rate=rate, rounds=job.rounds) for rate in job.rates}
        scores = {rate: self._trained(trial).held_out or 0.0 for rate, trial in trials.items()}
        # The smaller rate where two are equal: it is the safer one over more rounds.
        best = max(job.rates, key=lambda rate: (scores[rate], -rate))
        record = self._trained(replace(job.plan, learning_rate=best))
        return replace(record, search=tuple(scores.items()), search_rounds=job.rounds)

    def _attack(self, job: AttackJob) -> Stored:
        attack: Any = ATTACKS[job.attack].value
        changes: dict[str, Any] = {"iterations": job.iterations} if job.iterations is not None else {}
        changes |= {"start": STARTS[job.start]} if job.start is not None else {}
        changes |= {"distance": DISTANCES[job.distance]} if job.distance is not None else {}
        scene = self._scene(job)
        if scene is None:
            return NOTHING_ATTACKED
        self.progress(f"{job.attack} against {job.plan.method.name} on {job.plan.dataset}, surface {job.surface}")
        outcome = attack_run.attack(
            scene, replace(attack, **changes), job.victims, seed=job.seed, identify=job.identify
        )
        if self.draw is not None and scene.dataset.is_image:
            store.write(self.cache.picture(self.key(job)), self.draw(outcome))
        return outcome.record.plain()

    def _scene(self, job: AttackJob) -> Scene | None:
        """Set up what is attacked; None where training diverged before the round that is to be attacked."""
        dataset, surface = self.data(job.plan.dataset), Surface(job.surface)
        if job.round is None:
            tap = Tap(surface, VIEW, surface is Surface.EXAMPLE and job.plan.batch == 1)
            return scenes.fresh(job.plan, dataset, tap)
        # Plans that differ only in their last round share a start, so each round is attacked in a run that ends there.
        plan = replace(job.plan, rounds=max(1, job.round))
        if self._train(plan, watch=frozenset({0, job.round})).diverged:
            return None
        folder = self.cache.run_folder(self.key(TrainingJob(plan)))
        return scenes.of_run(folder, plan, dataset, Tap.at(plan, surface, VIEW), (job.round,))


def _dataset(job: Job) -> str:
    """Name the dataset of a job that is no arithmetic: such a job always has one."""
    return cast(str, dataset_of(job))


def _versions() -> dict[str, str]:
    return store.environment().packages
