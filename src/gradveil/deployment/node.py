"""A node: it holds data, trains clients on order if its policy allows it, and sends nothing but its reply."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import codec, keys
from gradveil.data.dataset import Dataset
from gradveil.data.table_schema import Schema
from gradveil.deployment import node_clients
from gradveil.deployment import policy as policies
from gradveil.deployment.policy import Policy
from gradveil.deployment.spending import Served, Spending
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import canary_rows, server
from gradveil.federation.engine import Engine, Population
from gradveil.federation.ledger import layer_count, numbers_noised
from gradveil.federation.messages import task_for
from gradveil.federation.orders import Array, NodeReply, Order, Refusal, clients_of, columns_of
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.federation.plan_data import data_for
from gradveil.keys import Keys
from gradveil.runs import store

NODE = "node.json"
"""The file in a node's state folder that holds its settings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node is started with.

    data: a dataset's name or a path. policy: its file, without which no node starts. shard: "index/count" of a
    built-in dataset. schema: the file by which the rows of a table are encoded. client: the name of this node where it
    is one client; client_column: the column that names each row's client where it is several. key: the file of the
    private key that signs the node's cards of secure sums.
    """

    data: str
    state: str
    policy: str
    shard: str | None = None
    target: str | None = None
    schema: str | None = None
    client: str | None = None
    client_column: str | None = None
    data_dir: str | None = None
    key: str | None = None

    @property
    def shard_numbers(self) -> tuple[int, int] | None:
        """The shard as (index, count)."""
        if self.shard is None:
            return None
        first, _, second = self.shard.partition("/")
        if not (first.isdigit() and second.isdigit() and int(first) < int(second)):
            raise BadInput(f"shard = {self.shard!r}: must be two numbers such as 0/3, the first below the second")
        return int(first), int(second)

    def load(self) -> Dataset:
        """Load the data."""
        where, schema = (None if path is None else Path(path) for path in (self.data_dir, self.schema))
        names = {"client": self.client, "client_column": self.client_column}
        return node_clients.node_data(self.data, data_dir=where, target=self.target, schema=schema, **names)

    @staticmethod
    def read(path: Path) -> "NodeSettings":
        """Read the settings from JSON."""
        settings: NodeSettings = codec.decode(NodeSettings, store.read_json(path))
        return settings


@dataclass(slots=True)
class Node:
    """A running node. The engine of the last plan is kept between orders."""

    dataset: Dataset
    policy: Policy
    spending: Spending
    shard: tuple[int, int] | None = None
    _engines: dict[tuple[str, int, int, int], tuple[Engine, int]] = field(default_factory=dict)
    _views: dict[str, Dataset] = field(default_factory=dict)

    @staticmethod
    def open(settings: NodeSettings) -> "Node":
        """Load the data and the policy."""
        dataset = settings.load()
        if not dataset.own and settings.shard_numbers is None:
            raise BadInput(f"shard: name the shard of {dataset.name} that this node holds, such as --shard 0/3")
        policy = policies.read(Path(settings.policy))
        return Node(dataset, policy, Spending(Path(settings.state) / "spending.json"), settings.shard_numbers)

    def handle(self, order: Order) -> NodeReply | Refusal:
        """Execute an order, or refuse it. Its privacy cost is written first, so that a crash cannot hide it."""
        if order.plan.secure_sum is not None:
            return Refusal("secure_sum: what this node adds is sent under masks only")
        if (objection := self.objection(order)) is not None:
            return Refusal(objection)
        try:
            engine, copies = self._engine(order)
            self._refuse_planted(order)
        except BadInput as error:
            return Refusal(str(error))
        name, new = self.served(order, copies)
        with store.locked(self.spending.path.parent):
            objection = self.spending.spend(self.policy, name, new, order.t, order.clients.tolist())
        return Refusal(objection) if objection is not None else self._train(engine, order)

    def objection(self, order: Order) -> str | None:
        """Return why an order is refused before anything is computed; None if it is not."""
        return self.policy.objection(order.plan) or _wrong_key(order) or self._mismatch(order) or self._lends_no(order)

    def weights(self, order: Order) -> Any:
        """Return the weights of an order as the model's parameters; BadInput if they do not fit, or are planted."""
        plan, data = order.plan, self._data(order.plan)
        state = server.init(plan, data.shape, len(data.classes), Keys.of(0, secret=False))
        _filled(state.clip_state, order.clip_state)
        self._refuse_planted(order)
        return _filled(state.params, order.params)

    def records(self, order: Order) -> tuple[Array, Array, int]:
        """Return all examples of an order's clients, their labels, and the most copies of a record."""
        population = self._population(order)
        rows = population.rows(order.clients)
        return population.x[rows], population.y[rows], population.copies

    def served(self, order: Order, copies: int) -> tuple[str, Served]:
        """Return under which name an order's plan is accounted, and what it begins with."""
        plan, data = order.plan, self._data(order.plan)
        layers = layer_count(plan, data.shape, len(data.classes))
        numbers = (0,) if plan.secure_sum is None else numbers_noised(plan, data.shape, len(data.classes))
        # Another shard would deal the same rows to other clients, so each is accounted separately, and all add up.
        return f"{codec.digest(plan)} {order.node}/{order.nodes}", Served(plan, layers, copies, {}, numbers)

    def _refuse_planted(self, order: Order) -> None:
        """Refuse weights of round 0 that the plan's seed does not draw, where the policy asks for those."""
        if not self.policy.drawn_weights or order.t > 0:
            return
        plan, data = order.plan, self._data(order.plan)
        drawn = server.init(plan, data.shape, len(data.classes), Keys.of(plan.seed, secret=False)).params
        sent = _filled(drawn, order.params)
        close = jax.tree.map(lambda a, b: bool(jnp.allclose(a, b, rtol=1e-4, atol=1e-6)), drawn, sent)
        if not all(jax.tree.leaves(close)):
            raise BadInput(
                f"weights: those of round 0 are not what seed = {plan.seed} draws, and this node requires that"
            )

    def _data(self, plan: Plan) -> Dataset:
        """Return the data as a plan's model reads them; only the last features are kept."""
        name = "" if plan.features is None else codec.digest(plan.features)
        if name not in self._views:
            self._views.clear()
            self._views[name] = data_for(plan, self.dataset)
        return self._views[name]

    def _mismatch(self, order: Order) -> str | None:
        """Return why an order does not match the data, by names, shapes and clients; None if it does."""
        plan, data = order.plan, self._data(order.plan)
        if not data.own and plan.dataset != data.name:
            return f"dataset = {plan.dataset}: this node holds {data.name}"
        if plan.train_all and not data.own:
            return "train_all: this node holds the training split only"
        if codec.digest(plan.schema) != codec.digest(data.schema):
            return f"schema: {_named(plan.schema)} of the plan is not {_named(data.schema)} of this node"
        if order.columns != columns_of(data):
            return "columns: those of the plan differ from those of this node"
        if (order.shape, order.classes) != (data.shape, data.classes):
            return f"shape = {order.shape}, {len(order.classes)} classes: this node's examples have others"
        if (objection := node_clients.unlike(plan, data)) is not None:
            return objection
        if self.shard is not None and self.shard != (order.node, order.nodes):
            return f"shard = {order.node}/{order.nodes}: this node holds {self.shard[0]}/{self.shard[1]}"
        if not 0 <= order.t < plan.rounds:
            return f"round = {order.t}: must be at least 0 and below rounds = {plan.rounds}"
        valid = (
            len(np.unique(order.clients)) == len(order.clients) and np.isin(order.clients, range(plan.clients)).all()
        )
        named = node_clients.numbers_here(plan, data)
        on_node = (
            np.intersect1d(order.clients, named) if len(named) else clients_of(order.node, order.nodes, order.clients)
        )
        return (
            None
            if valid and len(on_node) == len(order.clients) > 0
            else "clients: must be clients of this node, each once"
        )

    def _lends_no(self, order: Order) -> str | None:
        """Return why this node lends no places to the canaries of an order; None if it does, or if there are none."""
        if not order.canaries:
            return None
        try:
            canary_rows.refuse_unfit(order.plan, order.canaries)
        except BadInput as error:
            return str(error)
        places = int(np.isin(canary_rows.clients_with(order.plan, order.canaries), _here(order)).sum())
        lent = self.policy.audit_canaries
        return None if places <= lent else f"canaries: need the places of {places} records here; this node lends {lent}"

    def _engine(self, order: Order) -> tuple[Engine, int]:
        """Return the engine for a plan and the most copies of a record; only the last engine is kept."""
        name = (codec.digest(order.plan), order.node, order.nodes, order.canaries)
        if name not in self._engines:
            plan, population = order.plan, self._population(order)
            if order.canaries:
                population = canary_rows.inserted(plan, population, order.canaries, _here(order))
                plan = canary_rows.marked_plan(plan, self._data(plan).shape, order.canaries)
            self._engines.clear()
            self._engines[name] = (Vectorized(plan, population), population.copies)
        return self._engines[name]

    def _population(self, order: Order) -> Population:
        plan, data = order.plan, self._data(order.plan)
        if plan.client_names:
            return node_clients.named_population(plan, data)
        return own_population(plan, data, order.node, order.nodes) if data.own else Population.of(plan, data)

    def _train(self, engine: Engine, order: Order) -> NodeReply | Refusal:
        plan, data = order.plan, self._data(order.plan)
        # Only the shapes of this state are used: its weights are replaced by those of the order.
        state = server.init(plan, data.shape, len(data.classes), Keys.of(0, secret=False))
        try:
            params, clip_state = _filled(state.params, order.params), _filled(state.clip_state, order.clip_state)
        except BadInput as error:
            return Refusal(str(error))
        if order.canaries:
            params = (*params, jnp.zeros(order.canaries))
        key = keys.entropy() if plan.noise_source is NoiseSource.SECRET else keys.of_words(*(order.key or (0, 0)))
        reports = engine.train(task_for(plan, order.t, params, clip_state, key), order.clients)
        update, statistics = (
            tuple(map(np.asarray, jax.tree.leaves(tree))) for tree in (reports.update, reports.statistics)
        )
        return NodeReply(update, statistics)


