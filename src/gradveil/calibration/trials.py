"""One trial of tuning: a plan trained on part of the data and scored on the rest, resumed where it was killed."""

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np

from gradveil import codec
from gradveil.calibration.candidates import settings_of
from gradveil.calibration.trial_records import TrialRecord
from gradveil.data.dataset import Dataset
from gradveil.engines.cache import drop_programs_if_many
from gradveil.federation import server
from gradveil.federation.evaluate import score
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.keys import Keys, named
from gradveil.normals import normals
from gradveil.runs import runner
from gradveil.runs.runner import Options


def run_trial(plan: Plan, data: Dataset, number: int, folder: Path, sigma: float | None) -> TrialRecord:
    """Train the plan of a candidate, by its number, score it on the test split of `data`, and forget its model.

    A run that diverges has nothing right. sigma: noise that each client adds to how many of its held-out examples are
    right, which one example moves by 1; None where nobody's records are at stake.
    """
    began = time.perf_counter()
    right = _accuracy(plan, data, folder)
    noise = 0.0 if sigma is None else score_noise(plan, sigma) / len(data.test)
    shutil.rmtree(folder)
    drop_programs_if_many()
    return TrialRecord(
        candidate=number,
        settings=settings_of(plan),
        plan_sha256=codec.digest(plan),
        score=right + noise,
        seconds=round(time.perf_counter() - began, 2),
    )


def _accuracy(plan: Plan, data: Dataset, folder: Path) -> float:
    run = runner.prepare(plan, data, folder, Options(resume=True))
    try:
        for _ in runner.proceed(run):
            pass
    except server.Diverged:
        return 0.0
    return score(plan.model, server.model_of(plan, run.state), run.dataset.test).accuracy or 0.0


def score_noise(plan: Plan, sigma: float) -> float:
    """Draw the noise on a count: the sum of what each client adds, N(0, sigma^2) each."""
    roots = Keys.of(plan.seed, plan.noise_source is NoiseSource.SECRET)
    drawn: Any = normals(named(roots.private, "score"), plan.clients)
    return sigma * float(np.sum(np.asarray(drawn, np.float64)))
