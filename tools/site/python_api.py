"""The public names of gradveil and of gradveil.parts: signatures and docstrings."""

import inspect
from typing import Any

from tools.site.markdown import docstring

import gradveil
from gradveil import parts


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
    given = inspect.signature(value)
    shown = [str(p).replace("gradveil.", "") for name, p in given.parameters.items() if name != "self"]
    line = f"({', '.join(shown)})"
    return line if len(line) < 80 or not inspect.isfunction(value) else f"({', '.join(shown)})"
