"""What the JSON files of a run folder must hold: a seal says that nobody changed a file, not that it is the right one.

A shape is a type (float takes whole numbers too), None, a range of whole numbers, a frozenset of words, a tuple of
shapes of which one must fit, a list of the one shape of all its items, or a dict of the keys that must be there.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gradveil.accounting.threats import THREATS
from gradveil.errors import BadInput, quoted
from gradveil.runs.store.files import Record

COUNT = range(2**63)
_ADVERSARY = frozenset(THREATS)
_GUARANTEE = {
    "epsilon": (float, None), "finite": bool, "delta": float, "unit": str, "threat_model": _ADVERSARY, "adjacency": str,
    "sampling": str, "accountant": str, "noise_source": str, "caveats": [str],
}  # fmt: skip
_COURSE = {"threat_model": _ADVERSARY, "unit": str, "rounds": [COUNT], "epsilon": [(float, None)]}
RESULT = {
    "accuracy": float,
    "rounds": COUNT,
    "seconds": float,
    "params_sha256": str,
    "metrics_head": str,
    "guarantees": [_GUARANTEE],
    "as_the_paper_accounts": dict,
    "epsilon_over_rounds": {"sound": [_COURSE], "as_the_paper_accounts": {"rounds": [COUNT]}},
}
DATA = {
    "own": bool,
    "sha256": (str, None),
    "keyed_digest": (str, None),
    "shape": [COUNT],
    "classes": [str],
    "examples": dict.fromkeys(("train", "validation", "test"), COUNT),
    "plan": str,
}
PLANS = {"earlier": [{"until": COUNT, "rounds": COUNT}]}
WATCH = {"rounds": [COUNT]}
ENVIRONMENT = {"packages": {"gradveil": str}}
_NAMES = {float: "a number", str: "a text", bool: "true or false", dict: "an object"}


def shaped(path: Path, value: Record, shape: Record) -> Record:
    """Return what a file holds if it has the shape; the first fault is bad input."""
    for fault in _faults(value, shape, ""):
        raise BadInput(f"{str(path)!r}: {fault}, so it is no file of this kind")
    return value


def _faults(value: Any, shape: Any, where: str) -> Iterator[str]:
    if isinstance(shape, dict) and isinstance(value, dict):
        for key, inner in shape.items():
            name = f"{where}.{key}" if where else key
            yield from _faults(value[key], inner, name) if key in value else [f"{name} is missing"]
    elif isinstance(shape, list) and isinstance(value, list):
        for i, item in enumerate(value):
            yield from _faults(item, shape[0], f"{where}[{i}]")
    elif not _fits(value, shape):
        yield f"{where} = {quoted(value)} must be {_name(shape)}"


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, tuple):
        return any(_fits(value, one) for one in shape)
    if isinstance(shape, range):
        return type(value) is int and value in shape
    if isinstance(shape, frozenset):
        return isinstance(value, str) and value in shape
    if shape is float:
        return type(value) in (int, float)
    return value is None if shape is None else isinstance(shape, type) and isinstance(value, shape)


def _name(shape: Any) -> str:
    if isinstance(shape, tuple):
        return " or ".join(map(_name, shape))
    if isinstance(shape, frozenset):
        return f"one of {', '.join(sorted(shape))}"
    kinds = {range: "a whole number from 0", list: "a list", dict: "an object", type(None): "null"}
    return _NAMES[shape] if isinstance(shape, type) else kinds[type(shape)]
