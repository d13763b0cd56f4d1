"""Frozen dataclasses to plain data (TOML, JSON) and back, strictly: an unknown key or a wrong type is refused.

`fields.settle` does the same for values that come from Python; here they come from a file.
"""

import dataclasses
import hashlib
import json
import re
import types
import typing
from enum import Enum
from typing import Any, TypeVar

from gradveil import own_code
from gradveil.errors import BadInput, quoted
from gradveil.fields import choose, scalar

Plain = dict[str, Any]
T = TypeVar("T")
QUOTES = "'\""
SOURCE, OBJECT = "source_sha256", "object_sha256"
OPTIONAL = {"optional": True}
"""Metadata of a field of a record that may be None, and whose key is then left out of the file."""


def encode(value: Any) -> Any:
    """Return a value as plain data; a dataclass becomes a table, a part names its `kind`, None is left out."""
    if isinstance(value, Enum):
        return value.name.lower()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: _encode_field(f, getattr(value, f.name))
            for f in dataclasses.fields(value)
            if getattr(value, f.name) is not None
        }
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def _encode_field(field: "dataclasses.Field[Any]", value: Any) -> Any:
    kinds = field.metadata.get("kinds")
    if kinds is None:
        return encode(value)
    if isinstance(value, tuple):
        return [_encode_field(field, item) for item in value]
    if type(value) in kinds:
        return {"kind": _kind(type(value)), **encode(value)}
    own = getattr(value, "wrapped", value)  # not our adapter around a model of another library
    if isinstance(own, str | int | float | list | dict | None):
        raise BadInput(f"{field.name} = {quoted(own)}: is no part that can be written to a file")
    return _encode_own(own, getattr(value, OBJECT, None))


def _encode_own(value: Any, object_sha256: str | None) -> Plain:
    """Return a user's part: its name, the digest of its source, and its fields.

    What neither a name nor fields can make again is told apart by `object_sha256`, and has to be handed over anew.
    """
    source = {SOURCE: own_code.source_sha256(value)}
    name = own_code.name_of(value)
    if name is not None:
        return {"kind": name, **source}
    kind, cls = own_code.name_of(type(value)), type(value)
    fields = encode(value) if dataclasses.is_dataclass(value) else None
    if kind is not None and object_sha256 is None and fields is not None and _is_plain(fields):
        return {"kind": kind, **source, **fields}
    made = {OBJECT: object_sha256 or _told_apart(value)}
    return {"kind": f"{cls.__module__}:{cls.__qualname__}", **source, **made}


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, str | int | float)


def _told_apart(value: Any) -> str:
    text = re.sub(r"0x[0-9a-f]+", "", repr(value))
    return hashlib.sha256(text.encode()).hexdigest()


def _kind(cls: type[Any]) -> str:
    """Return what a file calls a part: its class, or the `KIND` that the class states."""
    return str(getattr(cls, "KIND", cls.__name__))


def record(value: Any) -> Any:
    """Turn a record (a dataclass of scalars, lists, dicts and records) into plain data; None is kept, as null.

    A plan leaves out what it does not say; a record has the same keys every time, but for OPTIONAL fields.
    `decode` reads both.
    """
    if isinstance(value, Enum):
        return value.name.lower()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        given = [(f, getattr(value, f.name)) for f in dataclasses.fields(value)]
        return {f.name: record(one) for f, one in given if one is not None or not f.metadata.get("optional")}
    if isinstance(value, tuple | list):
        return [record(item) for item in value]
    if isinstance(value, dict):
        return {key: record(item) for key, item in value.items()}
    return value


def decode(cls: type[T], data: Any, where: str = "") -> T:
    """Build a `cls` from plain data; raises BadInput naming the key, the value and the rule."""
    given, missing = decode_given(cls, data, where), dataclasses.MISSING
    for field in dataclasses.fields(typing.cast(Any, cls)):
        if field.name not in given and field.default is missing and field.default_factory is missing:
            raise BadInput(f"{_path(where, field.name)}: this key is missing")
    try:
        return cls(**given)
    except BadInput as error:
        named = not where or str(error).startswith(f"{where} ")
        raise BadInput(str(error) if named else f"{where}.{error}") from None


def decode_given(cls: type[Any], data: Any, where: str = "") -> Plain:
    """Return the decoded keys that are present; the others may be missing, as in a plan that a preset completes."""
    if not isinstance(data, dict):
        raise BadInput(f"{where or cls.__name__} = {quoted(data)}: a table of keys is expected")
    hints, fields = typing.get_type_hints(cls), {f.name: f for f in dataclasses.fields(cls)}
    for key in data:
        if key not in fields:
            raise BadInput(f"{_path(where, quoted(key).strip(QUOTES))}: unknown key; known are {', '.join(fields)}")
    return {k: _decode_field(fields[k], hints[k], v, _path(where, k)) for k, v in data.items()}


