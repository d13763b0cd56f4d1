"""The engine over Flower: every node trains its share of the cohort, and whoever answers in time counts."""

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
from gradveil.engines.flower import wire
from gradveil.engines.serial import empty
from gradveil.errors import BadInput, RunFailed
from gradveil.federation import limits
from gradveil.federation.engine import Population, TooFew
from gradveil.federation.messages import ClientSpec, Report, Reports, RoundTask
from gradveil.federation.orders import Array, NodeReply, Order, Refusal, columns_of, held_by
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.privacy.sanitize import ClipMetrics

POLL = 0.3
MESSAGE = "train"
GRACE = 25.0
"""Seconds that an answer stays valid after the deadline: Flower waits up to 20 before it asks a SuperLink again."""


class Absent(RunFailed):
    """Too few nodes are there to begin a round."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The nodes of a run by their registered names, in the order of their indices.

    deadline: seconds that a round may take. patience: seconds to wait for enough nodes to be there. gathering: seconds
    to wait for all of them before the first round.
    """

    names: tuple[str, ...]
    deadline: float = 120.0
    patience: float = 300.0
    gathering: float = 60.0


class Sent(NamedTuple):
    """An order on its way: Flower's id of its message or what went wrong, and its bytes."""

    key: str
    fault: str
    size: int


class Heard(NamedTuple):
    """What came of one node's order: its answer or why there is none, after how long, and the bytes both ways."""

    answer: NodeReply | None
    fault: str
    seconds: float
    down: int
    up: int


