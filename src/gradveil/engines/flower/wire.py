"""Orders and answers as Flower records: numbers as plain arrays, words as JSON, and nothing that could run."""

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
"""Characters of a reason that are read; a node could send a book."""


def pack_order(order: Order) -> RecordDict:
    """Write an order."""
    words = {
        "plan": codec.encode(order.plan),
        "t": order.t,
        "clients": order.clients.tolist(),
        "node": order.node,
        "nodes": order.nodes,
        "shape": list(order.shape),
        "classes": list(order.classes),
        "columns": list(order.columns),
        "key": order.key,
    }
    return RecordDict(
        {
            "order": ConfigRecord({"json": json.dumps(words, allow_nan=False)}),
            "params": _dense(order.params),
            "clip_state": _dense(order.clip_state),
        }
    )


def unpack_order(content: RecordDict) -> Order:
    """Read an order; raises BadInput if it is none."""
    try:
        words = json.loads(str(content["order"]["json"]))
        return Order(
            plan=codec.decode(Plan, words["plan"]),
            t=int(words["t"]),
            clients=np.asarray([int(c) for c in words["clients"]], np.int64),
            node=int(words["node"]),
            nodes=int(words["nodes"]),
            shape=tuple(map(int, words["shape"])),
            classes=tuple(map(str, words["classes"])),
            columns=tuple(map(str, words["columns"])),
            params=_leaves(content, "params"),
            clip_state=_leaves(content, "clip_state"),
            key=None if words["key"] is None else (int(words["key"][0]), int(words["key"][1])),
        )
    except BadInput:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise BadInput(f"the order cannot be read ({type(error).__name__})") from error


def pack_answer(answer: NodeReply | Refusal) -> RecordDict:
    """Write an answer; a leaf that is mostly zeros travels as positions and values."""
    if isinstance(answer, Refusal):
        return RecordDict({"refusal": ConfigRecord({"reason": answer.reason})})
    packed = {name: a for i, leaf in enumerate(answer.update) for name, a in _packed(i, leaf).items()}
    return RecordDict({"update": ArrayRecord(packed), "statistics": _dense(answer.statistics)})


def unpack_answer(content: RecordDict, like: NodeReply, clients: int) -> NodeReply | Refusal:
    """Read an answer of `clients` clients whose leaves are like those given, but for the first axis.

    Raises BadInput, with what is wrong, if it is not exactly such an answer of finite float32 numbers.
    """
    if "refusal" in content:
        return Refusal(_reason(content))
    try:
        update = tuple(_unpacked(content["update"], i, clients, leaf) for i, leaf in enumerate(like.update))
        statistics = tuple(_leaves(content, "statistics"))
    except BadInput:
        raise
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, EOFError) as error:
        raise BadInput(f"the answer cannot be read ({type(error).__name__})") from error
    if len(statistics) != len(like.statistics):
        raise BadInput(
            f"the answer has {len(statistics)} arrays of statistics, and {len(like.statistics)} were expected"
        )
    for got, expected in zip((*update, *statistics), (*like.update, *like.statistics), strict=True):
        _check(got, (clients, *expected.shape[1:]))
    return NodeReply(update, statistics)


def size(content: RecordDict) -> int:
    """Count the bytes of the records: arrays as they are serialized, words as they are spelled."""
    arrays = sum(len(a.data) for record in content.array_records.values() for a in record.values())
    words = sum(len(str(v)) for record in content.config_records.values() for v in record.values())
    return arrays + words


def _reason(content: RecordDict) -> str:
    words: Any = content.config_records.get("refusal", {})
    return " ".join(str(words.get("reason", "no reason was given")).split())[:LONGEST]


def _check(leaf: Array, shape: tuple[int, ...]) -> None:
    if leaf.dtype != np.float32:
        raise BadInput(f"an array of {leaf.dtype} came where float32 was expected")
    if leaf.shape != shape:
        raise BadInput(f"an array of shape {leaf.shape} came where {shape} was expected")
    if not np.isfinite(leaf).all():
        raise BadInput("a number is not finite (NaN or infinity)")


def _dense(leaves: Iterable[Array]) -> ArrayRecord:
    return ArrayRecord({f"{i}": FlowerArray(np.asarray(leaf, order="C")) for i, leaf in enumerate(leaves)})


def _leaves(content: RecordDict, name: str) -> tuple[Array, ...]:
    record: Any = content[name]
    return tuple(_numbers(record[f"{i}"]) for i in range(len(record)))


def _numbers(array: FlowerArray) -> Array:
    """Read an array; only numpy's own format is opened, and nothing that claims to be larger than it is."""
    if array.data[:6] != NPY or math.prod(array.shape) > len(array.data):
        raise BadInput("an array is not in numpy's format, or not as large as it says")
    return array.numpy()


def _packed(i: int, leaf: Array) -> dict[str, FlowerArray]:
    """Choose the shorter way: every number, or 4 bytes of position beside each that is not zero."""
    at = np.flatnonzero(leaf)
    if 2 * len(at) >= leaf.size or leaf.size > np.iinfo(np.uint32).max:
        return {f"{i}": FlowerArray(np.asarray(leaf, order="C"))}
    values = leaf.reshape(-1)[at]
    return {f"{i}.at": FlowerArray(at.astype(np.uint32)), f"{i}.values": FlowerArray(values)}


def _unpacked(record: Any, i: int, clients: int, like: Array) -> Array:
    if f"{i}" in record:
        return _numbers(record[f"{i}"])
    at, values = _numbers(record[f"{i}.at"]), _numbers(record[f"{i}.values"])
    leaf = np.zeros((clients, *like.shape[1:]), np.float32)
    if at.dtype != np.uint32 or at.shape != values.shape or (len(at) and at.max() >= leaf.size):
        raise BadInput("positions and values of a sparse array do not fit")
    if values.dtype != np.float32:
        raise BadInput(f"an array of {values.dtype} came where float32 was expected")
    leaf.reshape(-1)[at] = values
    return leaf
