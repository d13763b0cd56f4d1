"""Every key of plan.toml, policy.toml and schema.toml: type, default and meaning, read from the dataclasses."""

import dataclasses
import re
import types
import typing
from enum import Enum
from typing import Any

import tomli_w
import typer
from tools.site.markdown import cell, code, docstring, table

import gradveil
from gradveil import codec
from gradveil.cli.main import app
from gradveil.data.schema_text import schema_toml
from gradveil.data.table_schema import ClassTarget, NumberColumn, Schema
from gradveil.deployment.policy import Policy
from gradveil.deployment.policy_file import as_toml
from gradveil.federation.plan import Plan

ALIASES = {"learning_rate": "lr"}
"""Keys of a plan that the command line calls otherwise."""
WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
BESIDE_OPTIONS = {
    "client_sizes": "Examples of each client, where they differ; client_size is then the largest.",
    "client_names": "Names of the clients where nodes hold them, in their order; `federate clients` tells them.",
    "secure_sum": "Nodes add up under masks, and the server sees nothing but sums over all of them.",
    "validation": "The fraction of the training rows that is held out to stop by.",
    "validation_file": "A table of other rows to stop by; needs a schema.",
    "minimum_cohort": "Clients that must answer over a network; with fewer the round is repeated. Half unless given.",
    "server_side": "What the server does with the mean update beyond adding it.",
    "features": "What the model reads in place of the examples.",
    "tuned": "Where the settings were found, and what that has cost; `gradveil tune` writes it.",
}
"""Meanings of the keys of a plan that no option of `gradveil run` has."""


def page() -> str:
    """Return the page of files."""
    return "\n\n".join(["# Files", *_plan(), *_policy(), *_schema()]) + "\n"


def _plan() -> list[str]:
    plan = gradveil.plan("digits", "fed-cdp")
    about = "What `gradveil run PLAN.toml` reads and a run folder keeps. A key that is left out is the preset's."
    shown = [f"[{part.__name__}](#{part.__name__.lower()})" for part in parts(Plan)]
    return [
        "## plan.toml",
        about,
        docstring(Plan),
        _keys(Plan, meanings()),
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
    head = ["## schema.toml", about, docstring(Schema), _keys(Schema, {}), f"```toml\n{schema_toml(example)}```"]
    return [*head, *(_part(part) for part in parts(Schema))]


def meanings() -> dict[str, str]:
    """Return what each key of a plan means: the help of the option of that name, or a sentence from here."""
    root: Any = typer.main.get_command(app)
    helps = {p.name: p.help for p in root.get_command(None, "run").params if p.param_type_name == "option"}
    named = {field.name: helps.get(ALIASES.get(field.name, field.name)) for field in dataclasses.fields(Plan)}
    return {name: text for name, text in named.items() if text} | BESIDE_OPTIONS


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
    keys = _keys(cls, {}) if dataclasses.is_dataclass(cls) and dataclasses.fields(cls) else "No keys."
    return f"### {cls.__name__}\n\n{named}{docstring(cls)}\n\n{keys}"


def _keys(cls: type[Any], meaning: dict[str, str]) -> str:
    rows = [
        [code(field.name), _type(field, hint), _default(field), *([cell(meaning[field.name])] if meaning else [])]
        for field, hint in _fields(cls)
    ]
    return table(["key", "value", "default", *(["meaning"] if meaning else [])], rows)


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
