"""A node that also takes part in secure sums: its checks, its charge on disk, then its answer under masks."""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gradveil import codec
from gradveil.aggregation.answering import Contribution, SumAnswer, answer
from gradveil.aggregation.cards import Introduction
from gradveil.aggregation.epoch import LEAST_HONEST, Crowd, Epochs, Refused
from gradveil.aggregation.masks import Attempt
from gradveil.aggregation.roster import KeyRoster, Signer
from gradveil.deployment import enrollment
from gradveil.deployment.node import Node, NodeSettings
from gradveil.deployment.policy import Policy
from gradveil.engines.contributions import RoundSum, noise_bytes
from gradveil.engines.sum_messages import Introduce, SumOrder, attempt_of
from gradveil.errors import BadInput
from gradveil.federation.orders import NodeReply, Order, Refusal, clients_of
from gradveil.runs import store

Request = Order | Introduce | SumOrder
Result = NodeReply | Introduction | SumAnswer | Refusal


@dataclass(frozen=True, slots=True)
class Summing:
    """A node and its open runs of secure sums, which live in memory only; None: it takes part in none."""

    node: Node
    epochs: Epochs | None = None

    @staticmethod
    def open(settings: NodeSettings) -> "Summing":
        """Load the data, the policy, and the pinned roster and the key if there are both."""
        node, roster = Node.open(settings), enrollment.pinned(Path(settings.state))
        if roster is None or settings.key is None:
            return Summing(node)
        return Summing(node, epochs_of(node.policy, roster, enrollment.read_signer(Path(settings.key))))

    def handle(self, request: Request) -> Result:
        """Answer what a server asks, or refuse it with one sentence made of public facts."""
        if isinstance(request, Order):
            return self.node.handle(request)
        try:
            return self._introduce(request) if isinstance(request, Introduce) else self._answer(request)
        except (Refused, BadInput) as refused:
            return Refusal(str(refused))

    def _introduce(self, request: Introduce) -> Introduction:
        """Give a new card if all that remains of the plan is allowed and can be afforded; nothing is spent."""
        epochs, order = self._admitted(request.about), request.about
        name, new = self.node.served(order, self.node.records(order)[2])
        left = range(order.t, order.plan.rounds)
        with store.locked(self.node.spending.path.parent):
            refused = self.node.spending.forecast(self.node.policy, name, new, left, order.clients.tolist())
        if refused is not None:
            raise Refused(refused)
        return epochs.introduce(request.run, codec.digest(order.plan))

    def _answer(self, request: SumOrder) -> SumAnswer:
        begun = time.monotonic()
        epochs, order = self._admitted(request.order), request.order
        params, (x, y, copies) = self.node.weights(order), self.node.records(order)
        one = RoundSum.of(order.plan, order.t, params, x.shape[1:])
        if len(request.cards) > one.sums.nodes:
            raise Refused(f"cards: {len(request.cards)} are more than the plan's nodes = {one.sums.nodes}")
        name, new = self.node.served(order, copies)

        def charge(attempt: Attempt) -> None:
            with store.locked(self.node.spending.path.parent):
                spending, policy = self.node.spending, self.node.policy
                refused = spending.spend(policy, name, new, attempt.round, order.clients.tolist())
            if refused is not None:
                raise Refused(refused)

        return answer(
            epochs,
            attempt_of(request, one.size),
            Contribution(multiplier=one.multiplier, records=one.records, compute=lambda: one.added(params, x, y)),
            charge,
            within=request.within,
            begun=begun,
            take=noise_bytes(order.plan, order.key, order.node),
        )

    def _admitted(self, order: Order) -> Epochs:
        """Return the open runs if an order may be for one of them; Refused or BadInput if not."""
        sums = order.plan.secure_sum
        if self.epochs is None:
            raise Refused("roster: this node has pinned none, so it takes part in no secure sum")
        if sums is None or order.nodes != sums.nodes:
            raise Refused("secure_sum: the plan has none, or one of another number of nodes")
        if (objection := self.node.objection(order)) is not None:
            raise Refused(objection)
        if not np.array_equal(order.clients, clients_of(order.node, order.nodes, np.arange(order.plan.clients))):
            raise Refused("clients: a secure sum is over all clients of a node")
        return self.epochs


def epochs_of(policy: Policy, roster: KeyRoster, signer: Signer) -> Epochs:
    """Return a node's open runs, none yet, by its policy; the roster must be the one that the policy names."""
    if policy.roster is not None and policy.roster != roster.digest:
        raise BadInput(f"roster: the policy names {policy.roster}, and this node pinned {roster.digest}")
    fewest = max(policy.tolerated + LEAST_HONEST, math.ceil(2 * len(roster.keys) / 3))
    return Epochs(roster, signer, Crowd(tolerated=policy.tolerated, minimum_nodes=policy.minimum_nodes or fewest))
