"""The messages of a secure sum as Flower records, and which message a node was sent."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from gradveil.aggregation.answering import SumAnswer
from gradveil.aggregation.cards import Introduction
from gradveil.engines.flower import wire
from gradveil.engines.sum_messages import Introduce, SumOrder
from gradveil.errors import BadInput
from gradveil.federation.orders import NodeReply, Order, Refusal

Request = Order | Introduce | SumOrder
Result = NodeReply | Introduction | SumAnswer | Refusal
INTRODUCE, SUM, CARD = "introduce", "sum", "card"
_WORDS, _BYTES = ("name", "run", "plan", "roster"), ("key", "nonce", "signature")
_UNREADABLE = (KeyError, TypeError, ValueError, IndexError, AttributeError, EOFError)


def pack_request(request: Request) -> RecordDict:
    """Return what a server asks as Flower records."""
    if isinstance(request, Order):
        return wire.pack_order(request)
    if isinstance(request, Introduce):
        return _with(wire.pack_order(request.about), INTRODUCE, {"run": request.run})
    fields = {
        "run": request.run,
        "serial": request.serial,
        "within": request.within,
        "cards": [_card_fields(card) for card in request.cards],
    }
    return _with(wire.pack_order(request.order), SUM, fields)


def unpack_request(content: RecordDict) -> Request:
    """Return what a server asks; BadInput if it cannot be read."""
    order = wire.unpack_order(content)
    try:
        if INTRODUCE in content:
            return Introduce(run=str(_fields(content, INTRODUCE)["run"]), about=order)
        if SUM not in content:
            return order
        fields = _fields(content, SUM)
        return SumOrder(
            run=str(fields["run"]),
            serial=int(fields["serial"]),
            within=float(fields["within"]),
            cards=tuple(map(_card, fields["cards"])),
            order=order,
        )
    except _UNREADABLE as error:
        raise BadInput(f"the order cannot be read ({type(error).__name__})") from error


def pack_result(result: Result) -> RecordDict:
    """Return what a node answers as Flower records."""
    if isinstance(result, Introduction):
        return _with(RecordDict({}), CARD, _card_fields(result))
    if isinstance(result, SumAnswer):
        masked = ArrayRecord({"masked": FlowerArray(result.masked.astype("<u8"))})
        return _with(RecordDict({"masked": masked}), SUM, {"attempt": result.attempt.hex()})
    return wire.pack_reply(result)


def unpack_card(content: RecordDict) -> Introduction | Refusal:
    """Return the card that a node sent, or why it sent none; BadInput if it cannot be read."""
    if "refusal" in content:
        return Refusal(wire.reason(content))
    try:
        return _card(_fields(content, CARD))
    except _UNREADABLE as error:
        raise BadInput(f"the card cannot be read ({type(error).__name__})") from error


def unpack_answer(content: RecordDict) -> SumAnswer | Refusal:
    """Return a node's part of a sum, or why it sent none; BadInput if it cannot be read."""
    if "refusal" in content:
        return Refusal(wire.reason(content))
    try:
        record: Any = content["masked"]
        masked = wire.numbers(record["masked"])
        attempt = bytes.fromhex(_fields(content, SUM)["attempt"])
    except _UNREADABLE as error:
        raise BadInput(f"the answer cannot be read ({type(error).__name__})") from error
    if masked.dtype != np.dtype("<u8"):
        raise BadInput(f"an array has type {masked.dtype} where uint64 is expected")
    return SumAnswer(attempt, masked.astype(np.uint64))


def without_weights(order: Order) -> Order:
    """Return an order that only names a plan and its round, as a roll-call does."""
    return replace(order, params=(), clip_state=())


def _with(content: RecordDict, name: str, fields: dict[str, Any]) -> RecordDict:
    content[name] = ConfigRecord({"json": json.dumps(fields, allow_nan=False)})
    return content


def _fields(content: RecordDict, name: str) -> dict[str, Any]:
    record: Any = content[name]
    fields: dict[str, Any] = json.loads(str(record["json"]))
    return fields


def _card_fields(card: Introduction) -> dict[str, str]:
    return {name: getattr(card, name) for name in _WORDS} | {name: getattr(card, name).hex() for name in _BYTES}


def _card(fields: dict[str, str]) -> Introduction:
    words = {name: str(fields[name]) for name in _WORDS}
    return Introduction(**words, **{name: bytes.fromhex(fields[name]) for name in _BYTES})  # type: ignore[arg-type]
