"""Run folders on disk: every file is written whole or not at all, and a killed run goes on where it stood.

A folder holds plan.toml, data.json (what was trained on, without a record), environment.json, metrics.jsonl (one line a
round), checkpoints/ (latest.npz and the watched rounds), params.npz and result.json. The checkpoint is the truth: lines
of metrics.jsonl beyond it are cut away when a run goes on.
"""

import fcntl
import hashlib
import io
import json
import os
import platform
import shutil
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

import jax
import numpy as np
import tomli_w

from gradveil import codec
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.federation.server import State
from gradveil.tree import Tree


class Busy(BadInput):
    """Another process is at this folder."""


PLAN, DATA, METRICS, RESULT, PARAMS = "plan.toml", "data.json", "metrics.jsonl", "result.json", "params.npz"
LATEST = Path("checkpoints") / "latest.npz"


def create(folder: Path, plan: Plan, dataset: Dataset) -> None:
    """Lay out a new run folder, or accept one that holds this very plan and data; refuse any other."""
    if (folder / PLAN).exists():
        return _accept(folder, plan, dataset)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"out = {str(folder)!r}: exists and is not a run folder; name a new one")
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "checkpoints").mkdir(parents=True)
    write_json(partial / "environment.json", environment())
    write_json(partial / DATA, _describe(dataset))
    write(partial / PLAN, tomli_w.dumps(codec.encode(plan)).encode())
    os.rename(partial, folder)


def _accept(folder: Path, plan: Plan, dataset: Dataset) -> None:
    if read_toml(folder / PLAN) != codec.encode(plan):
        raise BadInput(f"out = {str(folder)!r}: holds a run of another plan; name a new folder")
    if read_json(folder / DATA)["sha256"] != dataset.digest():
        raise BadInput(f"out = {str(folder)!r}: its run saw other data of {dataset.name!r} than this")


def _describe(dataset: Dataset) -> dict[str, Any]:
    splits = {"train": dataset.train, "validation": dataset.validation, "test": dataset.test}
    return {
        "name": dataset.name,
        "own": dataset.own,
        "sha256": dataset.digest(),
        "shape": list(dataset.shape),
        "classes": list(dataset.classes),
        "examples": {name: 0 if split is None else len(split) for name, split in splits.items()},
        "notes": list(dataset.notes),
    }


def environment() -> dict[str, Any]:
    """Tell what a result depends on besides the plan: versions and devices; nothing that names a person or host."""
    packages = ("gradveil", "jax", "jaxlib", "numpy", "scipy", "scikit-learn", "dp-accounting")
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "packages": {name: version(name) for name in packages},
        "devices": [str(device) for device in jax.local_devices()],
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
    }


def keep_watching(folder: Path, rounds: frozenset[int]) -> None:
    """Remember rounds whose checkpoints are to be kept, beside those remembered before."""
    write_json(folder / "watch.json", {"rounds": sorted(watched(folder) | rounds)})


def watched(folder: Path) -> frozenset[int]:
    """Give the rounds whose checkpoints are to be kept."""
    path = folder / "watch.json"
    return frozenset(read_json(path)["rounds"]) if path.exists() else frozenset()


def read_plan(folder: Path) -> Plan:
    """Read the plan of a run folder."""
    return plan_from(folder / PLAN)


def plan_from(path: Path) -> Plan:
    """Read a plan from a TOML file, strictly."""
    plan: Plan = codec.decode(Plan, read_toml(path))
    return plan


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; a missing or broken one is bad input."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{str(path)!r}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{str(path)!r}: is not TOML ({error})") from None


def save(folder: Path, state: State, watched: bool = False) -> None:
    """Write the checkpoint of a state, and keep a copy under its round if it is watched."""
    leaves = {f"params_{i}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(state.params))}
    leaves |= {f"memory_{i}": np.asarray(a) for i, a in enumerate(jax.tree.leaves(state.memory))}
    content = npz(leaves | {"round": np.int64(state.round), "participations": state.participations})
    if watched:
        write(folder / "checkpoints" / f"round-{state.round:06d}.npz", content)
    write(folder / LATEST, content)


def restore(path: Path, like: State) -> State:
    """Read a checkpoint into the shape of another state of the same plan."""
    with np.load(path, allow_pickle=False) as file:
        params = _refill(like.params, "params", file)
        memory = _refill(like.memory, "memory", file)
        return State(int(file["round"]), params, memory, file["participations"])


def _refill(like: Tree, prefix: str, file: Any) -> Tree:
    leaves, shape = jax.tree.flatten(like)
    stored = [file[f"{prefix}_{i}"] for i in range(len(leaves))]
    for old, new in zip(leaves, stored, strict=True):
        if old.shape != new.shape:
            raise BadInput(f"checkpoint: a tensor of shape {new.shape} was found where the plan has {old.shape}")
    return jax.tree.unflatten(shape, [jax.numpy.asarray(a) for a in stored])


def append_metrics(folder: Path, line: dict[str, Any]) -> None:
    """Add one round's line."""
    with (folder / METRICS).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, allow_nan=False) + "\n")


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """Read the lines that are whole; a line torn by a kill is left out."""
    path = folder / METRICS
    whole = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
    return [json.loads(line) for line in whole]


def cut_metrics(folder: Path, rounds: int) -> None:
    """Cut metrics.jsonl back to the rounds before a checkpoint."""
    kept = [line for line in read_metrics(folder) if line["round"] < rounds]
    write(folder / METRICS, "".join(json.dumps(line) + "\n" for line in kept).encode())


def save_params(folder: Path, params: Tree) -> str:
    """Write the final parameters; returns their SHA-256 over shapes and bytes."""
    arrays = [np.asarray(a) for a in jax.tree.leaves(params)]
    write(folder / PARAMS, npz({f"layer_{i}": a for i, a in enumerate(arrays)}))
    return params_digest(params)


def params_digest(params: Tree) -> str:
    """Give the SHA-256 of a parameter tree."""
    running = hashlib.sha256()
    for array in (np.ascontiguousarray(a) for a in jax.tree.leaves(params)):
        running.update(str((array.dtype.str, array.shape)).encode())
        running.update(array.data)
    return running.hexdigest()


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a run folder for this process alone; the lock ends with the process, however it ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        end = time.monotonic() + 1.0  # whoever only asks whether it is held, holds it for a moment
        while not _taken(file, fcntl.LOCK_EX):
            if time.monotonic() > end:
                raise Busy(f"out = {str(folder)!r}: another process is writing this run")
            time.sleep(0.02)
        yield


def _taken(file: IO[Any], kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def held(folder: Path) -> bool:
    """Whether a process is writing this run now; nothing is written to find out."""
    try:
        with (folder / ".lock").open("rb") as file:
            return not _taken(file, fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def write(path: Path, content: bytes, owner_only: bool = False) -> None:
    """Write a file so that a reader, or a kill at any moment, finds the old content or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    partial.unlink(missing_ok=True)
    with os.fdopen(
        os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if owner_only else 0o666), "wb"
    ) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def write_json(path: Path, value: dict[str, Any], owner_only: bool = False) -> None:
    """Write strict JSON atomically."""
    write(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode(), owner_only)


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; a missing or broken file is bad input."""
    try:
        value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{str(path)!r}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise BadInput(f"{str(path)!r}: is not JSON ({error})") from None
    return value


def npz(arrays: dict[str, Any]) -> bytes:
    """Give the content of an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()
