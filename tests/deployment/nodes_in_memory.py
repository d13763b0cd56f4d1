"""A federation without a network: the real server engine and the real nodes, messages handed over in memory."""

from dataclasses import dataclass, field, replace
from functools import cache

import numpy as np
import pytest
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from gradveil.data.dataset import Dataset, Split
from gradveil.data.partition import Iid
from gradveil.deployment.node import Node
from gradveil.deployment.policy import Policy
from gradveil.deployment.spending import Spending
from gradveil.engines.flower import worker
from gradveil.engines.flower.flower_engine import Flower, Roster
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.methods import FED_CDP
from gradveil.models.networks import Mlp

NODES = ("north", "east", "west")
SHAPE, CLASSES = (12,), ("a", "b", "c")


@cache
def data(own=False, rows=130):
    rng = np.random.default_rng(3)

    def split(n):
        y = rng.integers(0, len(CLASSES), n).astype(np.int32)
        return Split((rng.normal(size=(n, *SHAPE)) + y[:, None]).astype(np.float32), y)

    return Dataset("tiny", split(rows), None, split(20), CLASSES, own=own)


@dataclass
class NodeInfo:
    """What the server is told of a node."""

    node_id: int
    name: str


@dataclass
class MemoryGrid(Grid):
    """Hands messages to sites. tamper: changes the reply of a node, by name; None is no reply.

    now: a clock that only looking and listening advance, so that no test waits or depends on the machine.
    """

    sites: dict
    tamper: dict = field(default_factory=dict)
    away: set = field(default_factory=set)
    crossed: list = field(default_factory=list)
    now: float = 0.0
    _replies: dict = field(default_factory=dict)

    run = property(lambda self: None)

    def set_run(self, run):
        raise NotImplementedError

    def create_message(self, *args, **kwargs):
        raise NotImplementedError

    def send_and_receive(self, messages, *, timeout=None):
        raise NotImplementedError

    def get_node_ids(self):
        return [node.node_id for node in self.get_nodes()]

    def get_nodes(self):
        self.now += 1.0
        return [NodeInfo(10 + i, name) for i, name in enumerate(self.sites) if name not in self.away]

    def push_messages(self, messages):
        ids = []
        for message in messages:
            message.metadata.__dict__["_message_id"] = message.object_id
            ids.append(message.object_id)
            name = list(self.sites)[message.metadata.dst_node_id - 10]
            reply = worker.reply(message, self.sites[name].handle)
            reply = self.tamper.get(name, lambda m, r: r)(message, reply)
            self.crossed.append((name, message, reply))
            self._replies[message.object_id] = reply
        return ids

    def pull_messages(self, message_ids):
        self.now += 1.0
        # The last first: replies come in any order.
        return [m for i in reversed(list(message_ids)) if (m := self._replies.pop(i, None)) is not None]


PLAN = Plan(
    dataset="tiny",
    method=FED_CDP,
    clients=9,
    cohort=6,
    rounds=2,
    local_steps=3,
    batch=4,
    client_size=10,
    learning_rate=0.1,
    model=Mlp((6,)),
    partition=Iid(),
    seed=11,
)


@pytest.fixture(autouse=True)
def identity(monkeypatch):
    for name in ("run_id", "node_id", "task_id"):
        setattr(TaskIdentity, name, 1)  # flwr makes no message without it
    for module in ("flower_engine", "posting"):
        monkeypatch.setattr(f"gradveil.engines.flower.{module}.POLL", 0.0)


ANY = Policy(allow_seeded=True, allow_no_guarantee=True)


@pytest.fixture
def federation(tmp_path):
    """Make the engine of a plan over three nodes in memory: engine, grid."""

    def make(plan, policy=ANY, own=False, before=lambda t, cohort: None, dataset=None, **options):
        held = dataset or data(own)
        sites = {
            name: Node(held, policy, Spending(tmp_path / name / "spending.json"), None if own else (i, 3))
            for i, name in enumerate(NODES)
        }
        grid = MemoryGrid(sites)
        roster = Roster(NODES, deadline=10.0, patience=30.0, gathering=5.0)
        return Flower(plan, held, grid, roster, before, clock=lambda: grid.now, **options), grid

    return make


@pytest.fixture
def secret():
    return replace(PLAN, noise_source=NoiseSource.SECRET)


@pytest.fixture
def plan():
    return PLAN


@pytest.fixture
def tiny():
    return data
