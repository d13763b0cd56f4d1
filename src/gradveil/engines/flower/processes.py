"""Flower's processes: started in process groups, watched, and stopped together with their children."""

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
from contextlib import ExitStack, contextmanager
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

from gradveil.engines.flower import credentials
from gradveil.engines.flower.commands import LOOPBACK, Command, SuperLinkConfig, environment
from gradveil.errors import RunFailed

GRACE = 5.0
PORTS = range(10240, 32768)
"""Ports that a local federation takes for itself."""
OWNER_ONLY = 0o077
"""The mask under which everything is written: readable by its owner alone."""


# Asks Linux to end a process if its parent is killed outright (PR_SET_PDEATHSIG), then becomes the command. It is done
# in the child's own program, since forking to do it would copy the threads of JAX.
_PROGRAM = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"
_WITH_PARENT = [sys.executable, "-c", _PROGRAM] if sys.platform == "linux" else []


class Failed(RunFailed):
    """A process of Flower ended or does not respond."""


class Crew:
    """Processes that live and end together; each writes to a log of its own."""

    def __init__(self, logs: Path, home: Path) -> None:
        self._logs, self._home = logs, home
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        with owner_only():
            logs.mkdir(parents=True, exist_ok=True)
            home.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Command) -> subprocess.Popen[bytes]:
        """Start a process in its own group, so that it can be stopped with its children.

        An earlier one of this name is stopped first.
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
        """Return the length of a log in bytes."""
        return self.log(name).stat().st_size if self.log(name).exists() else 0

    def log_since(self, name: str, start: int) -> str:
        """Return a log without its first `start` bytes."""
        with self.log(name).open("rb") as log:
            log.seek(start)
            return log.read().decode(errors="replace")

    def last_lines(self, name: str, lines: int = 3) -> str:
        """Return the last lines of a log, joined to one."""
        log_lines = self.log(name).read_text(errors="replace").split("\n") if self.log(name).exists() else []
        return " ".join(line.strip() for line in [line for line in log_lines if line.strip()][-lines:])

    def stop(self) -> None:
        """Stop all processes and their children: by SIGTERM, then by SIGKILL."""
        for process in self.processes.values():
            _signal(process, signal.SIGTERM)
        end = time.monotonic() + GRACE
        for process in self.processes.values():
            _wait(process, max(0.0, end - time.monotonic()))
        for process in self.processes.values():
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill what is left of a process group."""
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
    """Yield a crew that is stopped whatever happens."""
    group = Crew(logs, home)
    try:
        yield group
    finally:
        with _undisturbed():
            group.stop()


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Ignore a second Ctrl-C while the first is handled; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def start_server(crew: Crew, config: SuperLinkConfig, patience: float = 60.0) -> None:
    """Start the SuperLink, and return when it responds."""
    if healthy(config):
        raise Failed(f"port {config.port}: another server uses it already; stop it or choose another --port")
    crew.start("superlink", config.superlink())
    await_health(crew, config, patience)


def await_health(crew: Crew, config: SuperLinkConfig, patience: float = 60.0) -> None:
    """Wait until the SuperLink responds over TLS; Failed if it ends or does not."""
    end = time.monotonic() + patience
    while not healthy(config):
        if crew.processes["superlink"].poll() is not None:
            raise Failed(f"the SuperLink ended: {crew.last_lines('superlink')}")
        if time.monotonic() > end:
            raise Failed(f"the SuperLink did not respond within {patience:g} s")
        time.sleep(0.2)


def healthy(config: SuperLinkConfig) -> bool:
    """Whether the SuperLink responds to a client that trusts only our CA."""
    trust = ssl.create_default_context(cafile=str(config.keys / credentials.CA))
    link = HTTPSConnection(LOOPBACK, config.port, timeout=2, context=trust)
    try:
        link.request("GET", "/health")
        return link.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        link.close()


def unreachable(server: str, ca: Path) -> str | None:
    """Return why a server (host:port) with a certificate of this CA cannot be reached; None if it can."""
    host, _, port = server.rpartition(":")
    trust = ssl.create_default_context(cafile=str(ca))
    try:
        with (
            socket.create_connection((host, int(port)), timeout=5) as link,
            trust.wrap_socket(link, server_hostname=host),
        ):
            return None
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of the server at {server} was not signed by the CA in {ca} ({error.verify_message})"
    except ssl.SSLError:
        return f"the server at {server} does not use TLS"
    except OSError as error:
        return f"no server responds at {server} ({error.strerror or error})"


@contextmanager
def owner_only() -> Iterator[None]:
    """Create files and folders readable by their owner alone, within the block."""
    before = os.umask(OWNER_ONLY)
    try:
        yield
    finally:
        os.umask(before)


def write_secret(path: Path) -> None:
    """Write a new secret, readable by its owner alone, unless the file exists."""
    if path.exists():
        return
    with owner_only():
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(secrets.token_bytes(32))


def free_ports(count: int) -> tuple[int, ...]:
    """Return different ports of this host that are free now.

    They lie below the range from which Linux takes the ports of outgoing connections, so that no connection takes one
    before it is used; all are bound at once, so that none is chosen twice.
    """
    with ExitStack() as stack:
        return tuple(_bound(stack.enter_context(socket.socket())) for _ in range(count))


def _bound(probe: socket.socket) -> int:
    """Bind a socket to a port drawn at random until one is free, and return the port."""
    for _ in range(1000):
        port = PORTS.start + secrets.randbelow(len(PORTS))
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            continue
        return port
    raise Failed(f"no free port between {PORTS.start} and {PORTS.stop - 1} was found")
