"""The JSON Schemas of docs/schemas as pages of keys."""

import json
from pathlib import Path
from typing import Any

from tools.site.markdown import cell, code, table

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"


def page() -> str:
    """Return the page of JSON Schemas: each with a link to its file, and its keys."""
    files = sorted(SCHEMAS.glob("*.schema.json"))
    about = (
        "What `gradveil run`, `attack`, `audit` and `table` print with `--json`, what run folders keep of them, and "
        "privacy cards, as JSON Schemas (2020-12). The objects that other verbs print have none."
    )
    return "\n\n".join(["# JSON schemas", about, *map(_schema, files)]) + "\n"


def _schema(path: Path) -> str:
    schema = json.loads(path.read_text(encoding="utf-8"))
    named = {name: one for name, one in schema.get("$defs", {}).items() if "properties" in one}
    inner = {f"{schema['title']}: {key}": one for key, one in _inner(schema).items()}
    below = [_object(f"### {name}", one) for name, one in (inner | named).items()]
    link = f"The file: [{path.name}](../schemas/{path.name})."
    return "\n\n".join([_object(f"## {schema['title']}", schema), link, *below])


def _inner(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the objects that stand right below keys, or in lists below them, without a name of their own."""
    found = {key: one.get("items", one) for key, one in schema["properties"].items()}
    return {key: one for key, one in found.items() if "properties" in one}


def _object(head: str, schema: dict[str, Any]) -> str:
    always = schema.get("required", ())
    rows = [
        [code(key), cell(kind(one)), "yes" if key in always else "", cell(one.get("description", ""))]
        for key, one in schema["properties"].items()
    ]
    about = schema.get("description", "").replace("<", "&lt;")
    return "\n\n".join([head, *filter(None, [about]), table(["key", "value", "always there", "meaning"], rows)])


def kind(schema: dict[str, Any]) -> str:
    """Return in words what a value is.

    >>> kind({"anyOf": [{"type": "number"}, {"type": "null"}]})
    'number or null'
    """
    either = schema.get("anyOf") or schema.get("oneOf")
    if either:
        return " or ".join(map(kind, either))
    if isinstance(schema.get("type"), list):
        return " or ".join(schema["type"])
    if "const" in schema:
        return json.dumps(schema["const"])
    if "enum" in schema:
        return " or ".join(json.dumps(one) for one in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}" if schema.get("items") else "list"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    return str(schema.get("type", "anything"))
