"""The engine of secure sums over Flower: a roll-call of the nodes, then one exchange a round that all must answer."""

import math
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from flwr.app import RecordDict

from gradveil.aggregation.answering import SumAnswer
from gradveil.aggregation.cards import Introduction
from gradveil.aggregation.collecting import Spoiled, collected
from gradveil.aggregation.ring import Units
from gradveil.data.dataset import Dataset
from gradveil.engines.contributions import RoundSum, key_words
from gradveil.engines.flower import posting, sum_wire
from gradveil.engines.flower.flower_engine import Absent, Roster
from gradveil.engines.flower.posting import Posted, Posting
from gradveil.engines.sum_messages import Introduce, SumOrder, attempt_of
from gradveil.errors import BadInput
from gradveil.federation.engine import TooFew
from gradveil.federation.messages import Reports, RoundTask
from gradveil.federation.orders import Array, Order, Refusal, clients_of, columns_of
from gradveil.federation.plan import Plan
from gradveil.federation.secure_sum import SecureSum

SOON = 25.0
"""Seconds that a later roll-call waits for nodes once enough of them have answered."""


@dataclass(slots=True)
class SummingFlower:
    """Makes the sums of a plan over Flower. Run and serials are those of this process; another begins anew.

    before: called with the round and its clients before anything is sent that is answered with data. faults: why a
    node is not in the sum, by name; refused: those that refused the plan, and are asked no more.
    """

    plan: Plan
    sums: SecureSum
    dataset: Dataset
    posting: Posting
    roster: Roster
    before: Callable[[int, Array], None] = lambda t, cohort: None
    run: str = field(default_factory=lambda: secrets.token_hex(16))
    serial: int = -1
    cards: dict[str, Introduction] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def clients_per_call(self) -> int:
        """Nodes sum in parallel, each over all its clients."""
        return self.plan.clients

    def train(self, task: RoundTask, cohort: Array) -> Reports:
        """Return the sum of all nodes that answered the roll-call; TooFew if one of them does not answer now."""
        one = RoundSum.of(self.plan, int(task.t), task.params, self.dataset.shape)
        if set(self.cards) != self._connected():
            self._roll_call(task)
        cards = tuple(self.cards[name] for name in sorted(self.cards))
        self.before(int(task.t), np.sort(cohort))
        self.serial += 1
        orders = {card.name: self.order_for(card.name, cards, task) for card in cards}
        contents = {name: sum_wire.pack_request(order) for name, order in orders.items()}
        # One that fails spoils the sum, so nobody is waited for after it.
        posted = self.posting.exchange(contents, self.roster.deadline, f"{task.t}", lambda sofar, _: _any_fault(sofar))
        units = self._collected(one, orders, posted)
        clients = np.concatenate([orders[name].order.clients for name in sorted(orders)])
        return one.reports(self.plan, units, np.sort(clients), len(cards), {"nodes": self._remarks(posted)})

    def _connected(self) -> set[str]:
        return set(self.posting.online(self.roster.names)) - set(self.refused)

    def _roll_call(self, task: RoundTask) -> None:
        """Ask all connected nodes for new cards until enough have given one; Absent if they do not in time."""
        started, first = self.posting.clock(), not self.cards and self.serial < 0
        self.cards = {}
        while True:
            asked = self._gathered(started, first)
            introduce = {name: self.introduce(name, task) for name in asked}
            self.cards = self._introduced(introduce, first)
            _refuse_other_rosters(self.cards)
            if len(self.cards) >= self.sums.fewest:
                return
            left = len(self.roster.names) - len(self.refused)
            if self.posting.clock() - started > self.roster.patience or left < self.sums.fewest:
                raise Absent(self._absence())
            time.sleep(posting.POLL)

    def _gathered(self, started: float, first: bool) -> list[str]:
        """Wait until all nodes are connected, or some time has passed and enough are; return who is."""
        gathering = self.roster.gathering if first else 0.0
        while True:
            connected, waited = self._connected(), self.posting.clock() - started
            everyone = len(connected) == len(self.roster.names) - len(self.refused)
            if everyone or waited > self.roster.patience:
                return sorted(connected)
            if waited > gathering and len(connected) >= self.sums.fewest:
                return sorted(connected)
            time.sleep(posting.POLL)

    def _introduced(self, asked: Mapping[str, Introduce], first: bool) -> dict[str, Introduction]:
        def enough(posted: Mapping[str, Posted], seconds: float) -> bool:
            there = sum(p.content is not None for p in posted.values())
            return not first and seconds > SOON and there >= self.sums.fewest

        contents = {name: sum_wire.pack_request(order) for name, order in asked.items()}
        cards = {}
        for name, posted in self.posting.exchange(contents, self.roster.deadline, "roll-call", enough).items():
            read = _read(posted, sum_wire.unpack_card)
            if isinstance(read, Introduction) and (read.name, read.run) == (name, self.run):
                cards[name] = read
                self.faults.pop(name, None)
            elif isinstance(read, Refusal):
                self.refused[name] = self.faults[name] = f"refused: {read.reason}"
            else:
                self.faults[name] = read if isinstance(read, str) else "rejected: the card of another node or run"
        return cards

    def _collected(self, one: RoundSum, orders: Mapping[str, SumOrder], posted: Mapping[str, Posted]) -> Units:
        """Return the sum; TooFew if it was spoiled, after which there is a new roll-call."""
        read = {name: _read(p, sum_wire.unpack_answer) for name, p in posted.items()}
        answers = {name: answer for name, answer in read.items() if isinstance(answer, SumAnswer)}
        for name, answer in read.items():
            if isinstance(answer, Refusal | str):
                self.faults[name] = answer if isinstance(answer, str) else f"refused: {answer.reason}"
        nodes = len(orders)
        attempt = attempt_of(next(iter(orders.values())), one.size)
        records = sum(len(order.order.clients) for order in orders.values()) * self.plan.client_size
        try:
            return collected(attempt, answers, records, one.deviation(nodes) * math.sqrt(nodes))
        except Spoiled as spoiled:
            self.cards = {}
            faults = "; ".join(f"{name} {fault}" for name, fault in sorted(self.faults.items()))
            raise TooFew(f"{spoiled}" + (f" ({faults})" if faults else "")) from None

    def _order(self, name: str, task: RoundTask) -> Order:
        index, nodes = self.roster.names.index(name), len(self.roster.names)
        return Order(
            plan=replace(self.plan, dataset=Path(self.plan.dataset).name),  # nodes need not know the server's folders
            t=int(task.t),
            clients=clients_of(index, nodes, np.arange(self.plan.clients)),
            node=index,
            nodes=nodes,
            shape=self.dataset.shape,
            classes=self.dataset.classes,
            columns=columns_of(self.dataset),
            params=tuple(np.asarray(leaf) for leaf in jax.tree.leaves(task.params)),
            clip_state=tuple(np.asarray(leaf) for leaf in jax.tree.leaves(task.clip_state)),
            key=key_words(self.plan, task),
        )

    def introduce(self, name: str, task: RoundTask) -> Introduce:
        """Return what a node is asked in a roll-call."""
        return Introduce(run=self.run, about=sum_wire.without_weights(self._order(name, task)))

    def order_for(self, name: str, cards: tuple[Introduction, ...], task: RoundTask) -> SumOrder:
        """Return what a node is asked in an attempt."""
        order, within = self._order(name, task), self.roster.deadline
        return SumOrder(run=self.run, serial=self.serial, within=within, cards=cards, order=order)

    def _absence(self) -> str:
        faults = "; ".join(f"{name} {fault}" for name, fault in sorted(self.faults.items()))
        return (
            f"a sum needs {self.sums.fewest} of {self.sums.nodes} nodes, and {len(self.cards)} answered the roll-call"
            + (f" ({faults})" if faults else "")
            + "; restart with --resume when they are back"
        )

    def _remarks(self, posted: Mapping[str, Posted]) -> dict[str, Any]:
        """Return who was missing and why, who was slowest, and the bytes of the exchange."""
        absent = [name for name in self.roster.names if name not in self.cards]
        slowest = max(posted, key=lambda name: posted[name].seconds)
        return {
            "missing": {name: self.faults.get(name, "not connected") for name in absent},
            "slowest": slowest,
            "seconds": {name: round(p.seconds, 3) for name, p in sorted(posted.items())},
            "bytes_down": sum(p.down for p in posted.values()),
            "bytes_up": sum(p.up for p in posted.values()),
        }


def _refuse_other_rosters(cards: Mapping[str, Introduction]) -> None:
    """End the run before anything is spent if nodes know different rosters: they would refuse each other."""
    rosters = {name: card.roster[:8] for name, card in cards.items()}
    if len(set(rosters.values())) > 1:
        pinned = ", ".join(f"{name} {digits}..." for name, digits in sorted(rosters.items()))
        raise Absent(f"roster: the nodes have pinned different ones ({pinned}); all must compare and pin the same")


def _any_fault(posted: Mapping[str, Posted]) -> bool:
    return any(p.fault or (p.content is not None and "refusal" in p.content) for p in posted.values())


def _read(posted: Posted, unpack: Callable[[RecordDict], Any]) -> Any:
    """Return what a node sent, or in words why nothing of it can be used."""
    if posted.content is None:
        return posted.fault
    try:
        return unpack(posted.content)
    except BadInput as error:
        return f"rejected: {error}"
    except Exception as error:  # whatever a node sends, the others go on
        return f"rejected: cannot be read ({type(error).__name__})"
