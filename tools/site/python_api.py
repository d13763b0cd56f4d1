"""The public names of gradveil and of gradveil.parts: signatures and docstrings."""

import inspect
import re
from typing import Any

from tools.site.markdown import docstring

import gradveil
from gradveil import parts

MODULES = re.compile(r"(?:[A-Za-z_]+[.])+(?=[A-Za-z_])")
LONGEST = 60
"""Characters of arguments on one line."""


def page() -> str:
    """Return the page of the Python interface."""
    about = "`import gradveil` gives these names; JAX starts when the first of them is used."
    mine = [name for name in gradveil.__all__ if name not in ("__version__", "methods", "parts")]
    theirs = [name for name in parts.__all__ if name not in mine]
    return (
        "\n\n".join(
            [
                "# Python",
                about,
                *(_entry(f"gradveil.{name}", getattr(gradveil, name)) for name in ordered(gradveil, mine)),
                "## gradveil.parts",
                docstring(parts),
                *(_entry(f"parts.{name}", getattr(parts, name)) for name in ordered(parts, theirs)),
            ]
        )
        + "\n"
    )


def ordered(module: Any, names: list[str]) -> list[str]:
    """Return functions first, then classes, each by name."""
    return sorted(names, key=lambda name: (inspect.isclass(getattr(module, name)), name))


def _entry(name: str, value: Any) -> str:
    text = f"{'###' if name.startswith('parts.') else '##'} {name}\n\n{_signature(name, value)}\n\n{docstring(value)}"
    if not inspect.isclass(value) or issubclass(value, Exception):
        return text
    return "\n\n".join([text, *(_method(value, member) for member in members(value))])


def members(cls: Any) -> list[str]:
    """Return the public methods and properties that a class itself defines and describes."""
    return [
        name
        for name, member in vars(cls).items()
        if not name.startswith("_") and inspect.getdoc(member) and _called(member) is not None
    ]


def _called(member: Any) -> Any:
    """Return the function behind a method or property, None for anything else."""
    inner = getattr(member, "__func__", None) or (member.fget if isinstance(member, property) else member)
    return inner if inspect.isfunction(inner) else None


def _method(cls: Any, name: str) -> str:
    member = vars(cls)[name]
    call = "" if isinstance(member, property) else _arguments(_called(member))
    return f"**`{cls.__name__}.{name}{call}`**\n\n{docstring(_called(member))}"


def _signature(name: str, value: Any) -> str:
    if inspect.isclass(value) and not issubclass(value, Exception) and "__init__" in vars(value):
        return f"```python\n{name}{_arguments(value)}\n```"
    return f"```python\n{name}{_arguments(value)}\n```" if inspect.isfunction(value) else ""


def _arguments(value: Any) -> str:
    """Return the arguments with their types; a long list has one a line."""
    given = [one for name, one in inspect.signature(value).parameters.items() if name != "self"]
    shown = [_argument(one) for one in given]
    keywords = [place for place, one in enumerate(given) if one.kind is one.KEYWORD_ONLY]
    if keywords and not any(one.kind is one.VAR_POSITIONAL for one in given):
        shown.insert(keywords[0], "*")
    line = f"({', '.join(shown)})"
    return line if len(line) < LONGEST else f"({''.join(f'{chr(10)}    {one},' for one in shown)}{chr(10)})"


def _argument(one: inspect.Parameter) -> str:
    """Return one argument; types are named without their modules."""
    bare = one.replace(annotation=inspect.Parameter.empty, default=inspect.Parameter.empty)
    typed = "" if one.annotation is one.empty else f": {inspect.formatannotation(one.annotation)}"
    given = "" if one.default is one.empty else f" = {getattr(one.default, 'name', None) or repr(one.default)}"
    return f"{bare}{MODULES.sub('', typed)}{given}"
