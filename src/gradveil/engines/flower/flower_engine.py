"""The engine over Flower: every node trains its clients of the cohort; replies within the deadline are used."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from gradveil.data.dataset import Dataset
from gradveil.data.unequal import owns
from gradveil.engines.flower import wire
from gradveil.engines.flower.node_outcomes import NodeOutcome, missing, outcome_of, remarks_on
from gradveil.engines.flower.posting import GRACE, MESSAGE, POLL
from gradveil.engines.serial import empty
from gradveil.errors import RunFailed
from gradveil.federation import limits
from gradveil.federation.canary_rows import marked_plan, split_off
from gradveil.federation.engine import Population, TooFew
from gradveil.federation.messages import ClientSpec, Report, Reports, RoundTask
from gradveil.federation.orders import Array, NodeReply, Order, clients_of, columns_of
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.privacy.sanitize import ClipMetrics


class Absent(RunFailed):
    """Too few nodes are connected to begin a round."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The nodes of a run by their registered names, in the order of their indices.

    deadline: seconds that a round may take. patience: seconds to wait until enough nodes are connected. gathering:
    seconds to wait for all of them before the first round. holders: the node of each client, where the plan names them.
    """

    names: tuple[str, ...]
    deadline: float = 120.0
    patience: float = 300.0
    gathering: float = 60.0
    holders: tuple[int, ...] | None = None


class Sent(NamedTuple):
    """An order that was sent: Flower's id of its message or what went wrong, and its bytes."""

    key: str
    fault: str
    size: int


