"""CONTRIBUTING.md and CHANGELOG.md as pages of the site: the same text, with links as they are from there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}
"""Files of the root by their pages."""


def contributing() -> str:
    """Return the page for contributors."""
    return moved((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))


def changes() -> str:
    """Return the page of changes."""
    return moved((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))


def moved(text: str) -> str:
    """Return Markdown of the root with links as they are from docs/generated.

    >>> moved("[a](docs/a.md#b) [c](CHANGELOG.md) [d](https://d.org)")
    '[a](../a.md#b) [c](changes.md) [d](https://d.org)'
    """
    text = re.sub(r"\]\(docs/", "](../", text)
    return re.sub(r"\]\(([A-Z]+\.md)\)", lambda found: f"]({PLACES.get(found[1], found[1])})", text)
