"""`gradveil run --resume`: which run, and which options may be given with it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gradveil.cli.loading import load
from gradveil.errors import BadInput
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.runs import demo, recording, runner, store
from gradveil.runs.runner import Options, Run

HONORED = "--rounds, --attack, --no-attack, --watch, --data-dir, --engine and --json"


def refuse_beside(given: Mapping[str, Any]) -> None:
    """Refuse what would change a run that has begun; `given` is by the names of options."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise BadInput(f"{name}: cannot be changed by --resume; only {HONORED} can be given with it")


def refuse_unreached(watch: frozenset[int], plan: Plan) -> None:
    """Refuse to keep the checkpoint of a round that the plan does not reach."""
    last = max(watch, default=0)
    if last > plan.rounds:
        raise BadInput(f"watch = {last}: must be at most rounds = {plan.rounds}")


def folders_of(out: Path | None) -> list[Path]:
    """Find the run, or the runs of a demonstration, that --out holds."""
    if out is None:
        raise BadInput("--resume: needs --out, the folder of the run to continue")
    several = [out / method.name for method in demo.METHODS if store.there(out / method.name / store.PLAN)]
    folders = [out] if store.there(out / store.PLAN) else several
    if not folders:
        raise BadInput(f"out = {str(out)!r}: holds no run to continue")
    if store.there(out / "federation.json"):
        raise BadInput(f"out = {str(out)!r}: is trained by nodes; continue it with `gradveil federate server --resume`")
    return folders


def taken_up(
    folder: Path, data_dir: Path | None, options: Options, rounds: int | None, watch: frozenset[int], attack: bool
) -> Run:
    """Take up the run of a folder, with another number of rounds if one is given.

    watch: the rounds that the user names, of which those that are past must have been kept. attack: whether the run is
    to be attacked at its end, which must be possible.
    """
    plan = store.read_plan(folder)
    wanted = plan if rounds is None else replace(plan, rounds=rounds)
    refuse_unreached(watch, wanted)
    done = len(store.inspect(folder, plan).lines)
    missed = sorted(t for t in watch if t < done and not store.there(store.watched_path(folder, t)))
    if missed:
        raise BadInput(f"watch = {missed[0]}: the run is past it ({done} rounds done) and kept no checkpoint of it")
    if attack and plan.noise_source is NoiseSource.SECRET and done and not recording.recorded_rounds(folder):
        raise BadInput("--attack: the noise of this run is secret and its first round was not recorded")
    data = load(plan.dataset, data_dir=data_dir, target=plan.target, train_all=plan.train_all)
    return runner.prepare(wanted, data, folder, options)
