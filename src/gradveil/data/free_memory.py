"""The memory of this process, and the refusal of data that needs more."""

import os
import sys
from pathlib import Path

from gradveil.errors import BadInput

# Where Linux tells the limit of a container: control groups of version 2, then of version 1.
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def available() -> int:
    """Return the bytes this process may use at most: of the machine, its container, or a limit set on the process."""
    return min([_physical(), *_container(), *_process()])


def refuse_beyond(needed: int, what: str, advice: str) -> None:
    """Raise BadInput if `what` needs more bytes than this process may use; the sentence has both numbers and advice."""
    limit = available()
    if needed > limit:
        raise BadInput(
            f"{what} needs about {needed / 1e9:.3g} GB of memory, and this process may use {limit / 1e9:.3g} GB: "
            f"{advice}"
        )


def _physical() -> int:
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return sys.maxsize


def _container() -> list[int]:
    limits = []
    for file in _LIMITS:
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):  # absent, or "max"
            continue
    return limits


def _process() -> list[int]:
    try:
        import resource
    except ImportError:  # not on Windows
        return []
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    return [limit for limit in limits if limit != resource.RLIM_INFINITY]
