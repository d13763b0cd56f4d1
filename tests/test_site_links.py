"""Local links: of every Markdown file to files and headings that exist, and of a built site to its own pages."""

import re
from pathlib import Path

import pytest
from tools.site.links import broken

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PAGES = [page for page in PAGES if "generated" not in page.parts]


def anchors(text):
    """Give the anchors of headings, as GitHub and MyST make them."""
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def lost(page):
    """Give the links of a page that lead to no file, or to no heading of it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        path, _, anchor = link.partition("#")
        target = (page.parent / path) if path else page
        if "://" not in link and (not target.exists() or (anchor and anchor not in anchors(target.read_text()))):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    assert list(lost(page)) == []


def test_every_page_of_docs_is_in_the_table_of_contents():
    listed = "\n".join(p.read_text() for p in (ROOT / "docs" / n for n in ("index.md", "reference.md", "decisions.md")))
    pages = [page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in PAGES if "docs" in page.parts]
    unlisted = {page for page in pages if not re.search(rf"^{re.escape(page)}$", listed, re.MULTILINE)}
    assert {page for page in unlisted if not page.startswith(("decisions/", "schemas/"))} == {"index"}


@pytest.mark.parametrize(
    ("link", "found"),
    [
        ("b.html", False),
        ("b.html#here", False),
        ("#top", False),
        ("https://x.org/", False),
        ("c.html", True),
        ("b.html#there", True),
        ("_static/x.js", True),
    ],
)
def test_a_link_of_a_built_site_that_leads_nowhere_is_found(tmp_path, link, found):
    (tmp_path / "a.html").write_text(f'<p><a href="{link}">a link</a></p>')
    (tmp_path / "b.html").write_text('<h1 id="here">a heading</h1>')
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "template.html").write_text('<a href="{{ pathto(x) }}">of the theme</a>')
    assert broken(tmp_path) == ([f"a.html: {link}"] if found else [])
