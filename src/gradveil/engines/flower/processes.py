"""Flower's processes: started in groups of their own, watched, and stopped with all that they started."""

import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

from gradveil.engines.flower import credentials
from gradveil.engines.flower.commands import LOOPBACK, Command, ServerPlaces, environment
from gradveil.errors import RunFailed

GRACE = 5.0
OWNER_ONLY = 0o077
"""The mask under which everything is written: readable by its owner alone."""


# Asks Linux to end a process if its parent is killed outright (PR_SET_PDEATHSIG), then becomes the command. It is done
# in the child's own program, since forking to do it would copy the threads of JAX.
_PROGRAM = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"
_WITH_PARENT = [sys.executable, "-c", _PROGRAM] if sys.platform == "linux" else []


class Failed(RunFailed):
    """A process of Flower did not do what it was started for."""


class Crew:
    """Processes that live and end together; each writes to a log of its own."""

    def __init__(self, logs: Path, home: Path) -> None:
        self._logs, self._home = logs, home
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        with owner_only():
            logs.mkdir(parents=True, exist_ok=True)
            home.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Command) -> subprocess.Popen[bytes]:
        """Start a process in a group of its own, so that it can be stopped with its children.

        Whatever is left of an earlier one of this name is ended first.
        """
        if name in self.processes:
            _end(self.processes[name])
        with owner_only(), self.log(name).open("ab") as log:
            process = subprocess.Popen(
                [*_WITH_PARENT, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(self._home),
                start_new_session=True,
                umask=OWNER_ONLY,
            )
        self.processes[name] = process
        return process

    def log(self, name: str) -> Path:
        """Return the file that a process writes to."""
        return self._logs / f"{name}.log"

    def length(self, name: str) -> int:
        """Return how many bytes a log has."""
        return self.log(name).stat().st_size if self.log(name).exists() else 0

    def said_since(self, name: str, start: int) -> str:
        """Return what a log holds beyond its first `start` bytes."""
        with self.log(name).open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def last_words(self, name: str, lines: int = 3) -> str:
        """Return the last lines of a log as one."""
        said = self.log(name).read_text(errors="replace").split("\n") if self.log(name).exists() else []
        return " ".join(line.strip() for line in [line for line in said if line.strip()][-lines:])

    def stop(self) -> None:
        """End all processes and their children: politely, then not."""
        for process in self.processes.values():
            _signal(process, signal.SIGTERM)
        end = time.monotonic() + GRACE
        for process in self.processes.values():
            _wait(process, max(0.0, end - time.monotonic()))
        for process in self.processes.values():
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a group."""
    _signal(process, signal.SIGKILL)
    process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a whole group, of which the leader may have ended already."""
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


@contextmanager
def crew(logs: Path, home: Path) -> Iterator[Crew]:
    """Return a crew that is stopped whatever happens."""
    hands = Crew(logs, home)
    try:
        yield hands
    finally:
        with _undisturbed():
            hands.stop()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Let a second Ctrl-C not cut short what the first one began; only the main thread may arrange that."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def start_server(hands: Crew, places: ServerPlaces, patience: float = 60.0) -> None:
    """Start the SuperLink; returns when it answers."""
    if healthy(places):
        raise Failed(f"port {places.port}: another server answers there already; stop it or choose another --port")
    hands.start("superlink", places.superlink())
    await_health(hands, places, patience)


def await_health(hands: Crew, places: ServerPlaces, patience: float = 60.0) -> None:
    """Wait until the SuperLink answers over TLS; raises Failed if it ends or stays silent."""
    end = time.monotonic() + patience
    while not healthy(places):
        if hands.processes["superlink"].poll() is not None:
            raise Failed(f"the SuperLink ended: {hands.last_words('superlink')}")
        if time.monotonic() > end:
            raise Failed(f"the SuperLink does not answer after {patience:g} s")
        time.sleep(0.2)


def healthy(places: ServerPlaces) -> bool:
    """Ask the SuperLink whether it is there, as a client that trusts only our CA."""
    trust = ssl.create_default_context(cafile=str(places.keys / credentials.CA))
    link = HTTPSConnection(LOOPBACK, places.port, timeout=2, context=trust)
    try:
        link.request("GET", "/health")
        return link.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        link.close()


def unreachable(server: str, ca: Path) -> str | None:
    """Say why a server (host:port) that must be known by this CA cannot be reached, if so."""
    host, _, port = server.rpartition(":")
    trust = ssl.create_default_context(cafile=str(ca))
    try:
        with (
            socket.create_connection((host, int(port)), timeout=5) as link,
            trust.wrap_socket(link, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return (
            f"the certificate of the server at {server} is not one that the CA in {ca} signed ({error.verify_message})"
        )
    except ssl.SSLError:
        return f"who answers at {server} does not speak TLS"
    except OSError as error:
        return f"nobody answers at {server} ({error.strerror or error})"


@contextmanager
def owner_only() -> Iterator[None]:
    """Let files and folders that are made meanwhile be readable by their owner alone."""
    before = os.umask(OWNER_ONLY)
    try:
        yield
    finally:
        os.umask(before)


def write_secret(path: Path) -> None:
    """Write a new secret for its owner alone, unless there is one."""
    if path.exists():
        return
    with owner_only():
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))


def free_port() -> int:
    """Find a port of this host that is free now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
