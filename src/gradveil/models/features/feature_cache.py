"""Features on disk, in gradveil's cache folder: computed once for a dataset, found again by what they were made from.

A file is named by the SHA-256 of the features' description, of the examples and of this room's source code, so a change
of any of them makes another file. It appears whole or not at all, and one that was damaged is made again. Features of
private records are as private as the records: only their owner may read the files.
"""

import hashlib
import os
import tempfile
import zipfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from platformdirs import user_cache_dir

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.models.features.description import Features
from gradveil.models.features.extract import Constants, Progress, build, extract, silent
from gradveil.models.features.maps import Shape

Host = np.ndarray[Any, Any]
Arrays = dict[str, Host]


def features_folder() -> Path:
    """Return the folder of cached features: below GRADVEIL_CACHE, or below the user's cache folder."""
    return Path(os.environ.get("GRADVEIL_CACHE") or user_cache_dir("gradveil")).expanduser() / "features"


def cached_features(features: Features, x: Host, progress: Progress = silent, folder: Path | None = None) -> Host:
    """Return what `extract` returns: float32 [n, k], from the cache if it is there."""
    place = folder or features_folder()

    def make() -> Arrays:
        constants = cached_constants(features, x.shape[1:], progress, place)
        return {"features": extract(features, x, progress, constants)}

    return _kept(place / f"{examples_digest(features, x)}.npz", ("features",), make)["features"]


def cached_constants(
    features: Features, shape: Shape, progress: Progress = silent, folder: Path | None = None
) -> Constants:
    """Return what `build` returns, from the cache if it is there."""

    def make() -> Arrays:
        made = build(features, shape, progress)
        return {"filters": _or_empty(made.filters), "matrix": _or_empty(made.matrix)}

    name = f"constants-{_digest(features, repr(tuple(shape)).encode())}.npz"
    arrays = _kept((folder or features_folder()) / name, ("filters", "matrix"), make)
    return Constants(*(arrays[name] if arrays[name].size else None for name in ("filters", "matrix")))


def _or_empty(array: Host | None) -> Host:
    return np.zeros(0, np.float32) if array is None else array


def examples_digest(features: Features, x: Host) -> str:
    """Return the SHA-256 by which the features of some examples are kept."""
    running = hashlib.sha256(str((x.dtype.str, x.shape)).encode())
    running.update(np.ascontiguousarray(x).data)
    return _digest(features, running.digest())


def _digest(features: Features, rest: bytes) -> str:
    parts = (codec.digest(features), code_digest(), rest)
    return hashlib.sha256(b"\0".join(p if isinstance(p, bytes) else p.encode() for p in parts)).hexdigest()


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Return the SHA-256 of the source code that decides what features are."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    files.append(Path(__file__).parents[1] / "convolution.py")
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def _kept(path: Path, names: tuple[str, ...], make: Callable[[], Arrays]) -> Arrays:
    """Return the arrays of a file; make and store them where it is missing or damaged."""
    arrays = _read(path, names)
    if arrays is None:
        arrays = make()
        _store(path, arrays)
    return arrays


def _read(path: Path, names: tuple[str, ...]) -> Arrays | None:
    """Return the named arrays of a file, None if it is missing or damaged; checksums are compared."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError):
        return None


def _store(path: Path, arrays: Arrays) -> None:
    """Write a file that only its owner may read, under another name first, so that it is whole or not there."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise BadInput(
            f"{path.parent} cannot be written ({error.strerror}); set GRADVEIL_CACHE to another folder"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
