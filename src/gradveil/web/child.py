"""A run that a page started, as a process of its own: `python -m gradveil.web.child FOLDER`.

Its order comes on standard input. It writes its status, and why it ended if it was refused, next to its folder.
"""

import os
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gradveil import codec, pipeline
from gradveil.errors import BadInput, RunFailed, machine_errors
from gradveil.federation.plan import Plan
from gradveil.runs import store
from gradveil.runs.progress import (
    Accounting,
    Attacking,
    Event,
    Extracting,
    Loading,
    Preparing,
    Reporting,
    RoundDone,
    Training,
)
from gradveil.runs.runner import Options

STATUS = ".status"


@dataclass(frozen=True, slots=True)
class ChildOrder:
    """What a run process is to do: train a plan, or resume its folder if there is none, and whether to attack."""

    attack: bool
    plan: Plan | None = None


@dataclass(frozen=True, slots=True)
class RunStatus:
    """What a run process does now, and the sentence with which it was refused or failed."""

    doing: str
    refused: str | None = None


def sidecar(folder: Path, ending: str) -> Path:
    """Name a file that the page keeps beside a run folder."""
    return folder.with_name(f".{folder.name}{ending}")


def read_status(folder: Path) -> RunStatus | None:
    """Read the status of a run process; None if there is none or it is damaged."""
    try:
        return codec.decode(RunStatus, store.read_json(sidecar(folder, STATUS)))
    except BadInput:
        return None


def _write_status(folder: Path, status: RunStatus) -> None:
    store.write_json(sidecar(folder, STATUS), codec.record(status))


def described(event: Event) -> str:
    """Say what is going on."""
    match event:
        case Loading():
            return "loading data"
        case Extracting():
            return "computing features"
        case Preparing():
            return "preparing"
        case Training(done=done, rounds=rounds):
            return "compiling" if done < rounds else "training is over"
        case RoundDone():
            return "training"
        case Accounting():
            return "accounting"
        case Attacking(surface=surface):
            return f"attacking surface {int(surface)}"
        case Reporting():
            return "writing the report"


def carry_out(folder: Path, order: ChildOrder) -> None:
    """Train, attack and report as ordered, and write down what is going on whenever that changes."""
    doing = ""

    def report(event: Event) -> None:
        nonlocal doing
        if described(event) != doing:
            doing = described(event)
            _write_status(folder, RunStatus(doing))

    load = partial(pipeline.loaded, progress=report)
    if order.plan is None:
        planned_run = pipeline.resumed(folder, Options(resume=True), attack=order.attack, load=load)
    else:
        planned_run = pipeline.PlannedRun(order.plan, load(order.plan), folder)
    pipeline.run_all([planned_run], attack=order.attack, progress=report)


def main(folder: Path, order: bytes) -> int:
    """Carry out an order and give the exit code; a refusal is written down as data."""
    try:
        with machine_errors():
            carry_out(folder, codec.decode(ChildOrder, store.parsed(order, "order")))
    except (BadInput, RunFailed) as error:
        _write_status(folder, RunStatus("ended", str(error)))
        return 2 if isinstance(error, BadInput) else 1
    _write_status(folder, RunStatus("finished"))
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(os.fsdecode(sys.argv[1])), sys.stdin.buffer.read()))
