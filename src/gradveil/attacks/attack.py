"""What an attack brings home, and running one against many victims on all cores."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import NamedTuple, Protocol

import jax
import numpy as np

from gradveil import keys
from gradveil.attacks.leak import Host, Leak
from gradveil.tree import Array

FRESH_STARTS = 2
"""How often a victim whose attack gave no number is attacked again from another seed."""


class Trajectory(NamedTuple):
    """Snapshots of an attack, the first before any iteration: [s, ...] each.

    x [s, n, ...]: the guesses. logits [s, n, classes or 0]: of labels found along. loss, iterations and evaluations of
    the objective so far [s].
    """

    x: Array
    logits: Array
    loss: Array
    iterations: Array
    evaluations: Array


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What one attack found: snapshots, the labels it settled on [n] (None if it seeks none), and what it took.

    attempts: how often it was started. diverged: how many of those gave no number.
    """

    x: Host
    labels: Host | None
    loss: Host
    iterations: Host
    evaluations: Host
    attempts: int = 1
    diverged: int = 0
    seconds: float = 0.0

    @staticmethod
    def of(trajectory: Trajectory, labels: Host | None) -> "Found":
        """Bring a trajectory to the host, cut after its last move; labels found along are the likeliest at the end."""
        x, logits, loss, iterations, evaluations = (np.asarray(a) for a in trajectory)
        end = int(np.argmax(iterations == iterations[-1])) + 1
        if logits.shape[-1]:
            labels = np.argmax(logits[end - 1], axis=1)
        return Found(x[:end], labels, loss[:end], iterations[:end], evaluations[:end])

    @property
    def finite(self) -> bool:
        """Whether the last guess and its loss are numbers."""
        return bool(np.isfinite(self.x[-1]).all() and np.isfinite(self.loss[-1]) and self.loss[-1] < 1e29)


class Attack(Protocol):
    """Something that makes guesses from a leak. A value: its parts decide all it does."""

    @property
    def name(self) -> str:
        """What reports call it."""

    @property
    def restarts(self) -> int:
        """From how many starts it is run; the one with the smallest loss counts."""

    def refuse(self, leak: Leak) -> None:
        """Raise BadInput if the leak lacks what the attack needs."""

    def prepared(self, leak: Leak, key: Array) -> "Attack":
        """Return the attack ready for leaks of this stage and these parameters: itself, unless it has to learn."""

    def __call__(self, leak: Leak, key: Array) -> Found:
        """Attack one leak from one start."""


def mount(
    attack: Attack, leaks: Sequence[Leak], seed: int, done: Callable[[int], None] = lambda victim: None
) -> list[Found]:
    """Attack every leak, a victim a core at a time; `done` is called as each is finished.

    The result of a victim depends on the seed and its place alone, not on how many others there are.
    """
    for leak in leaks:
        attack.refuse(leak)
    ready = attack.prepared(leaks[0], keys.named(keys.root(seed), "prepare"))
    # A program is compiled for each device, which takes as long as a few attacks: fewer devices for few victims.
    devices = jax.local_devices()[: max(1, len(leaks) // 2)]
    idle: SimpleQueue[jax.Device] = SimpleQueue()
    for device in devices:
        idle.put(device)

    def one(victim: int) -> Found:
        device = idle.get()
        try:
            with jax.default_device(device):
                found = _best(ready, leaks[victim], seed, victim)
        finally:
            idle.put(device)
        done(victim)
        return found

    with ThreadPoolExecutor(len(devices)) as crew:
        return list(crew.map(one, range(len(leaks))))


def _best(attack: Attack, leak: Leak, seed: int, victim: int) -> Found:
    """Attack from several starts, and from fresh ones in place of those that gave no number."""
    began, founds, attempt = time.perf_counter(), list[Found](), 0
    while attempt < attack.restarts + min(sum(not f.finite for f in founds), FRESH_STARTS):
        founds.append(attack(leak, keys.named(keys.root(seed), "victim", victim, attempt)))
        attempt += 1
    best = min(founds, key=lambda f: float(f.loss[-1]) if f.finite else float("inf"))
    spent = time.perf_counter() - began
    return replace(best, attempts=attempt, diverged=sum(not f.finite for f in founds), seconds=spent)
