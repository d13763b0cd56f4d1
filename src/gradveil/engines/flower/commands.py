"""Flower's commands as gradveil starts them, also for operators who run them under a supervisor."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from gradveil.engines.flower import credentials
from gradveil.engines.flower.gate import HEADER

LOOPBACK = "127.0.0.1"

Command = list[str]
_GRADVEIL = (sys.executable, "-m", "gradveil")


@dataclass(frozen=True, slots=True)
class SuperLinkConfig:
    """The files and port of a server: credentials, and its state (database, Flower's home, logs)."""

    keys: Path
    state: Path
    port: int

    @property
    def address(self) -> str:
        """Where the SuperLink listens: on this host alone; a proxy lets nodes in."""
        return f"{LOOPBACK}:{self.port}"

    @property
    def secret(self) -> Path:
        """The file whose content is needed to take a task of a run."""
        return self.state / "superexec.secret"

    @property
    def owner(self) -> Path:
        """The file whose content opens the gate to everything but the nodes' part."""
        return self.state / "owner.secret"

    @property
    def database(self) -> Path:
        """Where the SuperLink keeps its nodes, its runs, and messages on their way."""
        return self.state / "superlink.db"

    def credentials(self) -> dict[str, str]:
        """Return the header that opens the gate."""
        return {HEADER: self.owner.read_bytes().hex()}

    def authority(self) -> bytes:
        """Return the certificate by which the SuperLink is known."""
        return (self.keys / credentials.CA).read_bytes()

    def superlink(self) -> Command:
        """Start the SuperLink behind its gate."""
        return [*_GRADVEIL, "superlink", str(self.keys), str(self.state), "--port", str(self.port)]

    def conductor(self, folder: Path) -> Command:
        """Start what executes the run of a folder: this installation, in a process that survives the SuperLink."""
        return [
            *(*_GRADVEIL, "conductor", str(folder)),
            *("--keys", str(self.keys), "--state", str(self.state), "--port", str(self.port)),
        ]

    def arguments(self) -> Command:
        """Return Flower's settings of the SuperLink: TLS, nodes with keys, and no execution of submitted apps."""
        return [
            *("--ssl-ca-certfile", str(self.keys / credentials.CA)),
            *("--ssl-certfile", str(self.keys / credentials.SERVER)),
            *("--ssl-keyfile", str(self.keys / credentials.SERVER_KEY)),
            *("--enable-supernode-auth", "--isolation", "process", "--disable-runtime-dependency-installation"),
            *("--superexec-auth-secret-file", str(self.secret)),
            *("--database", str(self.database), "--host", LOOPBACK, "--port", str(self.port)),
        ]


@dataclass(frozen=True, slots=True)
class SuperNodeConfig:
    """The files and addresses of a node. server: host:port; runtime: the loopback port of its SuperNode."""

    ca: Path
    key: Path
    state: Path
    server: str
    runtime: int

    @property
    def address(self) -> str:
        """Where the SuperNode's worker finds it."""
        return f"{LOOPBACK}:{self.runtime}"

    @property
    def secret(self) -> Path:
        """The file whose content is needed to take an order from the SuperNode."""
        return self.state / "superexec.secret"

    def supernode(self) -> Command:
        """Start the SuperNode, which leaves execution to the worker."""
        return [
            *("flower-supernode", "--root-certificates", str(self.ca), "--auth-supernode-private-key", str(self.key)),
            *("--superlink", self.server, "--isolation", "process", "--host", LOOPBACK, "--port", str(self.runtime)),
            *("--superexec-auth-secret-file", str(self.secret)),
        ]

    def worker(self) -> Command:
        """Start the worker that trains: this installation, whatever app the server sends."""
        return [*_GRADVEIL, "worker", str(self.state), "--runtime", self.address]


def environment(home: Path) -> dict[str, str]:
    """Return the environment of Flower's processes: no telemetry, no calls home, no installing, its home in `home`."""
    # Processes start one another by name, so this installation's commands must be found first.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return {**os.environ, **settings(home), "PATH": path}


def settings(home: Path) -> dict[str, str]:
    """Return the variables that differ from the user's own."""
    return {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPERGRID_API_URL": f"http://{LOOPBACK}:9/v1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "NO_PROXY": LOOPBACK,
    }
