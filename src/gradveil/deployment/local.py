"""A whole federation on this machine: keys made for the occasion, a server, and nodes that hold parts of a dataset."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from gradveil import codec
from gradveil.deployment.node import NODE, NodeSettings
from gradveil.deployment.policy import Policy
from gradveil.deployment.policy_file import written
from gradveil.engines.flower import credentials, processes
from gradveil.engines.flower.commands import LOOPBACK, NodePlaces, ServerPlaces
from gradveil.engines.flower.processes import Crew
from gradveil.runs import store


@dataclass(frozen=True, slots=True)
class Local:
    """A federation of this machine: its processes, where its server and its nodes are."""

    hands: Crew
    server: ServerPlaces
    nodes: dict[str, NodePlaces]

    def start_node(self, name: str) -> None:
        """Start a node's SuperNode and worker."""
        start_node(self.hands, name, self.nodes[name])


def start_node(hands: Crew, name: str, places: NodePlaces) -> None:
    """Start a SuperNode and its worker."""
    processes.write_secret(places.secret)
    hands.start(f"{name}-supernode", places.supernode())
    hands.start(f"{name}-worker", places.worker())


@contextmanager
def local(names: Sequence[str], data: str, policy: Policy, data_dir: str | None = None) -> Iterator[Local]:
    """Prepare a federation in a scratch folder; everything that was started in it is stopped at the end."""
    with tempfile.TemporaryDirectory(prefix="gradveil-") as scratch:
        place = Path(scratch)
        with processes.owner_only():
            here = _prepared(place, names, NodeSettings(data=data, state="", policy="", data_dir=data_dir), policy)
        with processes.crew(place / "logs", place / "server" / "flwr") as hands:
            yield Local(hands, *here)


def _prepared(
    place: Path, names: Sequence[str], common: NodeSettings, policy: Policy
) -> tuple[ServerPlaces, dict[str, NodePlaces]]:
    """Make keys, and write each node's settings and their common policy."""
    credentials.make(place / "keys", ["localhost", LOOPBACK], names)
    server = ServerPlaces(place / "keys", place / "server", processes.free_port())
    nodes = {name: _node(place, name, server) for name in names}
    rules = place / "policy.toml"
    store.write(rules, written(policy).encode())
    for i, node in enumerate(nodes.values()):
        settings = replace(common, state=str(node.state), policy=str(rules), shard=f"{i}/{len(names)}")
        store.write_json(node.state / NODE, codec.encode(settings))
    return server, nodes


def _node(place: Path, name: str, server: ServerPlaces) -> NodePlaces:
    keys = place / "keys"
    return NodePlaces(keys / credentials.CA, keys / f"{name}.key", place / name, server.address, processes.free_port())
