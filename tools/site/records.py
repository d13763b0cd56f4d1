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
        "What gradveil prints with `--json` and stores in run folders, as JSON Schemas (2020-12) made from the records."
    )
    return "\n\n".join(["# JSON schemas", about, *map(_schema, files)]) + "\n"


def _schema(path: Path) -> str:
    schema = json.loads(path.read_text(encoding="utf-8"))
    below = [_object(f"### {name}", one) for name, one in schema.get("$defs", {}).items()]
    link = f"The file: [{path.name}](../schemas/{path.name})."
    return "\n\n".join([_object(f"## {schema['title']}", schema), link, *below])


def _object(head: str, schema: dict[str, Any]) -> str:
    rows = [
        [code(key), cell(kind(one)), "yes" if key in schema["required"] else "", cell(one.get("description", ""))]
        for key, one in schema["properties"].items()
    ]
    about = schema.get("description", "").replace("<", "&lt;")
    return "\n\n".join([head, about, table(["key", "value", "always there", "meaning"], rows)])


def kind(schema: dict[str, Any]) -> str:
    """Return in words what a value is.

    >>> kind({"anyOf": [{"type": "number"}, {"type": "null"}]})
    'number or null'
    """
    if "anyOf" in schema:
        return " or ".join(map(kind, schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(json.dumps(one) for one in schema["enum"])
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if schema.get("type") == "array":
        return f"list of {kind(schema['items'])}" if schema.get("items") else "list"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {kind(schema['additionalProperties'])}"
    return str(schema.get("type", "anything"))