def _decode_field(field: "dataclasses.Field[Any]", hint: Any, value: Any, where: str) -> Any:
    kinds = field.metadata.get("kinds")
    if kinds is None:
        return _decode_plain(hint, value, where)
    if typing.get_origin(hint) is tuple:
        if not isinstance(value, list):
            raise BadInput(f"{where} = {quoted(value)}: a list is expected")
        return tuple(_decode_part(kinds, item, f"{where}[{i}]") for i, item in enumerate(value))
    return _decode_part(kinds, value, where)


def _decode_part(kinds: tuple[type[Any], ...], value: Any, where: str) -> Any:
    if own_code.is_name(value):
        value = {"kind": value}
    if not isinstance(value, dict) or "kind" not in value:
        raise BadInput(f"{where} = {quoted(value)}: a table with a `kind` is expected")
    if OBJECT in value:
        raise BadInput(
            f"{where} = {quoted(value['kind'], 200)}: was made in Python and cannot be made from a file; give it a "
            "name in a module, or hand it over with gradveil.load(folder, model=...)"
        )
    chosen = {_kind(kind): kind for kind in kinds}.get(str(value["kind"]))
    if chosen is None and own_code.is_name(value["kind"]):
        return own_part(value["kind"], where, {k: v for k, v in value.items() if k != "kind"})
    if chosen is None:
        raise BadInput(
            f"{where}.kind = {quoted(value['kind'], 200)}: must be one of {', '.join(_kind(k) for k in kinds)}"
        )
    return decode(chosen, {k: v for k, v in value.items() if k != "kind"}, where)


def own_part(name: str, where: str, fields: Plain) -> Any:
    """Import a user's part by its name; a class is made with its fields. BadInput if its source is another one now.

    A class of equinox or torch is given as it is, since its weights are drawn when training starts.
    """
    part, fields = own_code.find(name, where), dict(fields)
    recorded = fields.pop(SOURCE, None)
    if recorded is not None and recorded != own_code.source_sha256(part):
        raise BadInput(f"{where} = {quoted(name)}: its source was changed since this was written; restore it")
    if isinstance(part, type) and own_code.library_of(part) not in ("equinox", "torch"):
        return _made(part, name, where, fields)
    if fields:
        raise BadInput(f"{where} = {quoted(name)}: takes no {', '.join(fields)}; only a dataclass takes fields")
    return part


def _made(cls: type[Any], name: str, where: str, fields: Plain) -> Any:
    if dataclasses.is_dataclass(cls) and not own_code.library_of(cls):
        return decode(cls, fields, where)
    try:
        return cls(**{key: tuple(item) if isinstance(item, list) else item for key, item in fields.items()})
    except TypeError as error:
        raise BadInput(f"{where} = {quoted(name)}: cannot be made ({' '.join(str(error).split())})") from error


def _decode_plain(hint: Any, value: Any, where: str) -> Any:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(inner, value, where)
    if origin in (tuple, list):
        return origin(_decode_items(inner, value, where))
    if origin is dict:
        if not isinstance(value, dict):
            raise BadInput(f"{where} = {quoted(value)}: a table of keys is expected")
        return {key: _decode_plain(inner[1], item, _path(where, key)) for key, item in value.items()}
    if origin is typing.Literal:
        if value not in inner:
            raise BadInput(f"{where} = {quoted(value)}: must be one of {', '.join(map(str, inner))}")
        return value
    if dataclasses.is_dataclass(hint):
        return decode(typing.cast(type[Any], hint), value, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return choose(hint, value, where)
    return value if hint is Any else scalar(hint, value, where)


def _decode_union(members: tuple[Any, ...], value: Any, where: str) -> Any:
    """Take the first member that fits; the sentence of the last one is raised if none does."""
    if value is None and type(None) in members:
        return None
    *others, last = (member for member in members if member is not type(None))
    for member in others:
        try:
            return _decode_plain(member, value, where)
        except BadInput:
            continue
    return _decode_plain(last, value, where)


def _decode_items(inner: tuple[Any, ...], value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise BadInput(f"{where} = {quoted(value)}: a list is expected")
    if len(inner) == 1 or inner[-1] is Ellipsis:
        return [_decode_plain(inner[0], item, where) for item in value]
    if len(value) != len(inner):
        raise BadInput(f"{where} = {quoted(value)}: a list of {len(inner)} is expected")
    return [_decode_plain(part, item, where) for part, item in zip(inner, value, strict=True)]


def digest(value: Any) -> str:
    """Return the SHA-256 of a value's canonical JSON."""
    text = json.dumps(encode(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _path(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
