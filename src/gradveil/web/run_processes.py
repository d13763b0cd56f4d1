"""The runs below a folder: found, told about, started, stopped and taken up again, each in a process of its own."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradveil.data.sources import describe
from gradveil.errors import BadInput
from gradveil.leakage.self_attack import ROUND
from gradveil.reports.evidence import Evidence, gather
from gradveil.runs import store
from gradveil.web.refusals import Damaged, NoSuchRun, brief, readable
from gradveil.web.special_files import refuse_odd_files
from gradveil.web.status import status

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
USUAL = {"dataset": "digits", "method": "fed-cdp"}


@dataclass(frozen=True, slots=True)
class Runs:
    """A folder of runs."""

    root: Path

    def names(self) -> list[str]:
        """Return the runs by their paths below the folder, the newest first."""
        plans = [p for depth in (f"*/{store.PLAN}", f"*/*/{store.PLAN}") for p in self.root.glob(depth)]
        seen = [p for p in plans if not any(part.startswith(".") for part in p.relative_to(self.root).parts)]
        newest = sorted(seen, key=_changed, reverse=True)
        return [str(p.parent.relative_to(self.root)) for p in newest]

    def folder(self, name: str) -> Path:
        """Return the folder of a run; whatever lies elsewhere, or is none, is refused."""
        try:
            root = self.root.resolve()
            place = (root / name).resolve() if name.isprintable() else root
            if root in place.parents and (place / store.PLAN).is_file():
                return place
        except (OSError, RuntimeError):  # a name that is too long, links in a circle
            pass
        raise NoSuchRun(f"there is no run {brief(name)}")

    def evidence(self, name: str) -> Evidence:
        """Read a run."""
        folder = self.folder(name)
        with readable(name):
            refuse_odd_files(folder)
            return gather(folder)

    def listed(self) -> list[dict[str, Any]]:
        """Tell of all runs; one that cannot be read is listed as such and hides no other."""
        return [self._told_or_not(name) for name in self.names()]

    def _told_or_not(self, name: str) -> dict[str, Any]:
        try:
            return self.told(name)
        except (NoSuchRun, Damaged):
            shown = name.encode("utf-8", "backslashreplace").decode()  # names on a disk need not be text
            nothing = {"dataset": "", "method": "", "done": 0, "rounds": 0, "accuracy": None, "epsilon": ""}
            return {"name": shown, "state": "unreadable", **nothing}

    def told(self, name: str) -> dict[str, Any]:
        """Tell how a run stands."""
        run = self.evidence(name)
        with readable(name):
            return status(run, name, self._running(name))

    def start(self, wanted: Mapping[str, str]) -> str:
        """Start a run as the command line would; its own sentence is raised if it refuses."""
        name = wanted.get("name", "").strip() or time.strftime("run-%Y%m%d-%H%M%S")
        if not NAME.fullmatch(name):
            raise BadInput(f"name = {brief(name)}: must be letters, digits, dots, - and _, at most 64")
        if (self.root / name).exists():
            raise BadInput(f"name = {name!r}: is taken")
        self._refuse_paths(wanted)
        wanted = {**wanted, "dataset": wanted.get("dataset", "")}
        if not wanted.get("plan", "").strip():  # without a plan, nothing said would mean the demonstration
            wanted |= {key: wanted.get(key, "").strip() or usual for key, usual in USUAL.items()}
        given = [part for key in OPTIONS if wanted.get(key, "").strip() for part in (f"--{key}", wanted[key].strip())]
        attack = ["--attack"] if wanted.get("attack") else ["--no-attack"]
        with _PlanFile(self.root, name, wanted.get("plan", "")) as plan:
            self._launch(name, ["run", *plan, *given, *attack, "--json", "--out", str(self.root / name)])
        return name

    def _refuse_paths(self, wanted: Mapping[str, str]) -> None:
        """Let a form name built-in datasets only: whoever may start a run here must not read any file by it."""
        try:
            typed = tomllib.loads(wanted.get("plan", "")).get("dataset", "")
        except RecursionError:
            raise BadInput("plan: is nested too deeply") from None
        except ValueError as error:  # broken, or a number of too many digits
            raise BadInput(f"plan: is not TOML ({error})") from None
        for given in (wanted.get("dataset", "").strip(), typed):
            if given and given not in [source.name for source in describe()]:
                raise BadInput(f"dataset = {brief(given)}: a page can only start runs on built-in datasets")
        for key, value in wanted.items():
            if not (value if key != "plan" else "".join(value.split())).isprintable():
                raise BadInput(f"{brief(key)}: holds letters that cannot be printed")

    def resume(self, name: str) -> None:
        """Go on with a run that was stopped."""
        folder = self.folder(name)
        if self._running(name):
            raise BadInput("it is running already")
        with readable(name):  # it was to be attacked if it was when it began
            attack = ["--attack"] if ROUND in store.watched(folder) else []
        self._launch(name, ["run", "--resume", *attack, "--json", "--out", str(folder)])

    def stop(self, name: str) -> None:
        """Stop a run that this page started; what it has done is kept."""
        self.folder(name)
        pid = self._process(name)
        if pid is None:
            raise BadInput("it is not running, or was started elsewhere")
        os.kill(pid, signal.SIGTERM)  # a kill at any moment is safe, and an interrupt may be ignored in the background

    def _running(self, name: str) -> bool:
        """Whether a run is trained, or what this page started for it is still at work: accounting, attacking."""
        return store.held(self.folder(name)) or self._process(name) is not None

    def _process(self, name: str) -> int | None:
        """Return the process that this page, or one before it, started for a run, while it lives."""
        record = self._sidecar(name, PID)
        pid = process_number(record.read_text(errors="replace") if record.is_file() else "")
        if pid is None:
            return None
        try:
            os.kill(pid, 0)
        except (OSError, OverflowError):
            return None
        line = Path(f"/proc/{pid}/cmdline")  # another process may have the number by now
        ours = not line.exists() or str(self.root / name).encode() in line.read_bytes()
        return pid if ours else None

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
            raise BadInput(said or f"the run ended before it began (exit code {process.poll()})")

    def _began(self, name: str) -> bool:
        folder = self.root / name
        return (folder / store.PLAN).exists() and store.held(folder)


def process_number(text: str) -> int | None:
    """Read the number of one process; 0 and -1, which a signal takes for many processes, and anything odd are none."""
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,9}", text) else None


def _changed(plan: Path) -> float:
    try:
        return plan.stat().st_mtime
    except OSError:  # it was taken away since it was found, or is a link to nothing
        return 0.0


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
