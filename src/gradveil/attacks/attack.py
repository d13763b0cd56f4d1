"""What an attack reconstructs, and running one against many victims on all cores."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import NamedTuple, Protocol, cast

import jax
import numpy as np

from gradveil import keys
from gradveil.attacks.leak import Host, Leak
from gradveil.errors import BadInput, quoted
from gradveil.tree import Array

FRESH_STARTS = 2
"""How often an attack that diverged (NaN) is repeated from another seed."""


class Trajectory(NamedTuple):
    """Snapshots of an attack, the first before any iteration: [s, ...] each.

    x [s, n, ...]: the guesses. logits [s, n, classes or 0]: of labels that are optimized too. loss, iterations and
    evaluations of the objective so far [s].
    """

    x: Array
    logits: Array
    loss: Array
    iterations: Array
    evaluations: Array


@dataclass(frozen=True, slots=True, eq=False)
class Reconstruction:
    """The result of one attack: snapshots, the inferred labels [n] (None if it infers none), and its cost.

    attempts: how often it was started. diverged: how many of those ended in NaN. fitted: whether the guess explains
    what was read (see `fit`), None for attacks whose loss does not tell.
    """

    x: Host
    labels: Host | None
    loss: Host
    iterations: Host
    evaluations: Host
    attempts: int = 1
    diverged: int = 0
    seconds: float = 0.0
    fitted: bool | None = None

    @staticmethod
    def of(trajectory: Trajectory, labels: Host | None) -> "Reconstruction":
        """Return a trajectory on the host, cut after its last move; optimized labels are the likeliest at the end."""
        x, logits, loss, iterations, evaluations = (np.asarray(a) for a in trajectory)
        end = int(np.argmax(iterations == iterations[-1])) + 1
        if logits.shape[-1]:
            labels = np.argmax(logits[end - 1], axis=1)
        return Reconstruction(x[:end], labels, loss[:end], iterations[:end], evaluations[:end])

    @property
    def finite(self) -> bool:
        """Whether the last guess and its loss are finite."""
        return bool(np.isfinite(self.x[-1]).all() and np.isfinite(self.loss[-1]) and self.loss[-1] < 1e29)


class Attack(Protocol):
    """Reconstructs examples from a leak. A value: its parts decide all it does."""

    @property
    def name(self) -> str:
        """Its name in reports."""

    @property
    def restarts(self) -> int:
        """How many starts it has; the one with the smallest loss is used."""

    def refuse(self, leak: Leak) -> None:
        """Raise BadInput if the leak lacks what the attack needs."""

    def prepared(self, leak: Leak, key: Array) -> "Attack":
        """Return the attack ready for leaks of this stage and these parameters: itself, unless it has to learn."""

    def __call__(self, leak: Leak, key: Array) -> Reconstruction:
        """Attack one leak from one start."""


def mountable(value: object) -> "Attack":
    """Return a value that can be mounted; BadInput if it lacks something that an attack has."""
    wanted = ("name", "restarts", "refuse", "prepared", "__call__")
    if isinstance(value, type) or not all(hasattr(value, name) for name in wanted):
        raise BadInput(f"attack = {quoted(value)}: must be a value with {', '.join(wanted)}")
    return cast(Attack, value)


def mount(
    attack: Attack,
    leaks: Sequence[Leak],
    seed: int,
    done: Callable[[int], None] = lambda victim: None,
    cores: int | None = None,
) -> list[Reconstruction]:
    """Attack every leak, one victim per core at a time; `done` is called as each is finished.

    cores: as many as are used; by default all, or half as many as there are victims. The result of a victim depends on
    the seed and its index alone, not on how many others there are.
    """
    for leak in leaks:
        attack.refuse(leak)
    ready = attack.prepared(leaks[0], keys.named(keys.root(seed), "prepare"))
    # A program is compiled for each device, which takes as long as a few attacks: fewer devices for few victims.
    devices = jax.local_devices()[: cores or max(1, len(leaks) // 2)]
    idle: SimpleQueue[jax.Device] = SimpleQueue()
    for device in devices:
        idle.put(device)

    def one(victim: int) -> Reconstruction:
        device = idle.get()
        try:
            with jax.default_device(device):
                result = _best(ready, leaks[victim], seed, victim)
        finally:
            idle.put(device)
        done(victim)
        return result

    with ThreadPoolExecutor(len(devices)) as crew:
        return list(crew.map(one, range(len(leaks))))


def _best(attack: Attack, leak: Leak, seed: int, victim: int) -> Reconstruction:
    """Attack from several starts, and from new ones in place of those that diverged; return the best."""
    started, results, attempt = time.perf_counter(), list[Reconstruction](), 0
    while attempt < attack.restarts + min(sum(not r.finite for r in results), FRESH_STARTS):
        results.append(attack(leak, keys.named(keys.root(seed), "victim", victim, attempt)))
        attempt += 1
    best = min(results, key=lambda r: float(r.loss[-1]) if r.finite else float("inf"))
    seconds = time.perf_counter() - started
    return replace(best, attempts=attempt, diverged=sum(not r.finite for r in results), seconds=seconds)
