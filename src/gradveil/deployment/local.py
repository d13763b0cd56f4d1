"""A whole federation on this machine: temporary keys, a server, and nodes that hold shards of a dataset."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gradveil import codec
from gradveil.deployment import enrollment
from gradveil.deployment.node import NODE, NodeSettings
from gradveil.deployment.policy import AGGREGATE, Policy
from gradveil.deployment.policy_file import as_toml
from gradveil.engines.flower import credentials, processes
from gradveil.engines.flower.commands import LOOPBACK, SuperLinkConfig, SuperNodeConfig
from gradveil.engines.flower.processes import Crew
from gradveil.runs import store


@dataclass(frozen=True, slots=True)
class Local:
    """A federation on this machine: its processes, and the files and addresses of its server and nodes."""

    crew: Crew
    server: SuperLinkConfig
    nodes: dict[str, SuperNodeConfig]

    def start_node(self, name: str) -> None:
        """Start a node's SuperNode and worker."""
        start_node(self.crew, name, self.nodes[name])


def start_node(crew: Crew, name: str, config: SuperNodeConfig) -> None:
    """Start a SuperNode and its worker."""
    processes.write_secret(config.secret)
    crew.start(f"{name}-supernode", config.supernode())
    crew.start(f"{name}-worker", config.worker())


@contextmanager
def local(
    names: Sequence[str], data: str, policy: Policy, data_dir: str | None = None, sums: bool = False
) -> Iterator[Local]:
    """Prepare a federation in a temporary folder; all its processes are stopped at the end.

    sums: secure sums over exactly these nodes count against `aggregate`.
    """
    with tempfile.TemporaryDirectory(prefix="gradveil-") as scratch:
        folder = Path(scratch)
        with processes.owner_only():
            common = NodeSettings(data=data, state="", policy="", data_dir=data_dir)
            prepared = _prepared(folder, names, common, policy, sums)
        with processes.crew(folder / "logs", folder / "server" / "flwr") as crew:
            yield Local(crew, *prepared)


def _prepared(
    folder: Path, names: Sequence[str], common: NodeSettings, policy: Policy, sums: bool
) -> tuple[SuperLinkConfig, dict[str, SuperNodeConfig]]:
    """Make each node's key in its own folder, and write its settings, the roster and the policy of all."""
    halves = [credentials.make_pair(folder / name, name)[1] for name in names]
    credentials.enroll(folder / "keys", ["localhost", LOOPBACK], enrollment.read_public(halves))
    roster = enrollment.read_roster(folder / "keys" / credentials.ROSTER)
    port, *runtimes = processes.free_ports(1 + len(names))
    server = SuperLinkConfig(folder / "keys", folder / "server", port)
    nodes = {name: _node(folder, name, server, runtime) for name, runtime in zip(names, runtimes, strict=True)}
    rules = folder / "policy.toml"
    trusting = replace(policy, adversary=AGGREGATE, roster=roster.digest) if sums else policy
    store.write(rules, as_toml(trusting).encode())
    for i, node in enumerate(nodes.values()):
        own = {"state": str(node.state), "policy": str(rules), "key": str(node.key)}
        settings = replace(common, **own, shard=f"{i}/{len(names)}")
        store.write_json(node.state / NODE, codec.encode(settings))
        enrollment.pin(node.state, roster, replace=False)
    return server, nodes


def _node(folder: Path, name: str, server: SuperLinkConfig, runtime: int) -> SuperNodeConfig:
    state, authority = folder / name, folder / "keys" / credentials.CA
    return SuperNodeConfig(authority, state / f"{name}.key", state, server.address, runtime)