def _here(order: Order) -> Array:
    """Return the clients that this node holds."""
    return clients_of(order.node, order.nodes, np.arange(order.plan.clients))


def _named(schema: Schema | None) -> str:
    return "none" if schema is None else schema.digest()[:12]


def _wrong_key(order: Order) -> str | None:
    """Return why an order's key is wrong: with secret noise the node draws its own, which nobody can subtract."""
    if (order.key is None) == (order.plan.noise_source is NoiseSource.SECRET):
        return None
    return "key: must be absent where the plan's noise is secret, and present where it is seeded"


def own_population(plan: Plan, data: Dataset, node: int, nodes: int) -> Population:
    """Return the population of a node with its own data: each row goes to one client; other clients have none here."""
    clients = clients_of(node, nodes, np.arange(plan.clients))
    needed = len(clients) * plan.client_size
    if needed > len(data.train):
        raise BadInput(
            f"client_size = {plan.client_size}: {len(clients)} clients need {needed} training examples, and this "
            f"node has {len(data.train)}"
        )
    rows = np.random.default_rng([plan.seed, node]).permutation(len(data.train))[:needed].astype(np.int32)
    shards = np.zeros((plan.clients, plan.client_size), np.int32)
    shards[clients] = rows.reshape(len(clients), plan.client_size)
    return Population(data.train.x, data.train.y, shards, 1)


def _filled(like: Any, leaves: tuple[Array, ...]) -> Any:
    """Return the leaves in the structure of a tree; BadInput if they do not fit."""
    expected, structure = jax.tree.flatten(like)
    if [leaf.shape for leaf in expected] != [leaf.shape for leaf in leaves]:
        raise BadInput("the weights or the clip state do not have the shapes of the plan's model")
    if not all(leaf.dtype == np.float32 and np.isfinite(leaf).all() for leaf in leaves):
        raise BadInput("the weights or the clip state are not finite float32 numbers")
    return jax.tree.unflatten(structure, [jnp.asarray(leaf, e.dtype) for leaf, e in zip(leaves, expected, strict=True)])
