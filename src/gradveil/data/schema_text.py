"""The TOML form of a schema: read strictly, and written as a draft that marks what came from the private rows."""

import math
import tomllib
from pathlib import Path
from typing import Any

import tomli_w

from gradveil import codec
from gradveil.data.table_schema import Schema
from gradveil.data.user_columns import FEW_LEVELS
from gradveil.data.user_csv import as_number
from gradveil.errors import BadInput

FROM_ROWS = "# from the private rows"
"""The comment behind every value of a draft that was taken from them."""
_TAKEN = {"kind", "low", "high", "levels", "classes", "first", "last", "forms", "pattern", "reason"}
_HEAD = f"""\
# A draft: how each column becomes features. Values marked "{FROM_ROWS[2:]}" were
# read from the data, and no epsilon covers them. Replace them by what is publicly known:
# ranges that hold for anybody, all levels that can occur, the classes; then set public = true.
# missing: what a missing value becomes, "refuse", "zero" or "flag" (a feature of its own).
"""


def read_schema(path: Path) -> Schema:
    """Read a schema from a TOML file, strictly."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"schema = {str(path)!r}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise BadInput(f"schema = {str(path)!r}: is not text in UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"schema = {str(path)!r}: is not TOML ({error})") from error
    try:
        return codec.decode(Schema, table)
    except BadInput as error:
        raise BadInput(f"schema = {str(path)!r}: {error}") from None


def schema_toml(schema: Schema) -> str:
    """Return a schema as TOML, as `read_schema` reads it.

    >>> from gradveil.data.table_schema import ClassTarget, NumberColumn
    >>> print(schema_toml(Schema(ClassTarget("sick", ("no", "yes")), (NumberColumn("age", 0, 120),), public=True)))
    public = true
    <BLANKLINE>
    [target]
    kind = "class"
    name = "sick"
    classes = ["no", "yes"]
    <BLANKLINE>
    [[columns]]
    kind = "number"
    name = "age"
    low = 0.0
    high = 120.0
    missing = "zero"
    <BLANKLINE>
    """
    return "\n".join(_lines(schema, ""))


def draft_toml(schema: Schema) -> str:
    """Return a draft as TOML: a comment stands behind every value that was taken from the rows."""
    hint = _hint(schema) if many_numbers(schema.classes) else ""
    return _HEAD + hint + "\n".join(_lines(schema, f"  {FROM_ROWS}"))


def _hint(schema: Schema) -> str:
    named = _pair("name", schema.target.name).partition(" = ")[2]
    return (
        f"# {named} has {len(schema.classes)} classes that are numbers: if it is a quantity, write "
        'kind = "number", low and high\n# in place of classes.\n'
    )


def many_numbers(classes: tuple[str, ...]) -> bool:
    """Whether classes seem to be a quantity: more than a few, all of them numbers."""
    return len(classes) > FEW_LEVELS and not any(math.isnan(as_number(name)) for name in classes)


def _lines(schema: Schema, mark: str) -> list[str]:
    plain = codec.encode(schema)
    lines = [f"public = {str(schema.public).lower()}", "", "[target]", *_pairs(plain["target"], mark)]
    for column in plain["columns"]:
        lines += ["", "[[columns]]", *_pairs(column, mark)]
    return [*lines, ""]


def _pairs(table: dict[str, Any], mark: str) -> list[str]:
    return [
        _pair(key, value) + (mark if key in _TAKEN and value not in ("", []) else "") for key, value in table.items()
    ]


def _pair(key: str, value: Any) -> str:
    """Return one key and its value on one line, so that a comment can stand behind it."""
    if isinstance(value, list):
        items = (tomli_w.dumps({"v": item}).strip().partition(" = ")[2] for item in value)
        return f"{key} = [{', '.join(items)}]"
    return tomli_w.dumps({key: value}).strip()
