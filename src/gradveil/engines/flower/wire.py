"""Orders and replies as Flower records: numbers as plain arrays, words as JSON, and nothing executable."""

import json
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, ConfigRecord, RecordDict

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.federation.orders import Array, NodeReply, Order, Refusal
from gradveil.federation.plan import Plan

NPY = b"\x93NUMPY"
LONGEST = 1000
"""Characters of a refusal's reason that are read; a node could send any number."""


def pack_order(order: Order) -> RecordDict:
    """Return an order as Flower records."""
    fields = {
        "plan": codec.encode(order.plan),
        "t": order.t,
        "clients": order.clients.tolist(),
        "node": order.node,
        "nodes": order.nodes,
        "shape": list(order.shape),
        "classes": list(order.classes),
        "columns": list(order.columns),
        "key": order.key,
        "canaries": order.canaries,
    }
    return RecordDict(
        {
            "order": ConfigRecord({"json": json.dumps(fields, allow_nan=False)}),
            "params": _dense(order.params),
            "clip_state": _dense(order.clip_state),
        }
    )


def unpack_order(content: RecordDict) -> Order:
    """Return the order in Flower records; BadInput if it is none."""
    try:
        fields = json.loads(str(content["order"]["json"]))
        return Order(
            plan=codec.decode(Plan, fields["plan"]),
            t=int(fields["t"]),
            clients=np.asarray([int(c) for c in fields["clients"]], np.int64),
            node=int(fields["node"]),
            nodes=int(fields["nodes"]),
            shape=tuple(map(int, fields["shape"])),
            classes=tuple(map(str, fields["classes"])),
            columns=tuple(map(str, fields["columns"])),
            params=_leaves(content, "params"),
            clip_state=_leaves(content, "clip_state"),
            key=None if fields["key"] is None else (int(fields["key"][0]), int(fields["key"][1])),
            canaries=int(fields["canaries"]),
        )
    except BadInput:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise BadInput(f"the order cannot be read ({type(error).__name__})") from error


def pack_reply(reply: NodeReply | Refusal) -> RecordDict:
    """Return a reply as Flower records; a leaf that is mostly zeros is sent as positions and values."""
    if isinstance(reply, Refusal):
        return RecordDict({"refusal": ConfigRecord({"reason": reply.reason})})
    packed = {name: a for i, leaf in enumerate(reply.update) for name, a in _packed(i, leaf).items()}
    return RecordDict({"update": ArrayRecord(packed), "statistics": _dense(reply.statistics)})


def unpack_reply(content: RecordDict, like: NodeReply, clients: int) -> NodeReply | Refusal:
    """Return the reply of `clients` clients, whose leaves have the shapes of `like` except for the first axis.

    Raises BadInput if it is not exactly such a reply of finite float32 numbers.
    """
    if "refusal" in content:
        return Refusal(reason(content))
    try:
        update = tuple(_unpacked(content["update"], i, clients, leaf) for i, leaf in enumerate(like.update))
        statistics = tuple(_leaves(content, "statistics"))
    except BadInput:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, EOFError) as error:
        raise BadInput(f"the reply cannot be read ({type(error).__name__})") from error
    if len(statistics) != len(like.statistics):
        raise BadInput(f"the reply has {len(statistics)} arrays of statistics, and {len(like.statistics)} are expected")
    for leaf, expected in zip((*update, *statistics), (*like.update, *like.statistics), strict=True):
        _check(leaf, (clients, *expected.shape[1:]))
    return NodeReply(update, statistics)


def size(content: RecordDict) -> int:
    """Return the bytes of the records: arrays as serialized, words as text."""
    arrays = sum(len(a.data) for record in content.array_records.values() for a in record.values())
    texts = sum(len(str(v)) for record in content.config_records.values() for v in record.values())
    return arrays + texts


def reason(content: RecordDict) -> str:
    """Return why a node refuses, shortened to one line."""
    refusal: Any = content.config_records.get("refusal", {})
    return " ".join(str(refusal.get("reason", "no reason was given")).split())[:LONGEST]


def _check(leaf: Array, shape: tuple[int, ...]) -> None:
    if leaf.dtype != np.float32:
        raise BadInput(f"an array has type {leaf.dtype} where float32 is expected")
    if leaf.shape != shape:
        raise BadInput(f"an array has shape {leaf.shape} where {shape} is expected")
    if not np.isfinite(leaf).all():
        raise BadInput("a number is not finite (NaN or infinity)")


def _dense(leaves: Iterable[Array]) -> ArrayRecord:
    return ArrayRecord({f"{i}": FlowerArray(np.asarray(leaf, order="C")) for i, leaf in enumerate(leaves)})


def _leaves(content: RecordDict, name: str) -> tuple[Array, ...]:
    record: Any = content[name]
    return tuple(numbers(record[f"{i}"]) for i in range(len(record)))


def numbers(array: FlowerArray) -> Array:
    """Return an array; only numpy's own format is read, and nothing that claims to be larger than it is."""
    if array.data[:6] != NPY or math.prod(array.shape) > len(array.data):
        raise BadInput("an array is not in numpy's format, or not of the size that it claims")
    return array.numpy()


def _packed(i: int, leaf: Array) -> dict[str, FlowerArray]:
    """Return the shorter form: every number, or each that is not zero with 4 bytes of position."""
    at = np.flatnonzero(leaf)
    if 2 * len(at) >= leaf.size or leaf.size > np.iinfo(np.uint32).max:
        return {f"{i}": FlowerArray(np.asarray(leaf, order="C"))}
    values = leaf.reshape(-1)[at]
    return {f"{i}.at": FlowerArray(at.astype(np.uint32)), f"{i}.values": FlowerArray(values)}


def _unpacked(record: Any, i: int, clients: int, like: Array) -> Array:
    if f"{i}" in record:
        return numbers(record[f"{i}"])
    at, values = numbers(record[f"{i}.at"]), numbers(record[f"{i}.values"])
    leaf = np.zeros((clients, *like.shape[1:]), np.float32)
    if at.dtype != np.uint32 or at.shape != values.shape or (len(at) and at.max() >= leaf.size):
        raise BadInput("the positions and values of a sparse array do not match")
    if values.dtype != np.float32:
        raise BadInput(f"an array has type {values.dtype} where float32 is expected")
    leaf.reshape(-1)[at] = values
    return leaf
