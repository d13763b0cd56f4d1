"""The commands of Flower as gradveil starts them: for its own use, and for operators to put under a supervisor."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from gradveil.engines.flower import credentials

LINK = "gradveil"
LOOPBACK = "127.0.0.1"

Command = list[str]


@dataclass(frozen=True, slots=True)
class ServerPlaces:
    """Where a server keeps its things: credentials, its state (database, Flower's home, logs) and its port."""

    keys: Path
    state: Path
    port: int

    @property
    def address(self) -> str:
        """Where the SuperLink listens: on this host alone, since whoever reaches its Control API commands all nodes."""
        return f"{LOOPBACK}:{self.port}"

    def superlink(self) -> Command:
        """Start the SuperLink with TLS and keyed nodes; runs are executed outside of it, so that they survive it."""
        return [
            *("flower-superlink", "--ssl-ca-certfile", str(self.keys / credentials.CA)),
            *("--ssl-certfile", str(self.keys / credentials.SERVER)),
            *("--ssl-keyfile", str(self.keys / credentials.SERVER_KEY)),
            *("--enable-supernode-auth", "--isolation", "process", "--disable-runtime-dependency-installation"),
            *("--superexec-auth-secret-file", str(self.state / "superexec.secret")),
            *("--database", str(self.state / "superlink.db"), "--host", LOOPBACK, "--port", str(self.port)),
        ]

    def superexec(self) -> Command:
        """Start what executes runs."""
        return [
            *("flower-superexec", "--runtime-api-address", self.address),
            *("--root-certificates", str(self.keys / credentials.CA)),
            *("--superexec-auth-secret-file", str(self.state / "superexec.secret")),
        ]

    def register(self, node: str) -> Command:
        """Make a node known by its public key and name."""
        return ["flwr", "supernode", "register", str(self.keys / f"{node}.pub"), LINK, "--name", node]

    def run(self, folder: Path) -> Command:
        """Submit the run whose folder this is."""
        return ["flwr", "run", str(self.state / "app"), LINK, "--run-config", f'folder="{folder}"']

    def configuration(self) -> str:
        """Give Flower's config.toml; without one it would look for a server elsewhere."""
        link = {"address": self.address, "root-certificates": str((self.keys / credentials.CA).resolve())}
        return tomli_w.dumps({"superlink": {"default": LINK, LINK: link}})


@dataclass(frozen=True, slots=True)
class NodePlaces:
    """Where a node keeps its things. server: host:port; runtime: the loopback port of its SuperNode."""

    ca: Path
    key: Path
    state: Path
    server: str
    runtime: int

    @property
    def address(self) -> str:
        """Where the SuperNode's worker finds it."""
        return f"{LOOPBACK}:{self.runtime}"

    def supernode(self) -> Command:
        """Start the SuperNode, which leaves execution to the worker."""
        return [
            *("flower-supernode", "--root-certificates", str(self.ca), "--auth-supernode-private-key", str(self.key)),
            *("--superlink", self.server, "--isolation", "process", "--host", LOOPBACK, "--port", str(self.runtime)),
            *("--superexec-auth-secret-file", str(self.state / "superexec.secret")),
        ]

    def worker(self) -> Command:
        """Start what trains: this installation, whatever app the server sends."""
        return [sys.executable, "-m", "gradveil", "worker", str(self.state), "--runtime", self.address]


def environment(home: Path) -> dict[str, str]:
    """Give the surroundings of Flower's processes: no telemetry, no calls home, no installing, its home in `home`."""
    # Processes start one another by name, so this installation's commands must be found first.
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return {**os.environ, **settings(home), "PATH": path}


def settings(home: Path) -> dict[str, str]:
    """Give the variables that differ from the user's own."""
    return {
        "FLWR_HOME": str(home),
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPERGRID_API_URL": f"http://{LOOPBACK}:9/v1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
        "NO_PROXY": LOOPBACK,
    }