@dataclass(slots=True)
class Flower:
    """Trains a cohort over Flower.

    before: called with the round and the cohort before anything is sent. largest: the norm above which an update is
    rejected, whatever limit the plan implies. canaries: how many records of nobody nodes are asked to train on.
    """

    plan: Plan
    dataset: Dataset
    grid: Grid
    roster: Roster
    before: Callable[[int, Array], None] = lambda t, cohort: None
    largest: float = math.inf
    canaries: int = 0
    clock: Callable[[], float] = time.monotonic
    refused: dict[str, str] = field(default_factory=dict)
    all_awaited: bool = False

    @property
    def clients_per_call(self) -> int:
        """One client per node at least; nodes train in parallel."""
        return len(self.roster.names)

    @property
    def executed(self) -> Plan:
        """The plan as nodes execute it, whose model has a coordinate for each canary."""
        return marked_plan(self.plan, self.dataset.shape, self.canaries) if self.canaries else self.plan

    def train(self, task: RoundTask, cohort: Array) -> Reports:
        """Send every node its clients, and collect the replies that come within the deadline."""
        if not self.canaries:
            return self._train(task, cohort)
        beside = task._replace(params=(*task.params, np.zeros(self.canaries, np.float32)))
        return split_off(self.plan, self._train(beside, cohort), self.canaries)

    def _train(self, task: RoundTask, cohort: Array) -> Reports:
        like = self._like(task)
        nodes = len(self.roster.names)
        shards = {index: clients_of(index, nodes, np.sort(cohort), self.roster.holders) for index in range(nodes)}
        assigned = {index: clients for index, clients in shards.items() if len(clients)}
        if not assigned:
            self.before(int(task.t), cohort)  # an attempt all the same, though no client was sampled
            return Reports(np.sort(cohort), *like, {"nodes": remarks_on(self.roster.names, {})})
        online = self._await(assigned, self.plan.minimum_replies(len(cohort)))
        self.before(int(task.t), np.sort(cohort))
        outcomes = self._exchange(assigned, online, task, NodeReply(*map(_leaves, (like.update, like.statistics))))
        return self._combined(assigned, outcomes, like, self.plan.minimum_replies(len(cohort)))

    def _like(self, task: RoundTask) -> Report:
        """Return reports of no clients, whose leaves have the shapes that replies must have."""
        shape = (math.prod(self.dataset.shape) + 1,) if self.canaries else self.dataset.shape
        plan, x = self.executed, np.zeros((1, *shape), np.float32)
        own = owns(plan.sampling, plan.sizes, plan.batch) if plan.client_sizes else None
        no_clients = Population(x, np.zeros(1, np.int32), np.zeros((1, plan.client_size), np.int32), 1, own)
        return empty(ClientSpec.of(plan, int(task.t)), task, no_clients)

    def _await(self, assigned: dict[int, Array], minimum: int) -> dict[int, int]:
        """Wait until nodes with enough of the clients are connected; return their ids by index."""
        started = self.clock()
        end = started + self.roster.patience
        while True:
            connected = self._online()
            online = {index: node for index, node in connected.items() if index in assigned}
            all_connected = len(connected) == len(self.roster.names) or self.clock() - started > self.roster.gathering
            self.all_awaited = self.all_awaited or all_connected
            if self.all_awaited and sum(len(assigned[index]) for index in online) >= minimum:
                return online
            if self.clock() > end or self._hopeless(assigned, minimum):
                raise Absent(self._absence(online))
            time.sleep(POLL)

    def _hopeless(self, assigned: dict[int, Array], minimum: int) -> bool:
        """Whether too few clients remain even if every node connects that did not refuse."""
        names = self.roster.names
        return sum(len(clients) for index, clients in assigned.items() if names[index] not in self.refused) < minimum

    def _absence(self, online: dict[int, int]) -> str:
        refusals = "; ".join(f"{name} refused: {reason}" for name, reason in self.refused.items())
        connected = ", ".join(self.roster.names[index] for index in sorted(online)) or "none"
        return (
            f"too few nodes are connected (of those needed: {connected})"
            + ("" if refusals else f" after {self.roster.patience:g} s")
            + (f"; {refusals}" if refusals else "")
            + "; restart with --resume when they are back"
        )

    def _online(self) -> dict[int, int]:
        """Return the ids of the connected nodes that did not refuse the plan, by index."""
        index = {name: i for i, name in enumerate(self.roster.names)}
        ids = {n.name: n.node_id for n in self.grid.get_nodes() if n.name in index}
        return {index[name]: node for name, node in ids.items() if name not in self.refused}

    def _exchange(
        self, assigned: dict[int, Array], online: dict[int, int], task: RoundTask, like: NodeReply
    ) -> dict[int, NodeOutcome]:
        """Send the orders and wait until all nodes have replied or the deadline is over."""
        started, deadline = self.clock(), self.roster.deadline
        outcomes = {
            index: NodeOutcome(None, self._absent(index), 0.0, 0, 0) for index in assigned if index not in online
        }
        sent = {index: self._send(node, self._order(index, assigned[index], task)) for index, node in online.items()}
        outcomes |= {index: NodeOutcome(None, s.fault, 0.0, s.size, 0) for index, s in sent.items() if s.fault}
        over = False
        while (waiting := [index for index in sent if index not in outcomes]) and not over:
            # Polled once more after the deadline: while the SuperLink was away, Flower may have waited that long.
            over = self.clock() - started >= deadline
            for index in waiting:  # one by one: what a reply says of itself was written by the node
                for reply in self.grid.pull_messages([sent[index].key]):
                    outcome = outcome_of(reply, len(assigned[index]), like, self.clock() - started, sent[index].size)
                    outcomes[index] = self._validated(outcome, assigned[index], task)
            time.sleep(POLL)
        late = {i: NodeOutcome(None, f"no reply within {deadline:g} s", deadline, s.size, 0) for i, s in sent.items()}
        return late | outcomes

    def _send(self, node: int, order: Order) -> Sent:
        """Send one order; it is lost if the SuperLink crashes halfway."""
        content, ttl = wire.pack_order(order), self.roster.deadline + GRACE
        message = Message(content, dst_node_id=node, message_type=MESSAGE, group_id=f"{order.t}", ttl=ttl)
        size = wire.size(content)
        try:
            (key,) = self.grid.push_messages([message])
        except ObjectPushError:
            return Sent("", "the order was lost on its way", size)
        return Sent(key, "", size) if key else Sent("", "Flower did not accept the order", size)

    def _absent(self, index: int) -> str:
        reason = self.refused.get(self.roster.names[index])
        return "not connected" if reason is None else f"refused: {reason}"

    def _order(self, index: int, clients: Array, task: RoundTask) -> Order:
        data = jax.random.key_data(task.key)
        return Order(
            # nodes need not know the server's folders
            plan=replace(self.plan, dataset=Path(self.plan.dataset).name, test=None),
            t=int(task.t),
            clients=clients,
            node=index,
            nodes=len(self.roster.names),
            shape=self.dataset.shape,
            classes=self.dataset.classes,
            columns=columns_of(self.dataset),
            params=_leaves(task.params[:-1] if self.canaries else task.params),
            clip_state=_leaves(task.clip_state),
            key=(int(data[0]), int(data[1])) if self.plan.noise_source is NoiseSource.SEEDED else None,
            canaries=self.canaries,
        )

    def _validated(self, outcome: NodeOutcome, clients: Array, task: RoundTask) -> NodeOutcome:
        """Reject a reply that no honest node sends: one beyond the limits that follow from the plan."""
        if outcome.reply is None:
            return outcome
        t, params, clip_state = int(task.t), task.params, task.clip_state
        plan, sizes = self.executed, self.plan.client_sizes
        of_client = [None if sizes is None else sizes[client] for client in clients]
        limit_of = {n: min(self.largest, limits.update_limit(plan, t, params, clip_state, n)) for n in {*of_client}}
        norms = limits.norms(outcome.reply.update)
        fault = limits.statistics_fault(plan, t, params, clip_state, outcome.reply.statistics)
        for client, size, norm in zip(clients, of_client, norms, strict=True):
            if not norm <= limit_of[size]:
                fault = f"the update of client {client} has norm {norm:.3g}, above the limit {limit_of[size]:.3g}"
        return outcome if fault is None else outcome._replace(reply=None, fault=f"rejected: {fault}")

    def _combined(
        self, assigned: dict[int, Array], outcomes: dict[int, NodeOutcome], like: Report, minimum: int
    ) -> Reports:
        """Combine the replies in the order of client numbers, whatever order they came in."""
        self._remember_refusals(outcomes)
        indices = [index for index in sorted(assigned) if outcomes[index].reply is not None]
        replied = sum(len(assigned[index]) for index in indices)
        if replied < minimum:
            faults = ", ".join(f"{name} {fault}" for name, fault in missing(self.roster.names, outcomes).items())
            raise TooFew(f"{replied} clients replied, and {minimum} must: {faults}")
        clients = np.concatenate([assigned[index] for index in indices])
        replies = [r for index in indices if (r := outcomes[index].reply) is not None]
        order = np.argsort(clients)
        update = _stacked([r.update for r in replies], order, like.update)
        statistics = _stacked([r.statistics for r in replies], order, like.statistics)
        unseen = ClipMetrics(*(np.full(len(clients), np.nan, np.float32) for _ in ClipMetrics._fields))  # type: ignore[arg-type]
        return Reports(clients[order], update, statistics, unseen, {"nodes": remarks_on(self.roster.names, outcomes)})

    def _remember_refusals(self, outcomes: dict[int, NodeOutcome]) -> None:
        for index, outcome in outcomes.items():
            if outcome.fault.startswith("refused: "):
                self.refused[self.roster.names[index]] = outcome.fault.removeprefix("refused: ")


def _leaves(tree: Any) -> tuple[Array, ...]:
    return tuple(np.asarray(leaf) for leaf in jax.tree.leaves(tree))


def _stacked(parts: list[tuple[Array, ...]], order: Array, like: Any) -> Any:
    leaves = [np.concatenate(some)[order] for some in zip(*parts, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)