@dataclass(slots=True)
class Flower:
    """Trains a cohort over Flower.

    before: is called with the round and the cohort before anything is sent. largest: the norm beyond which an update is
    refused, whatever the plan implies.
    """

    plan: Plan
    dataset: Dataset
    grid: Grid
    roster: Roster
    before: Callable[[int, Array], None] = lambda t, cohort: None
    largest: float = math.inf
    clock: Callable[[], float] = time.monotonic
    refused: dict[str, str] = field(default_factory=dict)
    gathered: bool = False

    @property
    def at_once(self) -> int:
        """Nodes train side by side, each a client or more."""
        return len(self.roster.names)

    def train(self, task: RoundTask, cohort: Array) -> Reports:
        """Send every node its share, and gather what comes within the deadline."""
        like = self._like(task)
        indices = {index: held_by(index, len(self.roster.names), np.sort(cohort)) for index in range(self.at_once)}
        asked = {index: clients for index, clients in indices.items() if len(clients)}
        if not asked:
            self.before(int(task.t), cohort)  # an attempt all the same, though nobody was drawn
            return Reports(np.sort(cohort), *like, {"nodes": _told(self.roster, {})})
        online = self._await(asked, self.plan.fewest(len(cohort)))
        self.before(int(task.t), np.sort(cohort))
        heard = self._exchange(asked, online, task, NodeReply(*map(_leaves, (like.update, like.statistics))))
        return self._gathered(asked, heard, like, self.plan.fewest(len(cohort)))

    def _like(self, task: RoundTask) -> Report:
        """Return reports of nobody, whose leaves have the shapes that answers must have."""
        x = np.zeros((1, *self.dataset.shape), np.float32)
        nobody = Population(x, np.zeros(1, np.int32), np.zeros((1, self.plan.client_size), np.int32), 1)
        return empty(ClientSpec.of(self.plan), task, nobody)

    def _await(self, asked: dict[int, Array], fewest: int) -> dict[int, int]:
        """Wait until nodes with enough of the clients are there; gives their ids by index."""
        began = self.clock()
        end = began + self.roster.patience
        while True:
            there = self._online()
            online = {index: node for index, node in there.items() if index in asked}
            all_here = len(there) == len(self.roster.names) or self.clock() - began > self.roster.gathering
            self.gathered = self.gathered or all_here
            if self.gathered and sum(len(asked[index]) for index in online) >= fewest:
                return online
            if self.clock() > end or self._hopeless(asked, fewest):
                raise Absent(self._absence(online))
            time.sleep(POLL)

    def _hopeless(self, asked: dict[int, Array], fewest: int) -> bool:
        """Whether too few clients would be there even if every node came that did not refuse."""
        names = self.roster.names
        return sum(len(clients) for index, clients in asked.items() if names[index] not in self.refused) < fewest

    def _absence(self, online: dict[int, int]) -> str:
        refusals = "; ".join(f"{name} refused: {reason}" for name, reason in self.refused.items())
        there = ", ".join(self.roster.names[index] for index in sorted(online)) or "none"
        return (
            f"too few nodes are there (of those that were needed: {there})"
            + ("" if refusals else f" after {self.roster.patience:g} s")
            + (f"; {refusals}" if refusals else "")
            + "; go on with --resume when they are back"
        )

    def _online(self) -> dict[int, int]:
        """Return the ids of the nodes that are there and did not refuse the plan, by index."""
        index = {name: i for i, name in enumerate(self.roster.names)}
        found = {n.name: n.node_id for n in self.grid.get_nodes() if n.name in index}
        return {index[name]: node for name, node in found.items() if name not in self.refused}

    def _exchange(
        self, asked: dict[int, Array], online: dict[int, int], task: RoundTask, like: NodeReply
    ) -> dict[int, Heard]:
        """Send the orders and listen until all have answered or the time is over."""
        began, deadline = self.clock(), self.roster.deadline
        heard = {index: Heard(None, self._absent(index), 0.0, 0, 0) for index in asked if index not in online}
        sent = {index: self._send(node, self._order(index, asked[index], task)) for index, node in online.items()}
        heard |= {index: Heard(None, s.fault, 0.0, s.size, 0) for index, s in sent.items() if s.fault}
        over = False
        while (waiting := [index for index in sent if index not in heard]) and not over:
            # Listened to once more after the deadline: while the SuperLink was away, Flower may have waited that long.
            over = self.clock() - began >= deadline
            for index in waiting:  # one by one: what a reply says of itself was written by the node
                for reply in self.grid.pull_messages([sent[index].key]):
                    one = self._hear(reply, len(asked[index]), like, self.clock() - began, sent[index].size)
                    heard[index] = self._judged(one, asked[index], task)
            time.sleep(POLL)
        late = {p: Heard(None, f"no answer within {deadline:g} s", deadline, s.size, 0) for p, s in sent.items()}
        return late | heard

    def _send(self, node: int, order: Order) -> Sent:
        """Send one order. A SuperLink that is killed in the middle of it takes the rest no more: then it is lost."""
        content, ttl = wire.pack_order(order), self.roster.deadline + GRACE
        message = Message(content, dst_node_id=node, message_type=MESSAGE, group_id=f"{order.t}", ttl=ttl)
        size = wire.size(content)
        try:
            (key,) = self.grid.push_messages([message])
        except ObjectPushError:
            return Sent("", "the order was lost on its way", size)
        return Sent(key, "", size) if key else Sent("", "the order was not taken by Flower", size)

    def _absent(self, index: int) -> str:
        reason = self.refused.get(self.roster.names[index])
        return "not connected" if reason is None else f"refused: {reason}"

    def _order(self, index: int, clients: Array, task: RoundTask) -> Order:
        data = jax.random.key_data(task.key)
        return Order(
            plan=replace(self.plan, dataset=Path(self.plan.dataset).name),  # where it lies here is nobody's business
            t=int(task.t),
            clients=clients,
            node=index,
            nodes=len(self.roster.names),
            shape=self.dataset.shape,
            classes=self.dataset.classes,
            columns=columns_of(self.dataset),
            params=_leaves(task.params),
            clip_state=_leaves(task.clip_state),
            key=(int(data[0]), int(data[1])) if self.plan.noise_source is NoiseSource.SEEDED else None,
        )

    def _hear(self, reply: Message, clients: int, like: NodeReply, seconds: float, down: int) -> Heard:
        if reply.has_error():
            return Heard(None, f"Flower error {reply.error.code}", seconds, down, 0)
        up = 0
        try:
            up = wire.size(reply.content)
            answer = wire.unpack_answer(reply.content, like, clients)
        except BadInput as error:
            return Heard(None, f"rejected: {error}", seconds, down, up)
        except Exception as error:  # whatever a node sends, the others go on
            return Heard(None, f"rejected: cannot be read ({type(error).__name__})", seconds, down, up)
        if isinstance(answer, Refusal):
            return Heard(None, f"refused: {answer.reason}", seconds, down, up)
        return Heard(answer, "", seconds, down, up)

    def _judged(self, one: Heard, clients: Array, task: RoundTask) -> Heard:
        """Reject an answer that no honest node gives: one beyond what the plan lets a client send."""
        if one.answer is None:
            return one
        t, params, clip_state = int(task.t), task.params, task.clip_state
        limit = min(self.largest, limits.update_limit(self.plan, t, params, clip_state))
        norms = limits.norms(one.answer.update)
        fault = limits.statistics_fault(self.plan, t, params, clip_state, one.answer.statistics)
        if (norms > limit).any():
            worst = int(np.argmax(norms))
            fault = f"the update of client {clients[worst]} has norm {norms[worst]:.3g}, beyond the limit {limit:.3g}"
        return one if fault is None else one._replace(answer=None, fault=f"rejected: {fault}")

    def _gathered(self, asked: dict[int, Array], heard: dict[int, Heard], like: Report, fewest: int) -> Reports:
        """Put the answers together in the order of client numbers, whatever order they came in."""
        self._remember_refusals(heard)
        indices = [index for index in sorted(asked) if heard[index].answer is not None]
        answered = sum(len(asked[index]) for index in indices)
        if answered < fewest:
            raise TooFew(f"{answered} clients answered, and {fewest} must: {_faults(self.roster, heard)}")
        clients = np.concatenate([asked[index] for index in indices])
        answers = [a for index in indices if (a := heard[index].answer) is not None]
        order = np.argsort(clients)
        update = _stacked([a.update for a in answers], order, like.update)
        statistics = _stacked([a.statistics for a in answers], order, like.statistics)
        unseen = ClipMetrics(*(np.full(len(clients), np.nan, np.float32) for _ in ClipMetrics._fields))  # type: ignore[arg-type]
        return Reports(clients[order], update, statistics, unseen, {"nodes": _told(self.roster, heard)})

    def _remember_refusals(self, heard: dict[int, Heard]) -> None:
        for index, one in heard.items():
            if one.fault.startswith("refused: "):
                self.refused[self.roster.names[index]] = one.fault.removeprefix("refused: ")


def _leaves(tree: Any) -> tuple[Array, ...]:
    return tuple(np.asarray(leaf) for leaf in jax.tree.leaves(tree))


def _stacked(parts: list[tuple[Array, ...]], order: Array, like: Any) -> Any:
    leaves = [np.concatenate(some)[order] for some in zip(*parts, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _faults(roster: Roster, heard: dict[int, Heard]) -> str:
    return ", ".join(f"{roster.names[index]} {one.fault}" for index, one in sorted(heard.items()) if one.fault)


def _told(roster: Roster, heard: dict[int, Heard]) -> dict[str, Any]:
    """Tell who was missing and why, who was slowest, and what crossed the network."""
    answered = {index: one for index, one in heard.items() if one.answer is not None}
    slowest = max(answered, key=lambda index: answered[index].seconds, default=None)
    return {
        "missing": {roster.names[index]: one.fault for index, one in sorted(heard.items()) if one.fault},
        "slowest": None if slowest is None else roster.names[slowest],
        "seconds": {roster.names[index]: round(one.seconds, 3) for index, one in sorted(answered.items())},
        "bytes_down": sum(one.down for one in heard.values()),
        "bytes_up": sum(one.up for one in heard.values()),
    }
