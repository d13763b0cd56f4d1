"""How many victims a minute and core CPL, DLG and GradInv take on here, beside the same attacks as loops in PyTorch.

One core against one core: ours runs a victim on every core at a time, PyTorch as many processes of one thread.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import jax
import numpy as np
from benchmarks.local_step import Worker, answer, ask, worker

from gradveil import methods
from gradveil.attacks.attack import mount
from gradveil.attacks.leak import Leak
from gradveil.attacks.matching import Matching
from gradveil.attacks.score import RULES, Truth, judge
from gradveil.attacks.zoo import CPL, DLG, GRADINV
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

TIMED = (replace(CPL, stop=1e-5), replace(DLG, stop=1e-5), replace(GRADINV, iterations=480))
"""The attacks that are timed. benchmarks/torch_attacks.py stops at the same loss and takes as many iterations.

GradInv never stops early, so a tenth of its iterations tells its speed.
"""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much is attacked: victims a turn, and turns of everyone."""

    victims: int = 12
    turns: int = 3

    def lots(self) -> list[range]:
        """Give the numbers of the victims of each turn; no one is attacked in two."""
        return [range(self.victims * turn, self.victims * (turn + 1)) for turn in range(self.turns)]


class Turn(NamedTuple):
    """What came of one turn: victims per minute, the share rebuilt (clamped RMSE at most 0.1), processor seconds."""

    vpm: float
    success: float
    cpu_seconds: float


_Victim = tuple[Leak, Truth]
Attacker = Callable[[range], Turn]
"""Attacks the victims of these numbers."""

_FULL = Effort()


def measure(
    peers_python: Path | None = None, effort: Effort = _FULL, attacks: Sequence[Matching] = TIMED
) -> dict[str, Any]:
    """Let everyone attack the same victims in turn; gives median speeds, and success over all turns.

    `attacks` of the result has a row for each attack; what stands beside it is the first one's.
    """
    data = dataset()
    victims = _victims(data, effort.victims * effort.turns)
    rows = [{"attack": attack.name} | _timed(attack, victims, peers_python, effort) for attack in attacks]
    about = {"attack_data": data.name, "attack_victims": len(victims), "attacks": rows}
    return {name: figure for name, figure in rows[0].items() if name != "attack"} | about


def _timed(attack: Matching, victims: list[_Victim], peers_python: Path | None, effort: Effort) -> dict[str, Any]:
    """Time one attack. The first turns, which compile or start PyTorch, are made beforehand and not counted.

    Without the Python of the peers' environment, only ours is timed.
    """
    with ExitStack() as stack:
        attackers: dict[str, Attacker] = {"ours": lambda lot: _ours(attack, victims, lot)}
        if peers_python:
            attackers["peer"] = stack.enter_context(_attacker(peers_python, attack, victims, _cores()))
        for attacker in attackers.values():
            attacker(range(min(2 * _cores(), len(victims))))  # a core is used from two victims on
        turns = [{name: attacker(lot) for name, attacker in attackers.items()} for lot in effort.lots()]
    return _summary({name: [turn[name] for turn in turns] for name in attackers}, _cores())


def _cores() -> int:
    return jax.local_device_count()


def _summary(raw: dict[str, list[Turn]], cores: int) -> dict[str, Any]:
    """Give median speeds, of all cores and of each, and mean success; null for a peer that was not run.

    `attack_peer_cpu_over_ours` is the median over turns of the peer's processor time over ours, which other work on the
    machine disturbs less.
    """
    vpm = {name: median(turn.vpm for turn in turns) for name, turns in raw.items()}
    success = {name: fmean(turn.success for turn in turns) for name, turns in raw.items()}
    peer = vpm.get("peer")
    pairs = zip(raw["ours"], raw.get("peer", []), strict=peer is not None)
    cpu_ratios = [theirs.cpu_seconds / ours.cpu_seconds for ours, theirs in pairs]
    return {
        "attack_ours_vpm": vpm["ours"],
        "attack_peer_vpm": peer,
        "attack_ours_vpm_per_core": vpm["ours"] / cores,
        "attack_peer_vpm_per_core": peer / cores if peer else None,
        "attack_ours_success": success["ours"],
        "attack_peer_success": success.get("peer"),
        "attack_ours_over_peer": vpm["ours"] / peer if peer else None,
        "attack_peer_cpu_over_ours": median(cpu_ratios) if cpu_ratios else None,
        "attack_cores": cores,
        "attack_peer_processes": cores if peer else None,
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


def _ours(attack: Matching, victims: list[_Victim], lot: range) -> Turn:
    """Attack on all cores; the number of the first victim seeds the starts. The referee is not timed."""
    leaks, truths = zip(*(victims[n] for n in lot), strict=True)
    began, cpu_began = time.perf_counter(), time.process_time()
    founds = mount(attack, leaks, lot.start)
    seconds, cpu_seconds = time.perf_counter() - began, time.process_time() - cpu_began
    verdicts = [judge(f, t, k, RULES["default"]) for f, t, k in zip(founds, truths, leaks, strict=True)]
    return Turn(60 * len(lot) / seconds, fmean(v.success for v in verdicts), cpu_seconds)


@contextmanager
def _attacker(python: Path, attack: Matching, victims: list[_Victim], processes: int) -> Iterator[Attacker]:
    """Start PyTorch, one thread a process, with the victims and the network in a file; it waits between its turns."""
    with TemporaryDirectory() as folder, ExitStack() as stack:
        file = Path(folder) / "victims.npz"
        tensors = torch_tensors(victims[0][0].readings[0].params)
        x, y = (np.concatenate(parts) for parts in zip(*((t.x, t.y) for _, t in victims), strict=True))
        np.savez(file, *tensors, x=x.transpose(0, 3, 1, 2), y=y)
        command = ("torch_attacks.py", 1, attack.name, str(attack.iterations), str(file))
        waiting = [stack.enter_context(worker(python, *command)) for _ in range(processes)]
        yield lambda lot: _together(waiting, lot)


def _together(workers: list[Worker], lot: range) -> Turn:
    """Share victims out among workers that attack at the same time; the slowest one ends the turn."""
    shares = [lot[i * len(lot) // len(workers) : (i + 1) * len(lot) // len(workers)] for i in range(len(workers))]
    busy = [(each, share) for each, share in zip(workers, shares, strict=True) if share]
    for each, share in busy:
        ask(each, f"{share.start} {len(share)}")
    said = [json.loads(answer(each)) for each, _ in busy]
    seconds, cpu_seconds = max(one["seconds"] for one in said), sum(one["cpu_seconds"] for one in said)
    return Turn(60 * len(lot) / seconds, sum(one["successes"] for one in said) / len(lot), cpu_seconds)


def torch_tensors(params: Tree) -> list[Array]:
    """Lay the parameters of the AttackNet on 28 x 28 out as PyTorch does: [out, in, 5, 5] four times, [out, in]."""
    *convolutions, dense = (np.asarray(p) for p in params[::2])
    kernels = [k.reshape(5, 5, -1, 12).transpose(3, 2, 0, 1) for k in convolutions]
    last = dense.reshape(7, 7, 12, -1).transpose(3, 2, 0, 1).reshape(-1, 7 * 7 * 12)
    biases = (np.asarray(b) for b in params[1::2])
    return [tensor for layer in zip([*kernels, last], biases, strict=True) for tensor in layer]
