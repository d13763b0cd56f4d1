"""One process at a time: the lock of a run folder, which ends with its process, however that ends."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from gradveil.errors import BadInput
from gradveil.runs.store.files import opened, refusing

LOCK = ".lock"


class Busy(BadInput):
    """Another process is at this folder."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder for this process alone; the lock ends with the process, however it ends."""
    with refusing(folder, "written"):
        folder.mkdir(parents=True, exist_ok=True)
        file = os.fdopen(opened(folder / LOCK, os.O_RDWR | os.O_CREAT), "rb")
    with file:
        end = time.monotonic() + 1.0  # `is_locked` of another process holds it for a moment
        while not _acquired(file, fcntl.LOCK_EX):
            if time.monotonic() > end:
                raise Busy(f"out = {str(folder)!r}: another process is writing this run")
            time.sleep(0.02)
        yield


def _acquired(file: IO[Any], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_locked(folder: Path) -> bool:
    """Whether a process is writing this run now; nothing is written to find out."""
    try:
        with os.fdopen(opened(folder / LOCK, os.O_RDONLY), "rb") as file:
            return not _acquired(file, fcntl.LOCK_SH)
    except (OSError, BadInput):
        return False
