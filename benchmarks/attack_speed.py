"""How many victims a minute the CPL attack takes on here, beside the same attack as a loop in PyTorch."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax
import numpy as np
from benchmarks.local_step import THREADS, answer, ask, worker

from gradveil import methods
from gradveil.attacks.attack import mount
from gradveil.attacks.leak import Leak
from gradveil.attacks.score import RULES, Truth, judge
from gradveil.attacks.zoo import CPL
from gradveil.data.dataset import Array, Dataset, Split
from gradveil.data.partition import Iid
from gradveil.data.sources import load
from gradveil.errors import BadInput
from gradveil.federation.leaks import Tap
from gradveil.federation.plan import Plan
from gradveil.leakage import scenes
from gradveil.leakage.attack_run import leak_of, public_half
from gradveil.models.networks import AttackNet
from gradveil.surface import Surface
from gradveil.tree import Tree

ATTACK = replace(CPL, stop=1e-5)
"""The attack that is timed; benchmarks/dlg_attack.py stops at the same loss."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is attacked: victims a turn, and turns of everyone."""

    victims: int = 12
    turns: int = 3

    def lots(self) -> list[range]:
        """Give the numbers of the victims of each turn; no one is attacked in two."""
        return [range(self.victims * turn, self.victims * (turn + 1)) for turn in range(self.turns)]


class Turn(NamedTuple):
    """What came of one turn: victims per minute, and the share rebuilt to a clamped RMSE of at most 0.1."""

    vpm: float
    success: float


Attacker = Callable[[range], Turn]
"""Attacks the victims of these numbers."""

_FULL = Effort()


def measure(peers_python: Path | None = None, effort: Effort = _FULL) -> dict[str, Any]:
    """Let everyone attack the same victims in turn; gives median speeds, and success over all turns.

    The first attacks, which compile or start PyTorch, are made beforehand and not counted. Without the Python of the
    peers' environment, only ours is timed.
    """
    data = dataset()
    victims = _victims(data, effort.victims * effort.turns)
    with ExitStack() as stack:
        attackers: dict[str, Attacker] = {"ours": lambda lot: _ours(victims, lot)}
        if peers_python:
            attackers |= {_peer(n): stack.enter_context(_attacker(peers_python, victims, n)) for n in THREADS}
        for attack in attackers.values():
            attack(range(min(jax.local_device_count(), len(victims))))
        turns = [{name: attack(lot) for name, attack in attackers.items()} for lot in effort.lots()]
    raw = {name: [turn[name] for turn in turns] for name in attackers}
    return _summary(raw) | {"attack_data": data.name, "attack_victims": len(victims)}


def _summary(raw: dict[str, list[Turn]]) -> dict[str, Any]:
    """Give median speeds, mean success, and the better of the two numbers of threads for the peer."""
    vpm = {name: median(turn.vpm for turn in turns) for name, turns in raw.items()}
    success: dict[str, float | None] = {name: fmean(turn.success for turn in turns) for name, turns in raw.items()}
    threads = max((n for n in THREADS if _peer(n) in vpm), key=lambda n: vpm[_peer(n)], default=None)
    peer = _peer(threads) if threads else ""
    return {
        "attack_ours_vpm": vpm["ours"],
        "attack_peer_vpm": vpm.get(peer),
        "attack_ours_success": success["ours"],
        "attack_peer_success": success.get(peer),
        "attack_ours_over_peer": vpm["ours"] / vpm[peer] if threads else None,
        "attack_peer_threads": threads,
        "raw_vpm": {name: [turn.vpm for turn in turns] for name, turns in raw.items()},
    }


def dataset() -> Dataset:
    """Give MNIST if it is on this machine, else scikit-learn's digits in its size; nothing is downloaded."""
    try:
        return load("mnist", allow_download=False)
    except BadInput:
        small = load("digits")
        train, test = (Split(_enlarged(split.x), split.y) for split in (small.train, small.test))
        return replace(small, name="digits enlarged to 28 x 28", train=train, test=test)


def _enlarged(images: Array) -> Array:
    """Make 28 x 28 of 8 x 8: every pixel becomes 3 x 3, with a black frame of 2 around all."""
    return np.pad(np.kron(images, np.ones((1, 3, 3, 1), images.dtype)), ((0, 0), (2, 2), (2, 2), (0, 0)))


_Victim = tuple[Leak, Truth]


def _victims(data: Dataset, count: int) -> list[_Victim]:
    """Read the gradient of one example each from `count` clients, at a fresh network without protection."""
    plan = Plan(
        dataset=data.name,
        method=methods.NON_PRIVATE,
        clients=count,
        cohort=count,
        rounds=1,
        local_steps=1,
        batch=1,
        client_size=1,
        learning_rate=0.1,
        model=AttackNet(),
        partition=Iid(),
    )
    scene, public = scenes.fresh(plan, data, Tap(Surface.EXAMPLE, single=True)), public_half(data)
    return [leak_of(scene, client, public) for client in range(count)]


def _ours(victims: list[_Victim], lot: range) -> Turn:
    """Attack on all cores; the number of the first victim seeds the starts. The referee is not timed."""
    leaks, truths = zip(*(victims[n] for n in lot), strict=True)
    began = time.perf_counter()
    founds = mount(ATTACK, leaks, lot.start)
    seconds = time.perf_counter() - began
    verdicts = [judge(f, t, k, RULES["default"]) for f, t, k in zip(founds, truths, leaks, strict=True)]
    return Turn(60 * len(lot) / seconds, fmean(v.success for v in verdicts))


def _peer(threads: int) -> str:
    return f"peer_{threads}_threads"


@contextmanager
def _attacker(python: Path, victims: list[_Victim], threads: int) -> Iterator[Attacker]:
    """Start PyTorch with the victims and the network in a file; it waits between its turns."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "victims.npz"
        tensors = torch_tensors(victims[0][0].readings[0].params)
        x, y = (np.concatenate(parts) for parts in zip(*((t.x, t.y) for _, t in victims), strict=True))
        np.savez(file, *tensors, x=x.transpose(0, 3, 1, 2), y=y)
        with worker(python, "dlg_attack.py", threads, str(file)) as waiting:

            def attack(lot: range) -> Turn:
                ask(waiting, f"{lot.start} {len(lot)}")
                said = json.loads(answer(waiting))
                return Turn(60 * len(lot) / said["seconds"], said["successes"] / len(lot))

            yield attack


def torch_tensors(params: Tree) -> list[Array]:
    """Lay the parameters of the AttackNet on 28 x 28 out as PyTorch does: [out, in, 5, 5] four times, [out, in]."""
    *convolutions, dense = (np.asarray(p) for p in params[::2])
    kernels = [k.reshape(5, 5, -1, 12).transpose(3, 2, 0, 1) for k in convolutions]
    last = dense.reshape(7, 7, 12, -1).transpose(3, 2, 0, 1).reshape(-1, 7 * 7 * 12)
    biases = (np.asarray(b) for b in params[1::2])
    return [tensor for layer in zip([*kernels, last], biases, strict=True) for tensor in layer]
