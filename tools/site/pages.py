"""The pages that come from the code: `python -m tools.site.pages FOLDER`; docs/conf.py writes them for every build."""

import sys
from collections.abc import Callable
from pathlib import Path

from tools.site import files, named, python_api, records, root_files, verbs

PAGES: dict[str, Callable[[], str]] = {
    "verbs": verbs.page,
    "files": files.page,
    "schemas": records.page,
    "python": python_api.page,
    "names": named.page,
    "contributing": root_files.contributing,
    "changes": root_files.changes,
}


def write(folder: Path) -> None:
    """Write every page; one that did not change keeps its time, so that Sphinx need not read it again."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in PAGES.items():
        path, text = folder / f"{name}.md", page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
