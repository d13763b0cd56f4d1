"""Check that every local link of a built site leads somewhere: `python -m tools.site.links FOLDER`; exit code 1 if not.

Addresses of other hosts are not looked up. Fragments must be ids of the page they lead to.
"""

import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SCRIPTED = ("#", "#top")
"""Fragments that buttons of the theme use."""


@dataclass
class Page(HTMLParser):
    """The links and the ids of one page."""

    links: list[str] = field(default_factory=list)
    ids: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where an element leads, and what it is called."""
        given = dict(attrs)
        self.links += [value for name in ("href", "src") if (value := given.get(name))]
        self.ids |= {value for name in ("id", "name") if (value := given.get(name))}


def read(path: Path) -> Page:
    """Read a page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def broken(folder: Path) -> list[str]:
    """Return the local links that lead nowhere, each after its page; templates of the theme are no pages."""
    found = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    pages = {path.resolve(): read(path) for path in found}
    return [
        f"{path.name}: {link}"
        for path, page in pages.items()
        for link in page.links
        if _leads_nowhere(path, link, pages)
    ]


def _leads_nowhere(path: Path, link: str, pages: dict[Path, Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or link in SCRIPTED:
        return False
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target in pages:
        return bool(parts.fragment) and unquote(parts.fragment) not in pages[target].ids
    return not target.is_file()


if __name__ == "__main__":
    found = broken(Path(sys.argv[1]))
    sys.exit("\n".join(found) if found else None)
