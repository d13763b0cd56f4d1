"""Tuning: try settings, score each on held-out examples, and return the plan of the best with what that has cost.

On synthetic or public data nothing of the private records is used. On the records themselves every trial is counted:
where each trial is seen (by a server, or as sums), their number is fixed and all are composed with the run; where only
models are published, the number is a secret Poisson draw, and choosing the best is repeat-and-select.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from gradveil import codec
from gradveil.calibration.candidates import candidates
from gradveil.calibration.counted_trials import counted, hides_trials, private_trial
from gradveil.calibration.plan_noise import meet
from gradveil.calibration.trial_records import TrialRecord, TuningRecord, digest_of, read_tuning, write_tuning
from gradveil.calibration.trials import run_trial
from gradveil.calibration.tuning_data import PRIVATE, SYNTHETIC, on_other_data
from gradveil.data.dataset import Dataset
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.federation.plan_data import data_for
from gradveil.federation.tuned import MOST_TRIALS, Tuned
from gradveil.fields import whole
from gradveil.keys import LARGEST_SEED


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """What is asked for: a plan and its data, what to try settings on (`data`, named by `on`), and how often.

    folder: of the trial under way. records: the file of those that are done. progress: is called before each trial.
    """

    plan: Plan
    dataset: Dataset
    on: str
    data: Dataset
    trials: int
    target_epsilon: float
    records: Path
    folder: Path
    progress: Callable[[str], None] = lambda note: None

    @property
    def private(self) -> bool:
        """Whether settings are tried on the records that the plan trains on."""
        return self.on == PRIVATE

    @property
    def hidden(self) -> bool:
        """Whether the number of trials is secret."""
        return self.private and hides_trials(self.plan)


@dataclass(frozen=True, slots=True)
class TunedPlan:
    """The plan with the best settings, the trial that found them (None if none was drawn), and all trials.

    hidden: the number of trials is secret, so `done` is for the owner of the data alone.
    """

    plan: Plan
    best: TrialRecord | None
    done: tuple[TrialRecord, ...]
    hidden: bool


def tune(asked: Tuning) -> TunedPlan:
    """Run the trials that are missing, each on disk before the next begins, and return the best plan."""
    plans = _candidates(asked)
    data = data_for(asked.plan, asked.data)
    digest = digest_of([codec.encode(plans[0]), asked.on, asked.trials, asked.target_epsilon, asked.data.digest()])
    record = read_tuning(asked.records, digest) or TuningRecord(asked=digest, picks=_drawn(asked, len(plans)))
    write_tuning(asked.records, record)
    for i in range(len(record.done), len(record.picks)):
        asked.progress(f"trial {i + 1}" if asked.hidden else f"trial {i + 1} of {len(record.picks)}")
        record = record.add(_trial(asked, plans, data, i, record.picks[i]))
        write_tuning(asked.records, record)
    if asked.folder.is_dir():
        asked.folder.rmdir()
    best = record.best
    chosen = _priced(asked, plans[0 if best is None else best.candidate])
    return TunedPlan(replace(chosen, tuned=_about(asked, chosen, best, len(plans))), best, record.done, asked.hidden)


def _candidates(asked: Tuning) -> list[Plan]:
    """Return the grid; on private records with the noise that it needs, since the trials depend on that."""
    plans = list(candidates(asked.plan))
    whole("trials", asked.trials, most=MOST_TRIALS if asked.hidden else min(MOST_TRIALS, len(plans)))
    return counted(plans, asked.dataset, asked.target_epsilon, asked.trials) if asked.private else plans


def _priced(asked: Tuning, plan: Plan) -> Plan:
    """Return a candidate with the noise for the target; one of private trials has it."""
    return plan if asked.private else meet(plan, asked.dataset, asked.target_epsilon)


def _drawn(asked: Tuning, grid: int) -> tuple[int, ...]:
    """Draw the candidates to try, without a look at any record: the plan itself and others, each once.

    For a secret number of trials: that number, and every candidate on its own, as the theorem has it.
    """
    secret = asked.private and asked.plan.noise_source is NoiseSource.SECRET
    random = np.random.default_rng(None if secret else [asked.plan.seed, grid])
    if asked.hidden:
        return tuple(random.integers(grid, size=random.poisson(asked.trials)).tolist())
    return (0, *(1 + random.permutation(grid - 1)[: asked.trials - 1]).tolist())


def _trial(asked: Tuning, plans: list[Plan], data: Dataset, i: int, number: int) -> TrialRecord:
    """Run trial i, of a candidate; its draws are other ones than those of the run and of other trials."""
    plan = _priced(asked, plans[number])
    fitted = private_trial(plan, data) if asked.private else on_other_data(plan, data)
    seed = (asked.plan.seed + 1 + i) % (LARGEST_SEED + 1)
    trial = replace(fitted, seed=seed, tuned=None, max_epsilon=None, target_accuracy=None, target_rmse=None)
    sigma = None if plan.tuned is None else plan.tuned.sigma
    return run_trial(trial, data, number, asked.folder / f"trial-{i}", sigma)


def _about(asked: Tuning, plan: Plan, best: TrialRecord | None, grid: int) -> Tuned:
    """Say where the settings come from; for private trials also what they have cost."""
    held_out, share = len(asked.data.test), "" if best is None else f" ({best.score:.1%} right there)"
    if plan.tuned is not None:
        number = f"a secret number (mean {asked.trials})" if asked.hidden else f"{asked.trials}"
        origin = f"{number} of {grid} settings tried on these records, scored with noise on {held_out} held out{share}"
        return replace(plan.tuned, found=f"{origin}; every epsilon counts it")
    where = "synthetic data of the same shape" if asked.on == SYNTHETIC else asked.data.name
    return Tuned(
        found=f"{asked.trials} of {grid} settings tried on {where}, scored on {held_out} examples held out{share}"
    )
