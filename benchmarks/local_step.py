"""What a local step of Fed-alphaCDP costs here, beside the plain step, Opacus, and the step's matrix products alone."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from gradveil import keys, methods
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.messages import task_for
from gradveil.federation.plan import Plan
from gradveil.keys import Keys
from gradveil.privacy.method import Method

CHECKOUT = Path(__file__).resolve().parents[1]
PEERS_PYTHON = CHECKOUT / ".venv-peers" / "bin" / "python"

Timer = Callable[[], float]
"""Takes some steps and gives the milliseconds of one."""

Worker = subprocess.Popen[str]
THREADS = (1, 2)
"""The numbers of threads that a PyTorch peer is tried with; the better one counts."""

_SHAPE, _CLASSES, _EXAMPLES = (28, 28, 1), 10, 50_000


@dataclass(frozen=True, slots=True)
class Size:
    """How much is timed: clients (rounded up to fill every device), local steps of each, and interleaved runs."""

    clients: int = 24
    steps: int = 100
    runs: int = 5


_FULL = Size()


def measure(peers_python: Path | None = None, size: Size = _FULL) -> dict[str, Any]:
    """Time everything `size.runs` times in turn and give medians, in milliseconds per client-step.

    Turns share whatever else the machine does, so the ratios are steadier than the figures. Without the Python of the
    peers' environment, Opacus and the floor are left out.
    """
    with ExitStack() as stack:
        peers = _peers(peers_python, size.steps, stack) if peers_python else {}
        stack.enter_context(_compiling_anew())
        ours = {"ours": _ours(methods.FED_ALPHA_CDP, size), "nonprivate": _ours(methods.NON_PRIVATE, size)}
        timers = ours | peers
        first, again = _seconds(ours["ours"]), _seconds(ours["ours"])
        for timer in timers.values():
            timer()
        turns = [{name: timer() for name, timer in timers.items()} for _ in range(size.runs)]
    raw = {name: [turn[name] for turn in turns] for name in timers}
    return _summary(raw) | {"compile_seconds": first - again, "devices": jax.local_device_count(), "raw_ms": raw}


def _summary(raw: dict[str, list[float]]) -> dict[str, Any]:
    """Give the medians, the better of the two Opacus runs, and how they compare."""
    middle = {name: median(values) for name, values in raw.items()}
    opacus = {n: middle[_opacus(n)] for n in THREADS if _opacus(n) in middle}
    threads = min(opacus, key=lambda n: opacus[n]) if opacus else None
    ours, best, floor = middle["ours"], opacus.get(threads or 0), middle.get("floor")
    return {
        "ours_ms": ours,
        "nonprivate_ms": middle["nonprivate"],
        "opacus_ms": best,
        "floor_ms": floor,
        "ours_over_nonprivate": ours / middle["nonprivate"],
        "opacus_over_ours": best / ours if best else None,
        "ours_over_floor": ours / floor if floor else None,
        "opacus_threads": threads,
    }


def _ours(method: Method, size: Size) -> Timer:
    """Prepare a cohort on made-up images of MNIST's shape; a call trains it for one round."""
    devices = jax.local_device_count()
    clients = -(-max(size.clients, 2 * devices) // devices) * devices
    plan = Plan(
        dataset="synthetic",
        method=method,
        clients=clients,
        cohort=clients,
        rounds=1,
        local_steps=size.steps,
        batch=5,
        client_size=500,
        learning_rate=0.05,
    )
    engine, roots = Vectorized(plan, _population(clients, plan.client_size)), Keys.of(plan.seed, secret=False)
    state = server.init(plan, _SHAPE, _CLASSES, roots)
    task = task_for(plan, 0, state.params, state.clip_state, keys.named(roots.private, "round", 0))

    def timer() -> float:
        began = time.perf_counter()
        engine.train(task, np.arange(clients))
        return (time.perf_counter() - began) * 1e3 / (clients * size.steps)

    return timer


def _population(clients: int, held: int) -> Population:
    random = np.random.default_rng(0)
    x = random.integers(0, 256, (_EXAMPLES, *_SHAPE), np.uint8)
    y = random.integers(0, _CLASSES, _EXAMPLES, np.int32)
    return Population(x, y, random.integers(0, _EXAMPLES, (clients, held), np.int32), copies=1)


def _seconds(timer: Timer) -> float:
    began = time.perf_counter()
    timer()
    return time.perf_counter() - began


@contextmanager
def _compiling_anew() -> Iterator[None]:
    """Keep JAX from using compiled programs of earlier runs; it asks once, hence the resets."""
    before = jax.config.values["jax_enable_compilation_cache"]
    jax.config.update("jax_enable_compilation_cache", False)
    reset_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", before)
        reset_cache()


def _opacus(threads: int) -> str:
    return f"opacus_{threads}_threads"


def _peers(python: Path, steps: int, stack: ExitStack) -> dict[str, Timer]:
    """Start the peers; they wait between their turns."""

    def opacus(threads: int) -> Timer:
        waiting = stack.enter_context(worker(python, "opacus_step.py", threads))
        return lambda: _together([waiting], steps)

    timers: dict[str, Timer] = {_opacus(n): opacus(n) for n in THREADS}
    floor = [stack.enter_context(worker(Path(sys.executable), "floor_step.py", 1)) for _ in jax.local_devices()]
    return timers | {"floor": lambda: _together(floor, 10 * steps) / len(floor)}


def _together(workers: list[Worker], steps: int) -> float:
    """Let workers take their steps all at once; gives the milliseconds a step of the slowest."""
    for waiting in workers:
        ask(waiting, str(steps))
    return max(float(answer(waiting)) for waiting in workers)


@contextmanager
def worker(python: Path, script: str, threads: int, *arguments: str) -> Iterator[Worker]:
    """Run a script of benchmarks/ that answers each line it is asked with one line."""
    path = CHECKOUT / "benchmarks" / script
    if not path.is_file():
        raise BadInput("peers: needs a checkout of gradveil's repository, whose benchmarks/ holds what to compare with")
    if not python.is_file():
        raise BadInput(f"peers: there is no Python with Opacus at {python}; run `make bench` to install it")
    env = os.environ | {f"{name}_NUM_THREADS": str(threads) for name in ("OMP", "OPENBLAS", "MKL")}
    command, pipe = [str(python), str(path), str(threads), *arguments], subprocess.PIPE
    started = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1, env=env)
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def ask(worker: Worker, line: str) -> None:
    """Give a worker its next task."""
    assert worker.stdin
    with suppress(BrokenPipeError):  # a worker that stopped says why when it is asked for its answer
        worker.stdin.write(f"{line}\n")


def answer(worker: Worker) -> str:
    """Wait for a worker's line; raise BadInput with its last words if it stopped."""
    assert worker.stdout
    assert worker.stderr
    line = worker.stdout.readline()
    if not line:
        complaint = (worker.stderr.read().strip().splitlines() or ["no reason given"])[-1]
        raise BadInput(f"peers: a script of benchmarks/ stopped ({complaint}); `make bench` installs what it needs")
    return line
