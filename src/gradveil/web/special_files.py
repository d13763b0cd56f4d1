"""The files of a run folder that pages read."""

import hashlib
import stat
from collections.abc import Iterator
from pathlib import Path

from gradveil.auditing.audit_record import AUDIT
from gradveil.errors import BadInput
from gradveil.runs import store

FILES = (store.PLAN, store.DATA, "environment.json", store.METRICS, store.RESULT, AUDIT)
OTHER_FILES = (".lock", "watch.json")
"""Read too, and in no report."""


def sources(folder: Path) -> Iterator[Path]:
    """Return the files that a report is made from, as far as they are there, in a fixed order."""
    named = (folder / name for name in FILES)
    yield from (path for path in named if path.exists())
    yield from sorted((folder / "attacks").glob("*.json"))
    yield from sorted((folder / "attacks").glob("*.npz"))


def refuse_odd_files(folder: Path) -> None:
    """Refuse what is no plain file: to read a pipe would never end."""
    others = [path for path in (folder / name for name in OTHER_FILES) if path.exists()]
    for path in [*sources(folder), *others]:
        if not stat.S_ISREG(path.stat().st_mode):
            raise BadInput(f"{str(path.relative_to(folder))!r} is not a file")


Signature = tuple[tuple[str, int, int, int], ...]


def signature(folder: Path) -> Signature:
    """Return what tells without reading whether a file that a report depends on was changed since."""
    refuse_odd_files(folder)
    about = ((path.name, path.stat()) for path in sources(folder))
    return tuple((name, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in about)


def digest(folder: Path) -> str:
    """Return the SHA-256 of all that a report of this folder depends on: names and contents."""
    refuse_odd_files(folder)
    running = hashlib.sha256()
    for path in sources(folder):
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        running.update(f"{path.name}\n{content}\n".encode("utf-8", "surrogateescape"))
    return running.hexdigest()
