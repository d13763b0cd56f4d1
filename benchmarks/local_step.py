"""What a local step of Fed-alphaCDP costs here, beside the plain step, Opacus, and the step's matrix products alone."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import jax
import numpy as np
from benchmarks.step_cases import CASES, HELD, Case
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from gradveil import keys, methods
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.messages import task_for
from gradveil.federation.plan import Plan
from gradveil.keys import Keys
from gradveil.privacy.method import Method

CHECKOUT = Path(__file__).resolve().parents[1]
PEERS_PYTHON = CHECKOUT / ".venv-peers" / "bin" / "python"


class Cost(NamedTuple):
    """Milliseconds of one client-step: by the clock with all cores at work, and of one processor."""

    ms: float
    cpu_ms: float


Timer = Callable[[], Cost]
"""Takes some steps and gives the cost of one."""

Worker = subprocess.Popen[str]
THREADS = (1, 2)
"""The numbers of threads that a PyTorch peer is tried with; the better one counts."""
WAYS = ("per-layer", "ghost", "fast")
"""How Opacus clips: gradients of every example, or two backward passes, which it offers for large batches."""
LARGE = 32
"""The smallest batch that all ways are tried with."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much is timed: clients (rounded up to fill every device), examples that each trains on, interleaved runs."""

    clients: int = 8
    examples: int = 500
    runs: int = 5

    def steps(self, batch: int) -> int:
        """Return the local steps of a client."""
        return max(2, self.examples // batch)


_FULL = Size()


def measure(peers_python: Path | None = None, size: Size = _FULL, cases: Sequence[Case] = CASES) -> dict[str, Any]:
    """Time every case; the figures of the first are also given by themselves, with the seconds its compiling took.

    Without the Python of the peers' environment, Opacus and the floor are left out.
    """
    rows = [measure_case(case, peers_python, size) for case in cases]
    first = {key: value for key, value in rows[0].items() if key not in ("dataset", "batch")}
    return first | {"devices": jax.local_device_count(), "steps": rows}


def measure_case(case: Case, peers_python: Path | None, size: Size) -> dict[str, Any]:
    """Time one case `size.runs` times in turn and give medians, in milliseconds per client-step.

    Turns share whatever else the machine does, so ratios, taken within turns, are steadier than the figures.
    """
    with ExitStack() as stack:
        peers = _peers(peers_python, case, size, stack) if peers_python else {}
        stack.enter_context(_compiling_anew())
        methods_timed = {"ours": methods.FED_ALPHA_CDP, "nonprivate": methods.NON_PRIVATE}
        ours = {name: _ours(method, case, size) for name, method in methods_timed.items()}
        timers = ours | peers
        first, again = _seconds(ours["ours"]), _seconds(ours["ours"])
        for timer in timers.values():
            timer()
        turns = [{name: timer() for name, timer in timers.items()} for _ in range(size.runs)]
    raw = {name: [turn[name] for turn in turns] for name in timers}
    return {"dataset": case.dataset, "batch": case.batch} | summary(raw) | {"compile_seconds": first - again}


def summary(raw: dict[str, list[Cost]]) -> dict[str, Any]:
    """Give medians by clock and by processor, the best of Opacus, and medians of how they compare in each turn."""
    clock = {name: median(cost.ms for cost in costs) for name, costs in raw.items()}
    cpu = {name: median(cost.cpu_ms for cost in costs) for name, costs in raw.items()}
    opacus = min((name for name in raw if name.startswith("opacus")), key=lambda name: clock[name], default="")
    floor = "floor" if "floor" in raw else ""
    pairs = {"ours_over_nonprivate": ("ours", "nonprivate"), "ours_over_floor": ("ours", floor)}
    pairs["opacus_over_ours"] = (opacus, "ours")
    named = {"ours": "ours", "nonprivate": "nonprivate", "opacus": opacus, "floor": floor}
    return (
        {f"{label}_ms": clock.get(name) for label, name in named.items()}
        | {f"{label}_cpu_ms": cpu.get(name) for label, name in named.items()}
        | {key: _ratio(raw.get(a), raw.get(b), 0) for key, (a, b) in pairs.items()}
        | {f"{key}_cpu": _ratio(raw.get(a), raw.get(b), 1) for key, (a, b) in pairs.items()}
        | {"opacus_way": opacus.removeprefix("opacus ") or None}
        | {"raw_ms": {name: [cost.ms for cost in costs] for name, costs in raw.items()}}
    )


def _ratio(above: list[Cost] | None, below: list[Cost] | None, which: int) -> float | None:
    if not above or not below:
        return None
    return median(a[which] / b[which] for a, b in zip(above, below, strict=True))


def _ours(method: Method, case: Case, size: Size) -> Timer:
    """Prepare a cohort on made-up examples; a call trains it for one round."""
    devices, steps = jax.local_device_count(), size.steps(case.batch)
    clients = -(-max(size.clients, 2 * devices) // devices) * devices
    plan = Plan(
        dataset="synthetic",
        method=method,
        clients=clients,
        cohort=clients,
        rounds=1,
        local_steps=steps,
        batch=case.batch,
        client_size=HELD,
        learning_rate=0.05,
        model=case.model,
    )
    engine, roots = Vectorized(plan, case.population(clients)), Keys.of(plan.seed, secret=False)
    state = server.init(plan, case.shape, case.classes, roots)
    task = task_for(plan, 0, state.params, state.clip_state, keys.named(roots.private, "round", 0))

    def timer() -> Cost:
        began, used = time.perf_counter(), time.process_time()
        engine.train(task, np.arange(clients))
        passed = time.perf_counter() - began, time.process_time() - used
        return Cost(*(1e3 * seconds / (clients * steps) for seconds in passed))

    return timer


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


def _peers(python: Path, case: Case, size: Size, stack: ExitStack) -> dict[str, Timer]:
    """Start the peers; they wait between their turns."""
    steps, about = size.steps(case.batch), (case.dataset, str(case.batch))

    def opacus(way: str, threads: int) -> Timer:
        waiting = stack.enter_context(worker(python, "opacus_step.py", threads, *about, way))
        return lambda: _together([waiting], steps)

    ways = WAYS if case.batch >= LARGE else WAYS[:1]
    timers: dict[str, Timer] = {f"opacus {way}, {n} threads": opacus(way, n) for way in ways for n in THREADS}
    cores = jax.local_devices()
    floor = [stack.enter_context(worker(Path(sys.executable), "floor_step.py", 1, *about)) for _ in cores]
    return timers | {"floor": lambda: _shared(_together(floor, 10 * steps), len(floor))}


def _shared(cost: Cost, cores: int) -> Cost:
    """Return the cost of a step where every core takes steps at once."""
    return Cost(cost.ms / cores, cost.cpu_ms)


def _together(workers: list[Worker], steps: int) -> Cost:
    """Let workers take their steps all at once; gives the milliseconds a step of the slowest."""
    for waiting in workers:
        ask(waiting, str(steps))
    answers = [[float(number) for number in answer(waiting).split()] for waiting in workers]
    return Cost(*(max(column) for column in zip(*answers, strict=True)))


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
