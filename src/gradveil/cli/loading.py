"""Loading a dataset for a command: with a bar while a large table is read, and a table only once."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from gradveil.cli.output import bar, doing
from gradveil.data import sources
from gradveil.data.dataset import Dataset


def load(name: str, *, data_dir: Path | None = None, train_all: bool = False, **stated: Any) -> Dataset:
    """Load a dataset as `sources.load` does; a table of the user's own shows how far it is read."""
    path = Path(name).expanduser()
    if train_all or path.suffix.lower() != ".csv" or not path.is_file():
        with doing(f"loading {path.name or name}"):
            return sources.load(name, data_dir=data_dir, train_all=train_all, **stated)
    status = os.stat(path)
    return _table(name, tuple(sorted(stated.items())), (status.st_ino, status.st_size, status.st_mtime_ns))


@lru_cache(maxsize=1)
def _table(name: str, stated: tuple[tuple[str, Any], ...], version: tuple[int, ...]) -> Dataset:
    """Read a table; a command asks for it to resolve a plan and again to train, and `version` tells if it changed."""
    with bar(f"reading {Path(name).name}", 100, 0) as advance:
        percent = 0

        def advance_to(share: float) -> None:
            nonlocal percent
            steps, percent = round(100 * share) - percent, round(100 * share)
            advance("", steps)

        return sources.load(name, progress=advance_to, **dict(stated))
