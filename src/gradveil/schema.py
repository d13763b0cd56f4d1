"""JSON Schemas of frozen dataclasses: what `codec.record` writes, described for whoever reads it with other tools."""

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_SCALARS = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}
Schema = dict[str, Any]


def json_schema(cls: type[Any]) -> Schema:
    """Return the JSON Schema of a dataclass; nested dataclasses stand under `$defs`.

    A field without a default is required, an unknown key is not allowed, as in `codec.decode`. The class's docstring
    describes the object, a field's metadata `description` the field. Raises TypeError for a type JSON cannot hold.
    """
    definitions: dict[str, Schema] = {}
    schema = {"$schema": DIALECT, "title": cls.__name__, **_object(cls, definitions)}
    return schema | ({"$defs": definitions} if definitions else {})


def schema_text(cls: type[Any]) -> str:
    """Return the schema as the text of its file under docs/schemas."""
    return json.dumps(json_schema(cls), indent=2) + "\n"


def _object(cls: type[Any], definitions: dict[str, Schema]) -> Schema:
    hints, missing = typing.get_type_hints(cls), dataclasses.MISSING
    fields = dataclasses.fields(cls)
    return {
        "description": inspect.cleandoc(cls.__doc__ or ""),
        "type": "object",
        "properties": {f.name: _field(f, hints[f.name], definitions) for f in fields},
        "required": [f.name for f in fields if f.default is missing and f.default_factory is missing],
        "additionalProperties": False,
    }


def _field(field: "dataclasses.Field[Any]", hint: Any, definitions: dict[str, Schema]) -> Schema:
    about = field.metadata.get("description")
    return ({"description": about} if about else {}) | _typed(hint, definitions)


def _typed(hint: Any, definitions: dict[str, Schema]) -> Schema:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any:
        return {}
    if hint in _SCALARS:
        return {"type": _SCALARS[hint]}
    if dataclasses.is_dataclass(hint):
        return _reference(typing.cast(type[Any], hint), definitions)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.name.lower() for member in hint]}
    if origin is typing.Literal:
        return {"enum": list(inner)}
    if origin in (typing.Union, types.UnionType):
        return {"anyOf": [_typed(part, definitions) for part in inner]}
    if origin in (tuple, list):
        return _array(inner, definitions)
    if origin in (dict, Mapping) and inner[0] is str:
        return {"type": "object", "additionalProperties": _typed(inner[1], definitions)}
    raise TypeError(f"{hint}: has no JSON Schema; a record holds scalars, lists, dicts by text and dataclasses")


def _array(inner: tuple[Any, ...], definitions: dict[str, Schema]) -> Schema:
    """Describe `tuple[X, ...]` and `list[X]` as any number of X, `tuple[X, Y]` as one of each in this order."""
    if len(inner) == 1 or inner[-1] is Ellipsis:
        return {"type": "array", "items": _typed(inner[0], definitions)}
    parts = [_typed(part, definitions) for part in inner]
    return {"type": "array", "prefixItems": parts, "items": False, "minItems": len(parts)}


def _reference(cls: type[Any], definitions: dict[str, Schema]) -> Schema:
    if cls.__name__ not in definitions:
        definitions[cls.__name__] = {}  # stands in for itself while its fields are described
        definitions[cls.__name__] = _object(cls, definitions)
    return {"$ref": f"#/$defs/{cls.__name__}"}
