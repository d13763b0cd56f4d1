"""Checkpoints and parameters. A checkpoint is the first thing that a round writes, and holds all of it.

Its state, its line of metrics.jsonl and its place in the chain are one file, written at once. So whatever is killed
when, a round of which anything can be seen is never drawn again, which matters where the noise is secret; and one of
which nothing can be seen was not released.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.federation.server import State
from gradveil.runs.run_records import RoundLine
from gradveil.runs.store import files
from gradveil.runs.store.files import Record
from gradveil.runs.store.folder_records import decoded
from gradveil.runs.store.history import METRICS, PLANS, History, link, plan_at, read_history
from gradveil.runs.store.result import RESULT, refuse_rolled_back, undamaged_result
from gradveil.tree import Tree

CHECKPOINTS, PARAMS = "checkpoints", "params.npz"
LATEST = Path(CHECKPOINTS) / "latest.npz"
Arrays = dict[str, np.ndarray[Any, Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """A state, the line of the round that led to it (None before the first), and the chain's digest after it."""

    state: State
    line: RoundLine | None
    head: str


def watched_path(folder: Path, rounds: int) -> Path:
    """Name the checkpoint that is kept of a watched round, by the rounds done."""
    return folder / CHECKPOINTS / f"round-{rounds:06d}.npz"


