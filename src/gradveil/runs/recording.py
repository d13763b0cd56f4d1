"""Leaks of a run whose noise is secret: its keys are never stored, so watched rounds are recorded while they happen.

A file holds, for a few clients of a round, every reading that an adversary could have taken of their first local step
and of their update, and the one reading of the sum over all clients. It holds raw gradients, so only its owner may
read it.
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
from gradveil.federation.leaks import AGGREGATE, MODEL, VIEWS, Read, Tap
from gradveil.federation.plan import Plan
from gradveil.federation.rounds import cohort_of
from gradveil.federation.server import State
from gradveil.federation.sum_leaks import SUM, read_sum, shows_sums
from gradveil.keys import Keys
from gradveil.models.gradients import trained
from gradveil.runs import store

CLIENTS = 8
"""Clients of a watched round that are recorded; each takes some ten gradients."""
_PARTS = ("params", "clip_state", "gradient", "std")


def record(folder: Path, plan: Plan, population: Population, state: State, roots: Keys) -> None:
    """Read some clients of the round after `state` at every tap and write what was read.

    A preparation shows no gradient, so nothing is written.
    """
    if plan.stage(state.round) is not None:
        return
    cohort = cohort_of(plan, state.round, roots)
    arrays: dict[str, Any] = {"clients": cohort[:CLIENTS]}
    for client in cohort[:CLIENTS]:
        for tap in _taps(plan):
            read = leaks.read(plan, population, state, roots, int(client), tap)
            arrays |= {f"{_name(tap)}/{client}/{key}": value for key, value in _flat(read).items()}
    if shows_sums(plan):
        read = read_sum(plan, population, state, leaks.round_key(state, roots), cohort)
        arrays |= {f"{_name(SUM)}/0/{key}": value for key, value in _flat(read).items()}
    path = _path(folder, state.round)
    store.write(path, store.npz(arrays), owner_only=True)


def _taps(plan: Plan) -> list[Tap]:
    """List all taps of one client: of whole batches and updates, and of single examples where those can be read."""
    taps = [Tap(surface, view) for surface, views in VIEWS.items() for view in views if view not in (AGGREGATE, MODEL)]
    closest = [Tap.at(plan, tap.surface, tap.view) for tap in taps]
    return [*taps, *(tap for tap in closest if tap.single)]


def _name(tap: Tap) -> str:
    return f"{int(tap.surface)}-{tap.view}{'-single' if tap.single else ''}"


def _path(folder: Path, t: int) -> Path:
    return folder / "leaks" / f"round-{t:06d}.npz"


def _flat(read: Read) -> dict[str, Any]:
    """Return a reading as named arrays; the structure of its trees follows from the plan."""
    leaves = {part: jax.tree.leaves(getattr(read, part)) for part in _PARTS}
    return (
        {f"{part}_{i}": np.asarray(a) for part, all_ in leaves.items() for i, a in enumerate(all_)}
        | {"rows": read.rows}
        | {f"slots_{i}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(read.slots))}
    )


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
        place = f"{_name(self.tap)}/{client}"
        # A clip writes one array of slots or none, and files of earlier versions hold none.
        return Read(**parts, rows=arrays[f"{place}/rows"], slots=arrays.get(f"{place}/slots_0", ()))

    def _tree(self, arrays: dict[str, Any], client: int, part: str) -> Any:
        shape = self.shapes[part]
        name = partial("{}/{}/{}_{}".format, _name(self.tap), client, part)
        return jax.tree.unflatten(shape, [arrays[name(i)] for i in range(shape.num_leaves)])


def recorded_rounds(folder: Path) -> list[int]:
    """Return the rounds of which readings were recorded."""
    return sorted(store.by_round(folder / "leaks"))


def load(folder: Path, plan: Plan, tap: Tap, rounds: tuple[int, ...] | None, like: State) -> Records:
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
    clients = set.intersection(*(set(_clients(f, tap)) for f in files))
    weights = trained(plan.model, like.params)
    like_parts = {"params": like.params, "clip_state": like.clip_state, "gradient": weights, "std": weights}
    shapes = {part: jax.tree.structure(value) for part, value in like_parts.items()}
    return Records(chosen, np.array(sorted(clients), np.int32), tap, tuple(files), shapes)


def _clients(arrays: dict[str, Any], tap: Tap) -> list[int]:
    """Return whose readings a file holds: its clients, or the one cohort, which is number 0."""
    return [0] if tap.view == AGGREGATE else list(map(int, arrays["clients"]))


def _recorded(path: Path, tap: Tap) -> dict[str, Any]:
    """Read what one file holds of a tap; refuse one that lacks a reading."""
    arrays = store.read_npz(path)
    readings = {name: a for name, a in arrays.items() if "/" not in name or name.startswith(f"{_name(tap)}/")}
    clients = _clients(readings, tap) if "clients" in readings else [None]
    if any(f"{_name(tap)}/{client}/rows" not in readings for client in clients):
        raise BadInput(f"{str(path)!r}: holds no readings of {tap.view!r} at surface {int(tap.surface)}")
    return readings
