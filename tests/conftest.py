"""What holds for all tests: one cache of compiled programs on disk, and little memory a worker."""

import ctypes
import fcntl
import gc
import os
import resource
import shutil
import sys
from pathlib import Path

import every_module
import pytest
from platformdirs import user_cache_dir

COMPILED = Path(os.environ.get("GRADVEIL_CACHE") or user_cache_dir("gradveil")) / "compiled-for-tests"
# Set before JAX is imported, and in the environment: workers and all processes that tests start share the programs.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(COMPILED))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

WATCHED = "GRADVEIL_TESTS_WATCHED"
if "--every-module" in sys.argv:
    os.environ[WATCHED] = "1"  # workers are started with this environment, and not with these arguments
if os.environ.get(WATCHED):
    every_module.watch()  # here: conftests of folders, which are imported next, import the package

LOWERINGS, PROGRAMS, ROOM = 600 << 20, 1000 << 20, 150 << 20
"""Bytes beyond which lowered modules are let go between tests, beyond which compiled programs are too, and by how many
more a worker may grow before the next time: not all memory comes back, and each time costs a third of a second."""
KEPT = {"lowerings": 0, "programs": 0}
"""What was still in memory after each was let go the last time."""
RESIDENT = Path("/proc/self/statm")
FLOWER = {
    "cli/conductor.py", "cli/superlink.py", "cli/worker.py", "deployment/local.py", "engines/flower/apps.py",
    "engines/flower/control.py", "engines/flower/gate.py", "engines/flower/superlink.py",
}  # fmt: skip
"""Modules that only processes of Flower run: `make test-flower` tests them."""
UNSEEN = FLOWER | {"__main__.py", "cli/run_story.py", "devices.py"}
"""Modules that are run where nobody watches: by a new process, by the demonstration, by the import of gradveil."""
TOLD: list[dict] = []
"""What each worker told at its end; filled where they are directed from."""


def pytest_sessionstart(session):
    """Remove programs of which a killed process left the name only: JAX would warn of them for ever."""
    if not hasattr(session.config, "workerinput"):
        for file in COMPILED.glob("*-cache"):
            if file.stat().st_size == 0:
                file.unlink(missing_ok=True)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """Make room after every test."""
    make_room(ends=nextitem is None or nextitem.path != item.path)


@pytest.fixture(scope="session")
def made_once(tmp_path_factory):
    """Give a function that has a folder filled once for all workers: `made_once(name, fill)` calls fill(folder).

    Whoever changes what is in it works on a copy.
    """
    base = tmp_path_factory.getbasetemp()
    common = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base

    def made(name, fill):
        folder, filled = common / f"once-{name}", common / f"once-{name}.filled"
        with (common / f"once-{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not filled.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                filled.touch()
        return folder

    return made


SMALL_RUN = {
    "dataset": "synthetic", "method": "fed-cdp", "clients": "4", "cohort": "4", "client-size": "40", "batch": "4",
    "local-steps": "2", "rounds": "2",
}  # fmt: skip
"""The options of a run of a second."""


@pytest.fixture(scope="session")
def small():
    """Give the options of a run of a second."""
    return SMALL_RUN


@pytest.fixture(scope="session")
def attacked_runs(made_once):
    """A folder with two runs, `one` and `two`, both trained within a budget, attacked and reported."""
    from gradveil.cli.main import main

    def fill(folder):
        flags = [part for key, value in SMALL_RUN.items() for part in (f"--{key}", value)]
        for seed, name in enumerate(("one", "two")):
            given = ["--seed", str(seed), "--max-epsilon", "500", "--attack", "--json", "--out", str(folder / name)]
            assert main(["run", *flags, *given]) == 0

    return made_once("attacked-runs", fill)


@pytest.fixture(scope="session")
def room():
    """Make room, for a fixture that compiles much before its first test."""
    return make_room


def make_room(ends=False, all_of_it=False):
    """Let go of what JAX keeps when it becomes too much: first what only lowering needs, then compiled programs.

    ends: whether a file of tests ends here, and with it most uses of its programs. all_of_it: let go of everything, for
    what takes most of the memory that a worker may have.
    """
    from gradveil.engines.cache import MAPS, MOST_MAPS

    if resident() > max(LOWERINGS, KEPT["lowerings"] + ROOM):
        forget_lowerings()
        KEPT["lowerings"] = resident()
    full = resident() > max(PROGRAMS, KEPT["programs"] + ROOM)
    if all_of_it or full or (ends and count_lines(MAPS) > MOST_MAPS):
        forget_programs()
        KEPT["lowerings"] = KEPT["programs"] = resident()


def forget_lowerings():
    """Drop the modules from which programs were compiled: 1.2 MB of the 1.4 MB that a small program takes.

    JAX keeps each in a context of its own for as long as its function lives, and has no public call to drop them alone.
    A program that was compiled is still found, and costs nothing to call again.
    """
    from jax._src import pjit  # here: the variables above must be set before
    from jax._src.interpreters import pxla

    for lowered in (pjit._pjit_lower, pxla._cached_lowering_to_hlo):
        lowered.cache_clear()
    give_back()


def forget_programs():
    """Drop all programs; the disk still has them, but each must be traced and lowered again."""
    import jax

    jax.clear_caches()
    give_back()


def count_lines(path):
    """Count the lines of a file, 0 where there is none."""
    return path.read_bytes().count(b"\n") if path.exists() else 0


def resident():
    """Give the bytes of this process that are in memory, 0 where the system does not say."""
    return int(RESIDENT.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if RESIDENT.exists() else 0


def give_back():
    """Collect garbage and hand it back: glibc keeps it until it is asked, and no other C library has the call."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


def pytest_addoption(parser):
    """Add what `make quick` asks for."""
    parser.addoption("--every-module", action="store_true", help="fail unless every module of gradveil is run")


def told(config):
    """Give what this process tells at its end: the most memory that it held, in bytes, and the modules that it ran."""
    modules = every_module.ran() if config.getoption("--every-module") else []
    return {"peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, "modules": modules}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """Keep what a worker told at its end; one that crashed told nothing."""
    TOLD.append(getattr(node, "workeroutput", {}))


def pytest_sessionfinish(session):
    """Tell whoever directs this worker; there, fail if a module was to be run and was not."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput.update(told(session.config))
        return
    TOLD[:] = TOLD or [told(session.config)]
    if session.config.getoption("--every-module") and not_run() and session.exitstatus == 0:
        session.exitstatus = 1


def not_run():
    """Give the modules that no worker ran."""
    return every_module.missing([module for one in TOLD for module in one.get("modules", [])], UNSEEN)


def pytest_terminal_summary(terminalreporter, config):
    """Say how much memory the workers held, or this process if there are none, and which modules were left out."""
    peaks = [f"{one['peak'] / 1e9:.2f} GB" for one in TOLD if one]
    terminalreporter.write_line(f"memory at most: {', '.join(peaks)}")
    if config.getoption("--every-module"):
        terminalreporter.write_line(f"modules not run: {', '.join(not_run()) or 'none'}")
