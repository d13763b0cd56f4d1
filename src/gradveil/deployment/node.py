"""A node: it holds data, trains clients on order if its policy allows it, and sends nothing but the answer."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import codec, keys
from gradveil.data.dataset import Dataset
from gradveil.data.sources import load
from gradveil.deployment import policy as policies
from gradveil.deployment.policy import Policy
from gradveil.deployment.spending import Served, Spending
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.engine import Engine, Population
from gradveil.federation.ledger import layer_count
from gradveil.federation.messages import task_for
from gradveil.federation.orders import Array, NodeReply, Order, Refusal, columns_of, held_by
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.keys import Keys
from gradveil.runs import store

NODE = "node.json"
"""The file in a node's state folder that holds its settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node is started with.

    data: a dataset's name or a path. policy: its file, without which no node starts. shard: "place/places" of a named
    dataset.
    """

    data: str
    state: str
    policy: str
    shard: str | None = None
    target: str | None = None
    data_dir: str | None = None

    @property
    def place(self) -> tuple[int, int] | None:
        """The shard as two numbers."""
        if self.shard is None:
            return None
        first, _, second = self.shard.partition("/")
        if not (first.isdigit() and second.isdigit() and int(first) < int(second)):
            raise BadInput(f"shard = {self.shard!r}: must be two numbers such as 0/3, the first below the second")
        return int(first), int(second)

    @staticmethod
    def read(path: Path) -> "NodeSettings":
        """Read the settings from JSON."""
        settings: NodeSettings = codec.decode(NodeSettings, store.read_json(path))
        return settings


@dataclass(slots=True)
class Site:
    """A node at work. One plan's engine stays warm between orders."""

    dataset: Dataset
    policy: Policy
    spending: Spending
    place: tuple[int, int] | None = None
    _warm: dict[tuple[str, int, int], tuple[Engine, int]] = field(default_factory=dict)

    @staticmethod
    def open(settings: NodeSettings) -> "Site":
        """Load the data and the policy."""
        where = None if settings.data_dir is None else Path(settings.data_dir)
        dataset = load(settings.data, data_dir=where, target=settings.target)
        if not dataset.own and settings.place is None:
            raise BadInput(f"shard: say which part of {dataset.name} this node holds, such as --shard 0/3")
        policy = policies.read(Path(settings.policy))
        return Site(dataset, policy, Spending(Path(settings.state) / "spending.json"), settings.place)

    def handle(self, order: Order) -> NodeReply | Refusal:
        """Do an order, or say why not. What it gives away is written down first, so a kill cannot hide it."""
        objection = self.policy.objection(order.plan) or _forged(order) or self._misfit(order)
        if objection is not None:
            return Refusal(objection)
        try:
            engine, copies = self._engine(order)
        except BadInput as error:
            return Refusal(str(error))
        layers = layer_count(order.plan, self.dataset.shape, len(self.dataset.classes))
        with store.locked(self.spending.path.parent):
            fresh = Served(order.plan, layers, copies, {})
            # Another place would deal the same rows to other clients, so each place is counted apart, and all add up.
            name = f"{codec.digest(order.plan)} {order.node}/{order.nodes}"
            objection = self.spending.spend(self.policy, name, fresh, order.t, order.clients.tolist())
        return Refusal(objection) if objection is not None else self._train(engine, order)

    def _misfit(self, order: Order) -> str | None:
        """Compare an order with the data: names, shapes, and whether its clients are held here."""
        plan, data = order.plan, self.dataset
        if not data.own and plan.dataset != data.name:
            return f"this node holds {data.name}, and the plan asks for {plan.dataset}"
        if plan.train_all and not data.own:
            return "train_all: this node holds the training split alone"
        if order.columns != columns_of(data):
            return "the plan is made for other columns than these"
        if (order.shape, order.classes) != (data.shape, data.classes):
            return (
                f"the plan is made for examples of shape {order.shape} in {len(order.classes)} classes, not for these"
            )
        if self.place is not None and self.place != (order.node, order.nodes):
            return f"this node holds part {self.place[0]} of {self.place[1]}, not {order.node} of {order.nodes}"
        if not 0 <= order.t < plan.rounds:
            return f"round {order.t} is none of the plan's {plan.rounds}"
        known = (
            len(np.unique(order.clients)) == len(order.clients) and np.isin(order.clients, range(plan.clients)).all()
        )
        here = held_by(order.node, order.nodes, order.clients)
        return (
            None if known and len(here) == len(order.clients) > 0 else "clients were asked for that are not held here"
        )

    def _engine(self, order: Order) -> tuple[Engine, int]:
        """Return the engine for a plan and the most copies of a record; the last one is kept."""
        name = (codec.digest(order.plan), order.node, order.nodes)
        if name not in self._warm:
            population = self._population(order)
            self._warm.clear()
            self._warm[name] = (Vectorized(order.plan, population), population.copies)
        return self._warm[name]

    def _population(self, order: Order) -> Population:
        plan, data = order.plan, self.dataset
        return own_population(plan, data, order.node, order.nodes) if data.own else Population.of(plan, data)

    def _train(self, engine: Engine, order: Order) -> NodeReply | Refusal:
        plan, data = order.plan, self.dataset
        # Only shapes are taken from this state: its weights are replaced by those of the order.
        state = server.init(plan, data.shape, len(data.classes), Keys.of(0, secret=False))
        try:
            params, clip_state = _filled(state.params, order.params), _filled(state.clip_state, order.clip_state)
        except BadInput as error:
            return Refusal(str(error))
        key = keys.entropy() if plan.noise_source is NoiseSource.SECRET else keys.of_words(*(order.key or (0, 0)))
        reports = engine.train(task_for(plan, order.t, params, clip_state, key), order.clients)
        update, note = (tuple(map(np.asarray, jax.tree.leaves(tree))) for tree in (reports.update, reports.statistics))
        return NodeReply(update, note)


def _forged(order: Order) -> str | None:
    """Say if a key came where the node must draw its own, or none where it must not: who sent it knows the noise."""
    if (order.key is None) == (order.plan.noise_source is NoiseSource.SECRET):
        return None
    return "the order brings a key where the plan's noise is secret, or none where it is seeded"


def own_population(plan: Plan, data: Dataset, place: int, places: int) -> Population:
    """Divide a node's own rows among the clients that it holds, no row twice; other clients hold nothing here."""
    clients = held_by(place, places, np.arange(plan.clients))
    needed = len(clients) * plan.client_size
    if needed > len(data.train):
        raise BadInput(
            f"{len(clients)} clients of {plan.client_size} examples each need {needed}, and this node has "
            f"{len(data.train)} to train on"
        )
    rows = np.random.default_rng([plan.seed, place]).permutation(len(data.train))[:needed].astype(np.int32)
    shards = np.zeros((plan.clients, plan.client_size), np.int32)
    shards[clients] = rows.reshape(len(clients), plan.client_size)
    return Population(data.train.x, data.train.y, shards, 1)


def _filled(like: Any, leaves: tuple[Array, ...]) -> Any:
    """Put leaves into the shape of a tree."""
    expected, structure = jax.tree.flatten(like)
    if [leaf.shape for leaf in expected] != [leaf.shape for leaf in leaves]:
        raise BadInput("the weights that were sent do not fit the plan's model")
    if not all(leaf.dtype == np.float32 and np.isfinite(leaf).all() for leaf in leaves):
        raise BadInput("the weights that were sent are not finite float32 numbers")
    return jax.tree.unflatten(structure, [jnp.asarray(leaf, e.dtype) for leaf, e in zip(leaves, expected, strict=True)])
