"""The runs below a folder: listed, started, stopped and resumed, each in a process of its own."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NoReturn

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.leakage.self_attack import attacked_round
from gradveil.reports.evidence import Evidence, gather
from gradveil.runs import store
from gradveil.web.child import STATUS, ChildOrder, read_status, sidecar
from gradveil.web.own_data import OwnData
from gradveil.web.pace import Paces
from gradveil.web.refusals import Damaged, NoSuchRun, brief, readable
from gradveil.web.run_form import planned
from gradveil.web.special_files import refuse_odd_files
from gradveil.web.status import status, unreadable
from gradveil.web.summaries import Summaries

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
PID = ".process"
LOG = ".log"
PATIENCE = 60.0
"""Seconds that a run may take to lay out its folder or to say what is wrong with its plan."""


@dataclass(frozen=True, slots=True)
class Runs:
    """A folder of runs, and what of the user's own data a page may train on."""

    root: Path
    data: OwnData = field(default_factory=OwnData)
    _summaries: Summaries = field(default_factory=Summaries, compare=False, repr=False)
    _paces: Paces = field(default_factory=Paces, compare=False, repr=False)

    def names(self) -> list[str]:
        """Return the runs by their paths below the folder, the newest first."""
        plans = [p for depth in (f"*/{store.PLAN}", f"*/*/{store.PLAN}") for p in self.root.glob(depth)]
        visible = [p for p in plans if not any(part.startswith(".") for part in p.relative_to(self.root).parts)]
        newest = sorted(visible, key=_changed, reverse=True)
        return [str(p.parent.relative_to(self.root)) for p in newest]

    def folder(self, name: str) -> Path:
        """Return the folder of a run; a path outside the folder of runs, or without a run, is refused."""
        try:
            root = self.root.resolve()
            folder = (root / name).resolve() if name.isprintable() else root
            if root in folder.parents and (folder / store.PLAN).is_file():
                return folder
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
        """Return the status of all runs; one that cannot be read is listed as unreadable."""
        return [self._status_or_unreadable(name) for name in self.names()]

    def _status_or_unreadable(self, name: str) -> dict[str, Any]:
        try:
            return self.status_of(name)
        except (NoSuchRun, Damaged):
            printable = name.encode("utf-8", "backslashreplace").decode()  # names on a disk need not be text
            return unreadable(printable)

    def status_of(self, name: str) -> dict[str, Any]:
        """Return the status of a run."""
        folder = self.folder(name)
        with readable(name):
            run, running = self._summaries.of(folder), self._running(name)
            pace = self._paces.seen(folder, running, len(run.lines), _changed(folder / store.METRICS))
            return status(run, name, running, read_status(self.root / name), pace)

    def start(self, form: Mapping[str, str]) -> str:
        """Start a run as the command line would; its own sentence is raised if it refuses."""
        name = form.get("name", "").strip() or time.strftime("run-%Y%m%d-%H%M%S")
        if not NAME.fullmatch(name):
            raise BadInput(f"name = {brief(name)}: must be letters, digits, dots, - and _, at most 64")
        if (self.root / name).exists():
            raise BadInput(f"name = {name!r}: a run of this name exists already; choose another")
        self._launch(name, ChildOrder(attack=bool(form.get("attack")), plan=planned(form, self.data)[0]))
        return name

    def resume(self, name: str) -> None:
        """Resume a run that was stopped."""
        folder = self.folder(name)
        if self._running(name):
            raise BadInput(f"the run {brief(name)} is already running")
        with readable(name):  # it was to be attacked if it was when it began
            attack = attacked_round(store.read_plan(folder)) in store.watched(folder)
        self._launch(name, ChildOrder(attack=attack))

    def stop(self, name: str) -> None:
        """Stop a run that this page started; what it has done is kept."""
        self.folder(name)
        pid = self._process(name)
        if pid is None:
            raise BadInput(f"the run {brief(name)} is not running, or was not started from this page")
        os.kill(pid, signal.SIGTERM)  # a kill at any moment is safe, and an interrupt may be ignored in the background

    def _running(self, name: str) -> bool:
        """Whether a run is trained, or what this page started for it is still at work: accounting, attacking."""
        return store.is_locked(self.folder(name)) or self._process(name) is not None

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
        return sidecar(self.root / name, ending)

    def _launch(self, name: str, order: ChildOrder) -> None:
        """Start a process that outlives this server; returns once its folder is held, or raises why it ended."""
        self._sidecar(name, STATUS).unlink(missing_ok=True)
        with self._sidecar(name, LOG).open("wb") as errors, TemporaryFile() as stdin:
            stdin.write(json.dumps(codec.encode(order)).encode())
            stdin.seek(0)
            process = subprocess.Popen(
                [sys.executable, "-m", "gradveil.web.child", str(self.root / name)],
                stdin=stdin, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
            )  # fmt: skip
        threading.Thread(target=process.wait, daemon=True).start()  # so that its end leaves no zombie
        self._sidecar(name, PID).write_text(str(process.pid))
        end = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < end and not self._began(name):
            time.sleep(0.1)
        if process.poll() not in (None, 0):
            self._refuse(name, process.poll())

    def _refuse(self, name: str, code: int | None) -> NoReturn:
        """Raise what a process that ended was refused with; without a sentence its log is left to be read."""
        last_status = read_status(self.root / name)
        self._sidecar(name, PID).unlink(missing_ok=True)
        self._sidecar(name, STATUS).unlink(missing_ok=True)
        if last_status is None or last_status.refused is None:
            log = self._sidecar(name, LOG).name
            raise BadInput(f"the run ended before training began (exit code {code}); see {log} in the folder of runs")
        self._sidecar(name, LOG).unlink(missing_ok=True)
        raise BadInput(last_status.refused)

    def _began(self, name: str) -> bool:
        folder = self.root / name
        return (folder / store.PLAN).exists() and store.is_locked(folder)


def process_number(text: str) -> int | None:
    """Read the number of one process; 0 and -1, which a signal takes for many processes, and anything odd are none."""
    return int(text) if re.fullmatch(r"[1-9][0-9]{0,9}", text) else None


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it was taken away since it was found, or is a link to nothing
        return 0.0