def save(folder: Path, checkpoint: Checkpoint, watched: bool = False) -> None:
    """Write the checkpoint, and a copy under its round if it is watched."""
    state = checkpoint.state
    leaves: Record = {f"params_{i}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(state.params))}
    leaves |= {f"clip_state_{i}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(state.clip_state))}
    leaves |= {f"server_state_{i}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(state.server_state))}
    line = b"" if checkpoint.line is None else json.dumps(checkpoint.line.plain(), allow_nan=False).encode()
    leaves |= {"line": np.frombuffer(line, np.uint8), "head": np.frombuffer(checkpoint.head.encode(), np.uint8)}
    content = files.npz(leaves | {"round": np.int64(state.round), "participations": state.participations})
    files.write(folder / LATEST, content)
    if watched:
        files.write(watched_path(folder, state.round), content)


def read_checkpoint(path: Path, like: State) -> Checkpoint:
    """Read a checkpoint into the shape of another state of the same plan."""
    arrays = files.read_npz(path)
    state = State(
        _number(path, arrays),
        _refilled(path, like.params, "params", arrays),
        _refilled(path, like.clip_state, "clip_state", arrays),
        _alike(path, "participations", like.participations, arrays),
        _refilled(path, like.server_state, "server_state", arrays),
    )
    text = _array(path, "line", arrays).tobytes()
    line = _line(path, text) if text else None
    return Checkpoint(state, line, _text(_array(path, "head", arrays)))


def _line(path: Path, text: bytes) -> RoundLine:
    where = f"{str(path)!r}, line"
    return decoded(RoundLine, files.parsed(text, where), where)


def _text(stored: np.ndarray[Any, Any]) -> str:
    return stored.tobytes().decode(errors="replace")


def _array(path: Path, name: str, arrays: Arrays) -> np.ndarray[Any, Any]:
    if name not in arrays:
        raise BadInput(f"{str(path)!r}: holds no {name}; it is no checkpoint of this run")
    return arrays[name]


def _number(path: Path, arrays: Arrays) -> int:
    number = _array(path, "round", arrays)
    if number.shape != () or number.dtype != np.int64 or number < 0:
        raise BadInput(f"{str(path)!r}: its round must be a whole number, at least 0")
    return int(number)


def _alike(path: Path, name: str, like: Any, arrays: Arrays) -> np.ndarray[Any, Any]:
    """Return an array if it has the shape and type that the plan gives it, and is finite."""
    array = _array(path, name, arrays)
    if (array.shape, array.dtype) != (like.shape, like.dtype):
        raise BadInput(
            f"{str(path)!r}: {name} is {array.dtype} of shape {array.shape} where the plan has {like.dtype} of shape "
            f"{like.shape}"
        )
    if not np.isfinite(array).all():
        raise BadInput(f"{str(path)!r}: {name} is not finite")
    return array


def _refilled(path: Path, like: Tree, prefix: str, arrays: Arrays) -> Tree:
    leaves, shape = jax.tree.flatten(like)
    stored = [_alike(path, f"{prefix}_{i}", old, arrays) for i, old in enumerate(leaves)]
    return jax.tree.unflatten(shape, [jax.numpy.asarray(a) for a in stored])


def restore(path: Path, like: State, history: History | None = None) -> State:
    """Read the state of a checkpoint; with a history, only if it belongs to it."""
    checkpoint = read_checkpoint(path, like)
    if history is not None:
        _check(path, checkpoint, history)
    return checkpoint.state


def _check(path: Path, checkpoint: Checkpoint, history: History) -> None:
    """Refuse a checkpoint of another run, or of rounds that metrics.jsonl does not have."""
    done, recorded = checkpoint.state.round, len(history.lines)
    if done > recorded + 1:
        raise BadInput(f"{str(path)!r}: is of round {done}, but {METRICS} has only {recorded} rounds")
    if done == recorded + 1:
        plan = plan_at(history.plan, history.earlier, recorded)
        follows = (
            checkpoint.line is not None and link(history.heads[-1], plan, checkpoint.line.plain()) == checkpoint.head
        )
    else:
        follows = history.heads[done] == checkpoint.head
    if not follows:
        raise BadInput(f"{str(path)!r}: does not belong to the plan, the data and the metrics of this folder")
    if checkpoint.line is not None and checkpoint.line.state_sha256 != state_digest(checkpoint.state):
        raise BadInput(f"{str(path)!r}: its state is not the one in which its round ended")


def latest(folder: Path, history: History, like: State) -> Checkpoint | None:
    """Return the checkpoint to resume from, or None before anything was trained; refuse to lose rounds."""
    path, recorded = folder / LATEST, len(history.lines)
    if not files.exists(path):
        _refuse_if_trained(folder, recorded)
        return None
    checkpoint = read_checkpoint(path, like)
    _check(path, checkpoint, history)
    if checkpoint.state.round < recorded:
        raise BadInput(
            f"{str(path)!r}: is of round {checkpoint.state.round}, but {METRICS} has {recorded} rounds; a released "
            "round must not be trained again"
        )
    return checkpoint


def _refuse_if_trained(folder: Path, recorded: int) -> None:
    """Refuse a folder without a checkpoint if any of its files shows that rounds were done."""
    watched = sorted(t for t in files.by_round(folder / CHECKPOINTS) if t)
    ends = [name for name in (PARAMS, RESULT) if files.exists(folder / name)]
    if recorded or watched or ends:
        done = (
            f"{METRICS} has {recorded} rounds"
            if recorded
            else f"{ends[0]} is there"
            if ends
            else f"round {watched[0]} is"
        )
        raise BadInput(
            f"{str(folder / LATEST)!r}: is missing, but {done}; a released round must not be trained again, so restore "
            "the checkpoint or name a new folder"
        )


def inspect(folder: Path, plan: Plan) -> History:
    """Return the history of a run for readers, perhaps while it is trained; refuse one that was cut.

    A line that a kill kept from metrics.jsonl is taken from the checkpoint.
    """
    path, result = (
        folder / LATEST,
        undamaged_result(folder),
    )  # the last that is written is read first, since all only grow
    arrays = files.read_npz(path, ("round", "head", "line")) if files.exists(path) else None
    history = read_history(folder, plan)
    recorded = len(history.lines)
    if arrays is None:
        _refuse_if_trained(folder, recorded)
        return history
    done, head = _number(path, arrays), _text(arrays["head"])
    if done == recorded + 1:
        line = _line(path, arrays["line"].tobytes())
        history.lines.append(line)
        history.heads.append(link(history.heads[-1], plan_at(plan, history.earlier, recorded), line.plain()))
    if done > len(history.lines) or history.heads[done] != head:
        raise BadInput(f"{str(folder / METRICS)!r}: does not lead to the checkpoint; one of them was damaged or edited")
    refuse_rolled_back(folder, result, history.heads)
    _refuse_later_stretch(folder, history)
    return history


def _refuse_later_stretch(folder: Path, history: History) -> None:
    """Refuse a stretch of earlier rounds that ends after the last: its noise would be that of another plan."""
    ends, done = [stretch.until for stretch in history.earlier], len(history.lines)
    if ends != sorted(ends) or (ends and ends[-1] > done):
        raise BadInput(f"{str(folder / PLANS)!r}: names rounds up to {max(ends)}, but the run has done only {done}")


def state_digest(state: State) -> str:
    """Return the SHA-256 of a state: parameters, what a clip remembers, and who took part how often."""
    learned = [*jax.tree.leaves(state.params), *jax.tree.leaves(state.clip_state)]
    return _digest([*learned, state.participations, *jax.tree.leaves(state.server_state)])


def params_digest(params: Tree) -> str:
    """Return the SHA-256 of a parameter tree over shapes and bytes."""
    return _digest(jax.tree.leaves(params))


def _digest(arrays: Iterable[Any]) -> str:
    running = hashlib.sha256()
    for array in map(np.ascontiguousarray, arrays):
        running.update(str((array.dtype.str, array.shape)).encode())
        running.update(array.data)
    return running.hexdigest()


def save_params(folder: Path, params: Tree) -> str:
    """Write the final parameters; returns their SHA-256 over shapes and bytes."""
    arrays = [np.asarray(a) for a in jax.tree.leaves(params)]
    files.write(folder / PARAMS, files.npz({f"layer_{i}": a for i, a in enumerate(arrays)}))
    return params_digest(params)


def read_params(folder: Path, like: Tree, digest: str) -> Tree:
    """Read the final parameters into the shape of a model; refuse others than those whose digest is stored."""
    path, (leaves, shape) = folder / PARAMS, jax.tree.flatten(like)
    arrays = files.read_npz(path)
    stored = [_alike(path, f"layer_{i}", old, arrays) for i, old in enumerate(leaves)]
    params = jax.tree.unflatten(shape, [jax.numpy.asarray(a) for a in stored])
    if params_digest(params) != digest:
        raise BadInput(f"{str(path)!r}: does not hold the parameters whose digest is in result.json")
    return params
