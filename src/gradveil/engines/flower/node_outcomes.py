"""What came of the orders of a round, node by node: read, put into words, and recorded."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from flwr.app import Message

from gradveil.engines.flower import wire
from gradveil.errors import BadInput
from gradveil.federation.orders import NodeReply, Refusal


class NodeOutcome(NamedTuple):
    """The outcome of one node's order: its reply or why there is none, after how long, and the bytes both ways."""

    reply: NodeReply | None
    fault: str
    seconds: float
    down: int
    up: int


def outcome_of(message: Message, clients: int, like: NodeReply, seconds: float, down: int) -> NodeOutcome:
    """Read what a node sent. like: a reply of no clients, whose leaves have the shapes that replies must have."""
    if message.has_error():
        return NodeOutcome(None, f"Flower error {message.error.code}", seconds, down, 0)
    up = 0
    try:
        up = wire.size(message.content)
        reply = wire.unpack_reply(message.content, like, clients)
    except BadInput as error:
        return NodeOutcome(None, f"rejected: {error}", seconds, down, up)
    except Exception as error:  # whatever a node sends, the others go on
        return NodeOutcome(None, f"rejected: cannot be read ({type(error).__name__})", seconds, down, up)
    if isinstance(reply, Refusal):
        return NodeOutcome(None, f"refused: {reply.reason}", seconds, down, up)
    return NodeOutcome(reply, "", seconds, down, up)


def missing(names: tuple[str, ...], outcomes: Mapping[int, NodeOutcome]) -> dict[str, str]:
    """Return why each node is missing, by name; nodes that replied are left out."""
    return {names[index]: outcome.fault for index, outcome in sorted(outcomes.items()) if outcome.fault}


def remarks_on(names: tuple[str, ...], outcomes: Mapping[int, NodeOutcome]) -> dict[str, Any]:
    """Return which nodes were missing and why, which was slowest, and the bytes sent."""
    replied = {index: outcome for index, outcome in outcomes.items() if outcome.reply is not None}
    slowest = max(replied, key=lambda index: replied[index].seconds, default=None)
    return {
        "missing": missing(names, outcomes),
        "slowest": None if slowest is None else names[slowest],
        "seconds": {names[index]: round(outcome.seconds, 3) for index, outcome in sorted(replied.items())},
        "bytes_down": sum(outcome.down for outcome in outcomes.values()),
        "bytes_up": sum(outcome.up for outcome in outcomes.values()),
    }
