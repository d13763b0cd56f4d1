"""Markdown from plain values: tables, code, docstrings."""

import inspect
import re
from collections.abc import Iterable, Sequence


def cell(text: object) -> str:
    r"""Return a text that stands in one cell of a table.

    >>> print(cell("a | b <c>"))
    a \| b &lt;c>
    """
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def code(text: object) -> str:
    """Return a text as code, nothing for an empty one; backquotes inside are kept."""
    words = " ".join(str(text).split()).replace("|", "\\|")
    return "" if not words else f"`` {words} ``" if "`" in words else f"`{words}`"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells are Markdown already."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def docstring(value: object) -> str:
    """Return a docstring as Markdown: examples with >>> become blocks of code, fields of `Args:` stay as they are."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "").replace("<", "&lt;")
    return re.sub(r"(?m)(^>>> .*(?:\n.+)*)", lambda found: f"```pycon\n{found[1].replace('&lt;', '<')}\n```", text)


def sentence(value: object) -> str:
    """Return the first paragraph of a docstring on one line."""
    return " ".join(docstring(value).split("\n\n")[0].split())
