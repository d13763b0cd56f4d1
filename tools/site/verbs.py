"""Every verb of the command line with its arguments, options and defaults, read from the typer application."""

import re
from typing import Any

import typer
from tools.site.markdown import cell, code, table

from gradveil.cli.main import app
from gradveil.cli.verbs import HIDDEN, VERBS

EXIT_CODES = {
    0: "done",
    1: "the answer is no: a run diverged, no setting meets the target, a digest differs, a claim is refuted",
    2: "bad input: one sentence names the key, the value and the rule",
    130: "interrupted",
}
"""What a verb ends with; a test drives each."""


def commands() -> dict[str, Any]:
    """Return the verbs that help shows, those below another (`data list`) after it."""
    root: Any = typer.main.get_command(app)
    found: dict[str, Any] = {}
    for name in VERBS:
        if name not in HIDDEN:
            verb = root.get_command(None, name)
            found[name] = verb
            found |= {f"{name} {below}": one for below, one in getattr(verb, "commands", {}).items() if not one.hidden}
    return found


def page() -> str:
    """Return the page of verbs."""
    codes = table(["code", "meaning"], ([str(number), meaning] for number, meaning in EXIT_CODES.items()))
    parts = ["# Verbs", "What `gradveil VERB --help` says, read from the same place.", "## Exit codes", codes]
    return "\n\n".join([*parts, *(_verb(name, verb) for name, verb in commands().items())]) + "\n"


def _verb(name: str, verb: Any) -> str:
    about = re.sub(r"[ \t]*\n[ \t]*(?=\S)", "\n", (verb.help or "").strip()).replace("<", "&lt;")
    parts = [f"{'###' if ' ' in name else '##'} gradveil {name}", about]
    arguments = [p for p in verb.params if p.param_type_name == "argument"]
    if arguments:
        rows = ([code(p.metavar or p.name.upper()), cell(p.help or "")] for p in arguments)
        parts.append(table(["argument", "meaning"], rows))
    options = [p for p in verb.params if p.param_type_name == "option" and not p.hidden and p.name != "help"]
    if options:
        parts.append(table(["option", "default", "meaning"], (_option(p) for p in options)))
    return "\n\n".join(parts)


def _option(option: Any) -> list[str]:
    names = ", ".join(code(name) for name in (*option.opts, *option.secondary_opts))
    value = "" if option.is_flag else f" {code(_kind(option))}"
    return [names + value, default(option), cell(option.help or "")]


def _kind(option: Any) -> str:
    return str(option.metavar or getattr(option.type, "name", "text")).upper()


def default(option: Any) -> str:
    """Return what an option is if it is not given, as help says it; words are no code."""
    if option.required:
        return "required"
    if isinstance(option.show_default, str):
        return cell(option.show_default)
    given = option.default
    return "" if given is None or given is False or given == () else code(getattr(given, "value", given))
