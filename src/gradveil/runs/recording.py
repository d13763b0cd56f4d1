"""Leaks of a run whose noise is secret: its keys are never stored, so watched rounds are recorded while they happen.

A file holds, for a few clients of a round, every reading that an adversary could have taken of their first local step
and of their update. It holds raw gradients, so only its owner may read it.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gradveil.errors import BadInput
from gradveil.federation import leaks
from gradveil.federation.engine import Population
from gradveil.federation.leaks import VIEWS, Read, Tap
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import cohort_of
from gradveil.federation.server import State
from gradveil.keys import Keys
from gradveil.runs import store

CLIENTS = 8
"""Clients of a watched round that are recorded; each takes some ten gradients."""
_PARTS = ("params", "clip_state", "gradient", "std")


def record(folder: Path, plan: Plan, population: Population, state: State, roots: Keys) -> None:
    """Read some clients of the round after `state` at every tap and write what was read."""
    cohort = cohort_of(plan, state.round, roots)[:CLIENTS]
    arrays: dict[str, Any] = {"clients": cohort}
    for client in cohort:
        for tap in _taps(plan):
            read = leaks.read(plan, population, state, roots, int(client), tap)
            arrays |= {f"{_name(tap)}/{client}/{key}": value for key, value in _flat(read).items()}
    path = _path(folder, state.round)
    store.write(path, store.npz(arrays), owner_only=True)


def _taps(plan: Plan) -> list[Tap]:
    """List all taps: of whole batches and updates, and of single examples where those can be read."""
    taps = [Tap(surface, view) for surface, views in VIEWS.items() for view in views]
    closest = [Tap.at(plan, tap.surface, tap.view) for tap in taps]
    return [*taps, *(tap for tap in closest if tap.single)]


def _name(tap: Tap) -> str:
    return f"{int(tap.surface)}-{tap.view}{'-single' if tap.single else ''}"


def _path(folder: Path, t: int) -> Path:
    return folder / "leaks" / f"round-{t:06d}.npz"


def _flat(read: Read) -> dict[str, Any]:
    """Return a reading as named arrays; the structure of its trees follows from the plan."""
    leaves = {part: jax.tree.leaves(getattr(read, part)) for part in _PARTS}
    return {f"{part}_{i}": np.asarray(a) for part, all_ in leaves.items() for i, a in enumerate(all_)} | {
        "rows": read.rows
    }


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Recorded rounds, the clients that are in all of them, and read(client, r)."""

    rounds: tuple[int, ...]
    clients: np.ndarray[Any, Any]
    tap: Tap
    files: tuple[dict[str, Any], ...]
    shapes: dict[str, Any]

    def read(self, client: int, r: int) -> Read:
        """Return the reading of a client in the r-th round."""
        arrays = self.files[r]
        parts = {part: self._tree(arrays, client, part) for part in _PARTS}
        return Read(**parts, rows=arrays[f"{_name(self.tap)}/{client}/rows"])

    def _tree(self, arrays: dict[str, Any], client: int, part: str) -> Any:
        shape = self.shapes["clip_state" if part == "clip_state" else "params"]
        name = partial("{}/{}/{}_{}".format, _name(self.tap), client, part)
        return jax.tree.unflatten(shape, [arrays[name(i)] for i in range(shape.num_leaves)])


def recorded_rounds(folder: Path) -> list[int]:
    """Return the rounds of which readings were recorded."""
    return sorted(store.by_round(folder / "leaks"))


def load(folder: Path, tap: Tap, rounds: tuple[int, ...] | None, like: State) -> Records:
    """Read recorded rounds, the latest if none are named; `like` is any state of the plan."""
    recorded = recorded_rounds(folder)
    chosen = rounds if rounds is not None else tuple(recorded[-1:])
    if not chosen or not set(chosen) <= set(recorded):
        available = f"only rounds {', '.join(map(str, recorded))} were recorded" if recorded else "none was recorded"
        raise BadInput(
            f"round: the noise of this run is secret, so only recorded rounds can be attacked, and {available}; "
            "record rounds with --watch while training"
        )
    files = []
    for t in chosen:
        files.append(_recorded(_path(folder, t), tap))
    clients = set.intersection(*(set(map(int, f["clients"])) for f in files))
    shapes = {"params": jax.tree.structure(like.params), "clip_state": jax.tree.structure(like.clip_state)}
    return Records(chosen, np.array(sorted(clients), np.int32), tap, tuple(files), shapes)


def _recorded(path: Path, tap: Tap) -> dict[str, Any]:
    """Read what one file holds of a tap; refuse one that lacks a reading."""
    arrays = store.read_npz(path)
    readings = {name: a for name, a in arrays.items() if "/" not in name or name.startswith(f"{_name(tap)}/")}
    clients = readings["clients"].tolist() if "clients" in readings else [None]
    if any(f"{_name(tap)}/{client}/rows" not in readings for client in clients):
        raise BadInput(f"{str(path)!r}: holds no readings of {tap.view!r} at surface {int(tap.surface)}")
    return readings
