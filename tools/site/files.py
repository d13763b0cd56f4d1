"""Every key of plan.toml, policy.toml and schema.toml: type and default from the dataclasses, with its meaning."""

import dataclasses
import re
import types
import typing
from enum import Enum
from typing import Any

import tomli_w
from tools.site.markdown import cell, code, docstring, table
from tools.site.part_keys import PARTS
from tools.site.plan_keys import PLAN

import gradveil
from gradveil import codec
from gradveil.data.schema_text import schema_toml
from gradveil.data.table_schema import ClassTarget, NumberColumn, Schema
from gradveil.deployment.policy import Policy
from gradveil.deployment.policy_file import as_toml
from gradveil.federation.plan import Plan
from gradveil.runs.preset_kinds import Preset
from gradveil.runs.resolving import DEFAULTS

WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
PLAN_VALUES = {"method": "text, or a table: `Method`"}
"""Keys of a plan that a file may hold in another form than a run folder does."""


def page() -> str:
    """Return the page of files."""
    return "\n\n".join(["# Files", *_plan(), *_policy(), *_schema()]) + "\n"


def _plan() -> list[str]:
    plan = gradveil.plan("digits", "fed-cdp")
    about = (
        "What `gradveil run PLAN.toml` reads, and what a run folder keeps with all keys. `preset` is the dataset's own "
        "setting."
    )
    shown = [f"[{part.__name__}](#{part.__name__.lower()})" for part in parts(Plan)]
    return [
        "## plan.toml",
        about,
        docstring(Plan),
        _keys(Plan, PLAN, plan_defaults(), PLAN_VALUES),
        "A plan as a run folder keeps it:",
        f"```toml\n{tomli_w.dumps(codec.encode(plan)).strip()}\n```",
        f"Parts of a plan, by their kind: {', '.join(shown)}.",
        *(_part(part) for part in parts(Plan)),
    ]


def _policy() -> list[str]:
    about = "What the owner of a node's data allows; `gradveil federate policy` writes one. The node refuses the rest."
    return ["## policy.toml", about, docstring(Policy), _keys(Policy, policy_meanings())]


def _schema() -> list[str]:
    example = Schema(ClassTarget("sick", ("no", "yes")), (NumberColumn("age", 0, 120),), public=True)
    about = "How the columns of a table become features; `gradveil data schema` drafts one."
    head = [
        "## schema.toml",
        about,
        docstring(Schema),
        _keys(Schema, PARTS["Schema"]),
        f"```toml\n{schema_toml(example)}```",
    ]
    return [*head, *(_part(part) for part in parts(Schema))]


def plan_defaults() -> dict[str, str]:
    """Return what a key of a plan file is if it is left out, where that is not the default of the dataclass."""
    given = {name: "preset" for name in (*Preset.__dataclass_fields__, "learning_rate")}
    named = {name: code(repr(value)) for name, value in DEFAULTS.items()}
    return given | named | {"noise_source": "`secret` for your own data, else `seeded`"}


def policy_meanings() -> dict[str, str]:
    """Return what each key of a policy means: the comment that `gradveil federate policy` writes above it."""
    limits: dict[str, Any] = {"maximum_rounds": 1, "maximum_epsilon": 1.0, "maximum_alone_epsilon": 1.0}
    pinned: dict[str, Any] = {"methods": ("fed-cdp",), "model_sha256": "0" * 64, "roster": "0" * 64, "minimum_nodes": 3}
    written = as_toml(Policy(**limits, **pinned))
    found = re.findall(r"((?:^# .*\n)+)(\w+) = ", written, re.MULTILINE)
    return {name: " ".join(line.removeprefix("# ") for line in text.splitlines()) for text, name in found}


def parts(cls: type[Any]) -> list[type[Any]]:
    """Return every dataclass that can stand below a key of this one, each once, in the order in which they are met."""
    met: dict[type[Any], None] = {}
    for field, hint in _fields(cls):
        below = [*field.metadata.get("kinds", ()), *filter(dataclasses.is_dataclass, _inside(hint))]
        for one in below:
            met |= dict.fromkeys([one, *parts(one)])
    return list(met)


def _part(cls: type[Any]) -> str:
    kind = getattr(cls, "KIND", cls.__name__)
    named = "" if kind == cls.__name__ else f'`kind = "{kind}"`. '
    keys = _keys(cls, PARTS[cls.__name__]) if cls.__name__ in PARTS else "No keys."
    return f"### {cls.__name__}\n\n{named}{docstring(cls)}\n\n{keys}"


def _keys(
    cls: type[Any],
    meaning: dict[str, str],
    defaults: dict[str, str] | None = None,
    values: dict[str, str] | None = None,
) -> str:
    """Return the table of a dataclass's keys; `defaults` and `values` are said in place of what it declares."""
    rows = [
        [
            code(field.name),
            (values or {}).get(field.name) or _type(field, hint),
            (defaults or {}).get(field.name) or _default(field),
            cell(meaning[field.name]),
        ]
        for field, hint in _fields(cls)
    ]
    return table(["key", "value", "default", "meaning"], rows)


def _fields(cls: type[Any]) -> list[tuple["dataclasses.Field[Any]", Any]]:
    if not dataclasses.is_dataclass(cls):
        return []
    hints = typing.get_type_hints(cls)
    return [(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _inside(hint: Any) -> list[Any]:
    return [hint, *(deeper for part in typing.get_args(hint) for deeper in _inside(part))]


def _type(field: "dataclasses.Field[Any]", hint: Any) -> str:
    kinds = field.metadata.get("kinds")
    if kinds is not None:
        names = ", ".join(f"`{getattr(kind, 'KIND', kind.__name__)}`" for kind in kinds)
        return f"{'a list of tables' if typing.get_origin(hint) is tuple else 'a table'}: {names}"
    return _word(hint)


def _word(hint: Any) -> str:
    origin, inner = typing.get_origin(hint), [part for part in typing.get_args(hint) if part is not types.NoneType]
    if origin in (typing.Union, types.UnionType):
        return " or ".join(map(_word, inner))
    if origin is tuple:
        return f"a list: {_word(inner[0])}"
    if origin is typing.Literal:
        return ", ".join(code(one) for one in inner)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return ", ".join(code(member.name.lower()) for member in hint)
    return WORDS.get(hint) or f"a table: `{getattr(hint, '__name__', hint)}`"


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else code(repr(field.default_factory()))
    value = field.default
    return "none" if value is None else code(value.name.lower() if isinstance(value, Enum) else repr(value))
