"""The runs below a folder: found, told about, started, stopped and taken up again, each in a process of its own."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradveil import store
from gradveil.errors import BadInput
from gradveil.reports.evidence import Evidence, gather

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PID = ".process"
LOG = ".log"
PATIENCE = 60.0
"""Seconds that a run may take to lay out its folder or to say what is wrong with its plan."""
OPTIONS = (
    "dataset", "method", "rounds", "clients", "cohort", "client-size", "local-steps", "batch", "lr", "clip", "sigma",
    "decay", "seed", "delta", "max-epsilon", "noise-source", "sampling",
)  # fmt: skip
"""What the form may say, as options of `gradveil run`."""


@dataclass(frozen=True, slots=True)
class Runs:
    """A folder of runs."""

    root: Path

    def names(self) -> list[str]:
        """Give the runs by their paths below the folder, the newest first."""
        plans = [p for depth in (f"*/{store.PLAN}", f"*/*/{store.PLAN}") for p in self.root.glob(depth)]
        newest = sorted(plans, key=lambda p: p.stat().st_mtime, reverse=True)
        return [str(p.parent.relative_to(self.root)) for p in newest]

    def folder(self, name: str) -> Path:
        """Give the folder of a run; whatever lies elsewhere, or is none, is refused."""
        place, root = (self.root / name).resolve(), self.root.resolve()
        if root not in place.parents or not (place / store.PLAN).is_file():
            raise BadInput(f"there is no run {name!r}")
        return place

    def evidence(self, name: str) -> Evidence:
        """Read a run."""
        return gather(self.folder(name))

    def told(self, name: str) -> dict[str, Any]:
        """Tell how a run stands."""
        return status(self.evidence(name), name, self._running(name))

    def start(self, wanted: Mapping[str, str]) -> str:
        """Start a run as the command line would; its own sentence is raised if it refuses."""
        name = wanted.get("name", "").strip() or time.strftime("run-%Y%m%d-%H%M%S")
        if not NAME.fullmatch(name):
            raise BadInput(f"name = {name!r}: must be letters, digits, dots, - and _, at most 64")
        if (self.root / name).exists():
            raise BadInput(f"name = {name!r}: is taken")
        given = [part for key in OPTIONS if wanted.get(key, "").strip() for part in (f"--{key}", wanted[key].strip())]
        attack = ["--attack"] if wanted.get("attack") else ["--no-attack"]
        with _PlanFile(self.root, name, wanted.get("plan", "")) as plan:
            self._launch(name, ["run", *plan, *given, *attack, "--json", "--out", str(self.root / name)])
        return name

    def resume(self, name: str) -> None:
        """Go on with a run that was stopped."""
        folder = self.folder(name)
        if self._running(name):
            raise BadInput("it is running already")
        self._launch(name, ["run", "--resume", "--json", "--out", str(folder)])

    def stop(self, name: str) -> None:
        """Stop a run that this page started; what it has done is kept."""
        pid = self._process(name)
        if pid is None:
            raise BadInput("it is not running, or was started elsewhere")
        os.kill(pid, signal.SIGINT)

    def _running(self, name: str) -> bool:
        """Whether a run is trained, or what this page started for it is still at work: accounting, attacking."""
        return store.held(self.folder(name)) or self._process(name) is not None

    def _process(self, name: str) -> int | None:
        """Give the process that this page, or one before it, started for a run, while it lives."""
        record = self._sidecar(name, PID)
        pid = int(record.read_text()) if record.exists() else 0
        try:
            os.kill(pid, 0)
        except OSError:
            return None
        line = Path(f"/proc/{pid}/cmdline")  # another process may have the number by now
        ours = not line.exists() or str(self.root / name).encode() in line.read_bytes()
        return pid if pid and ours else None

    def _sidecar(self, name: str, ending: str) -> Path:
        folder = self.root / name
        return folder.with_name(f".{folder.name}{ending}")

    def _launch(self, name: str, arguments: list[str]) -> None:
        """Start a process that outlives this server; returns once its folder is held, or raises what it said."""
        log = self._sidecar(name, LOG)
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "gradveil", *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=process.wait, daemon=True).start()  # so that its end leaves no zombie
        self._sidecar(name, PID).write_text(str(process.pid))
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end and not self._began(name):
            time.sleep(0.1)
        if process.poll() not in (None, 0):
            said = log.read_text(errors="replace").strip().split("\n")[-1].removeprefix("gradveil: ")
            for ending in (LOG, PID):
                self._sidecar(name, ending).unlink()
            raise BadInput(said)

    def _began(self, name: str) -> bool:
        folder = self.root / name
        return (folder / store.PLAN).exists() and store.held(folder)


class _PlanFile:
    """A plan that was typed into the form, as a file for the command line while it reads it."""

    def __init__(self, root: Path, name: str, text: str) -> None:
        self._path, self._text = root / f".{name}.plan.toml", text

    def __enter__(self) -> list[str]:
        if not self._text.strip():
            return []
        store.write(self._path, self._text.encode(), owner_only=True)
        return [str(self._path)]

    def __exit__(self, *error: object) -> None:
        self._path.unlink(missing_ok=True)


def status(run: Evidence, name: str, running: bool) -> dict[str, Any]:
    """Say how a run stands, in numbers and words for the page."""
    last = run.lines[-1] if run.lines else None
    done, seconds = len(run.lines), [line["seconds"] for line in run.lines[-10:]]
    spent = next((line["spent"] for line in reversed(run.lines) if line["spent"] is not None), None)
    finished = run.result is not None and not running
    return {
        "name": name,
        "dataset": Path(run.plan.dataset).name,
        "method": run.method,
        "state": "finished" if finished else ("running" if running else "stopped"),
        "rounds": run.plan.rounds,
        "done": done,
        "accuracy": None if last is None else last["accuracy"],
        "epsilon": None if spent is None or not spent["finite"] else spent["epsilon"],
        "threat_model": run.plan.threat_model,
        "seconds_left": (run.plan.rounds - done) * sum(seconds) / len(seconds) if running and seconds else None,
        "attacks": len(run.attacks),
        "curve": [[line["round"] + 1, line["accuracy"]] for line in run.lines],
    }
