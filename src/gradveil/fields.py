"""Coercing the fields of a frozen dataclass to their declared types; wrong types are BadInput."""

import dataclasses
import types
import typing
from enum import Enum, IntEnum
from functools import lru_cache
from typing import Any

import numpy as np

from gradveil.errors import BadInput, quoted

MOST = 2**63 - 1
LEAST_REAL, MOST_REAL = 1e-37, 1e38
"""Where 32-bit floating-point numbers, in which everything is trained, neither vanish nor overflow."""
_NAMES = {float: "a number", int: "a whole number", str: "a text", bool: "true or false"}


def settle(value: Any) -> None:
    """Coerce each field of a frozen dataclass to its type, in place: call it first in `__post_init__`.

    Words become members of an Enum, NumPy scalars Python's, lists tuples, whole numbers floats where a float belongs.
    """
    hints = _hints(typing.cast(Any, type(value)))
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        settled = _settled(field, hints[field.name], given)
        if settled is not given:
            object.__setattr__(value, field.name, settled)


def settle_given(cls: type[Any], given: dict[str, Any]) -> dict[str, Any]:
    """Return some of a dataclass's fields, coerced to their types; an unknown name is refused."""
    hints, fields = _hints(typing.cast(Any, cls)), {field.name: field for field in dataclasses.fields(cls)}
    for name in given:
        if name not in fields:
            raise BadInput(f"{name}: unknown key; known are {', '.join(fields)}")
    return {name: _settled(fields[name], hints[name], value) for name, value in given.items()}


@lru_cache(maxsize=256)
def _hints(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _settled(field: "dataclasses.Field[Any]", hint: Any, value: Any) -> Any:
    kinds = field.metadata.get("kinds")
    if kinds is None:
        return _plain(hint, value, field.name)
    if typing.get_origin(hint) is not tuple:
        return _part(kinds, hint, value, field.name)
    if not isinstance(value, list | tuple):
        raise BadInput(f"{field.name} = {quoted(value)}: a list is expected")
    return tuple(_part(kinds, typing.get_args(hint)[0], item, field.name) for item in value)


def _plain(hint: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        if value is None:
            return None
        return _plain(next(a for a in inner if a is not type(None)), value, where)
    if origin is tuple:
        if not isinstance(value, list | tuple | np.ndarray) or (isinstance(value, np.ndarray) and not value.ndim):
            raise BadInput(f"{where} = {quoted(value)}: a list is expected")
        return tuple(_plain(inner[0], item, where) for item in value)
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, typing.cast(type[Any], hint)):
            raise BadInput(f"{where} = {quoted(value)}: a {typing.cast(type[Any], hint).__name__} is expected")
        return value
    if isinstance(hint, type) and issubclass(hint, Enum):
        return value if isinstance(value, hint) else choose(hint, value, where)
    return scalar(hint, value, where)


def _part(kinds: tuple[type[Any], ...], hint: Any, value: Any, where: str) -> Any:
    """Return one of our parts, or a custom value that has all members of the part's protocol; BadInput otherwise."""
    if isinstance(value, kinds):
        return value
    required = [n for n in (*hint.__annotations__, *vars(hint)) if n == "__call__" or not n.startswith("_")]
    lacking = [name for name in required if isinstance(value, type) or not hasattr(value, name)]
    if lacking:
        names = ", ".join(kind.__name__ for kind in kinds)
        raise BadInput(f"{where} = {quoted(value)}: must be a value of {names}, or your own with {', '.join(required)}")
    try:
        hash(value)
    except TypeError:
        raise BadInput(f"{where} = {quoted(value)}: must be hashable, such as a frozen dataclass") from None
    return value


def scalar(hint: type[Any], value: Any, where: str) -> Any:
    """Return a value of exactly the type; a whole number may stand for a float, and NumPy's scalars are converted."""
    value = (
        value.item() if isinstance(value, np.generic) or (isinstance(value, np.ndarray) and not value.ndim) else value
    )
    if isinstance(value, int) and not isinstance(value, bool) and hint in (int, float):
        if not -MOST <= value <= MOST:
            raise BadInput(f"{where} = {quoted(value)}: a whole number must be within +-{MOST}")
        return hint(value)
    if type(value) is not hint:
        raise BadInput(f"{where} = {quoted(value)}: {_NAMES.get(hint, hint.__name__)} is expected")
    return value


def choose(kind: type[Enum], value: Any, where: str) -> Any:
    """Return the member of an Enum by its name in any case, with - for _; of an IntEnum by its number too."""
    if issubclass(kind, IntEnum) and isinstance(value, int) and not isinstance(value, bool) and value in list(kind):
        return kind(value)
    names = {member.name.lower(): member for member in kind}
    member = names.get(value.lower().replace("-", "_")) if isinstance(value, str) else None
    if member is None:
        raise BadInput(f"{where} = {quoted(value)}: must be one of {', '.join(names)}")
    return member


def whole(name: str, value: Any, least: int = 1, most: int = 2**31 - 1) -> int:
    """Return a whole number between two bounds, or refuse it by its name."""
    number: int = scalar(int, value, name)
    if number < least:
        raise BadInput(f"{name} = {number}: must be at least {least}")
    if number > most:
        raise BadInput(f"{name} = {number}: must be at most {most}")
    return number


def real(name: str, value: Any) -> float:
    """Return a number above 0 that 32-bit floating point can hold, or refuse it by its name."""
    number: float = scalar(float, value, name)
    if not 0 < number < float("inf"):
        raise BadInput(f"{name} = {number}: must be a finite number above 0")
    if not LEAST_REAL <= number <= MOST_REAL:
        raise BadInput(f"{name} = {number}: must be between {LEAST_REAL:g} and {MOST_REAL:g}")
    return number
