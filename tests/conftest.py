"""What holds for all tests: one cache of compiled programs on disk, and little memory a worker."""

import ctypes
import gc
import os
import resource
import sys
from pathlib import Path

import pytest
from platformdirs import user_cache_dir

COMPILED = Path(os.environ.get("GRADVEIL_CACHE") or user_cache_dir("gradveil")) / "compiled-for-tests"
# Set before JAX is imported, and in the environment: workers and all processes that tests start share the programs.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILED))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

import jax  # noqa: E402

from gradveil.engines.cache import MAPS, MOST_MAPS  # noqa: E402

MOST_RESIDENT = 800 << 20
"""Bytes beyond which compiled programs are let go between tests. A worker held gigabytes of them at its end."""
RESIDENT = Path("/proc/self/statm")
PEAKS = []
"""The most memory that each worker held, in bytes; filled where they are directed from."""


def pytest_sessionstart(session):
    """Remove programs of which a killed process left the name only: JAX would warn of them for ever."""
    if not hasattr(session.config, "workerinput"):
        for file in COMPILED.glob("*-cache"):
            if file.stat().st_size == 0:
                file.unlink(missing_ok=True)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Let go of compiled programs when they become too many; the disk still has them."""
    ends = nextitem is None or nextitem.path != item.path
    if resident() > MOST_RESIDENT or (ends and MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS):
        jax.clear_caches()
        gc.collect()
        give_back()


def resident():
    """Give the bytes of this process that are in memory, 0 where the system does not say."""
    return int(RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if RESIDENT.exists() else 0


def give_back():
    """Hand freed memory back: glibc keeps it until it is asked, and no other C library has the call."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def pytest_sessionfinish(session):
    """Tell whoever directs this worker how much memory it held at most."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Keep what a worker told at its end."""
    PEAKS.append(getattr(node, "workeroutput", {}).get("peak", 0))


def pytest_terminal_summary(terminalreporter):
    """Say how much memory the workers held, or this process if there are none."""
    peaks = PEAKS or [resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]
    terminalreporter.write_line(f"memory at most: {', '.join(f'{peak / 1e9:.2f} GB' for peak in peaks)}")
