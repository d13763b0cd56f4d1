"""What a server asks of the nodes of a secure sum: their cards, once a run, and their answer, once a round."""

import hashlib
from dataclasses import dataclass

import numpy as np

from gradveil import codec
from gradveil.aggregation.cards import Introduction
from gradveil.aggregation.masks import Attempt, state_digest
from gradveil.aggregation.roster import canonical
from gradveil.errors import BadInput
from gradveil.federation.orders import Order


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Introduce:
    """Ask a node for its card of a run. about: the order of the next round, without weights."""

    run: str
    about: Order


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SumOrder:
    """Ask a node for its part of a sum.

    order: the round, over all clients that the node holds. serial: grows with every attempt of a run. within: seconds
    after which the node sends nothing. cards: of all nodes of the sum, by name.
    """

    run: str
    serial: int
    within: float
    cards: tuple[Introduction, ...]
    order: Order


def attempt_of(request: SumOrder, size: int) -> Attempt:
    """Return what masks are bound to: everything that a node is told, but which node it is and the clients it holds.

    Those two differ between the nodes of a sum; each checks its own.
    """
    order = request.order
    if order.plan.secure_sum is None:
        raise BadInput("secure_sum: the plan has none, so there is nothing to sum under masks")
    return Attempt(
        run=request.run,
        plan=codec.digest(order.plan),
        serial=request.serial,
        round=order.t,
        size=size,
        tolerated=order.plan.secure_sum.colluders,
        state=_state(request),
        cards=request.cards,
    )


def _state(request: SumOrder) -> str:
    """Return the digest of the weights, of what the examples must look like, and of all else that is told alike."""
    order = request.order
    examples = [list(order.shape), list(order.classes), list(order.columns)]
    words = canonical([order.nodes, order.key, *examples, order.canaries, float(request.within).hex()])
    described = np.frombuffer(hashlib.sha256(words).digest(), np.uint8)
    return state_digest([described, *order.params, *order.clip_state])
