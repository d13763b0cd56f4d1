"""Tuning into a file: the trials go beside the plan file that it writes, so the same call goes on where it stood."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from gradveil import codec
from gradveil.calibration.trial_records import records_path
from gradveil.calibration.tuning import TunedPlan, Tuning, tune
from gradveil.calibration.tuning_data import SYNTHETIC, tuning_data
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.runs import store

TRIALS = 12
"""How many settings are tried unless another number is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """How settings are looked for: `on` what data, how many `trials`, for which epsilon; `out` is the plan file.

    load: finds a public dataset. progress: is called with a note before each trial.
    """

    out: Path
    load: Callable[[str], Dataset]
    on: str = SYNTHETIC
    trials: int = TRIALS
    target_epsilon: float = 1.0
    progress: Callable[[str], None] = lambda note: None


def tune_into_file(plan: Plan, dataset: Dataset, search: Search) -> TunedPlan:
    """Tune a plan for its data and write the best to the file; a file that no tuning wrote is refused."""
    if dataset.target_range is not None:
        raise BadInput(f"tune: {dataset.name} has a number to predict, and settings are compared by accuracy")
    records = records_path(search.out)
    if store.exists(search.out) and not store.exists(records):
        raise BadInput(f"out = {str(search.out)!r}: is there already; name a new file")
    done = tune(
        Tuning(
            plan=plan,
            dataset=dataset,
            on=search.on,
            data=tuning_data(search.on, dataset, plan.seed, search.load),
            trials=search.trials,
            target_epsilon=search.target_epsilon,
            records=records,
            folder=search.out.with_name(f"{search.out.stem}.trials"),
            progress=search.progress,
        )
    )
    _write(search.out, done.plan)
    return done


def _write(out: Path, plan: Plan) -> None:
    origin = "" if plan.tuned is None else plan.tuned.found
    text = f"# Written by gradveil tune. {origin}.\n\n{tomli_w.dumps(codec.encode(plan))}"
    store.write(out, text.encode())
