"""The local folders of datasets: finding their files, checking them, and writing them atomically."""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from gradveil.data import decode
from gradveil.data.catalog import Form, Source
from gradveil.errors import BadInput


def cache_folder() -> Path:
    """Return the per-user cache, or the folder that the environment names in GRADVEIL_CACHE."""
    named = os.environ.get("GRADVEIL_CACHE")
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("gradveil", appauthor=False)


def folders(data_dir: Path | None) -> tuple[Path, ...]:
    """Return the local folders in order: `data_dir` or else GRADVEIL_DATA, then the cache."""
    if data_dir is not None and not data_dir.is_dir():
        raise BadInput(f"the data folder {data_dir} does not exist or is not a folder")
    named = str(data_dir or os.environ.get("GRADVEIL_DATA") or "")
    return ((Path(named).expanduser(),) if named else ()) + (cache_folder(),)


def present(source: Source, folder: Path) -> Iterator[tuple[Form, Path | None]]:
    """Yield for each file of the dataset the form found in `folder` and its path, or the first form and None."""
    for forms in source.files:
        candidates = [(form, folder / source.name / form.name) for form in forms]
        yield next(((form, path) for form, path in candidates if path.is_file()), (forms[0], None))


def holding(source: Source, data_dir: Path | None) -> Path | None:
    """Return the first local folder that holds every file of the dataset, or None."""
    complete = (folder for folder in folders(data_dir) if all(path for _, path in present(source, folder)))
    return next((folder / source.name for folder in complete), None)


def fingerprint(form: Form, content: bytes) -> str:
    """Return the digest or count of the content that `form.expected` states."""
    if form.algorithm == "counts":
        return decode.lfw_counts(content)
    return hashlib.new(form.algorithm, content, usedforsecurity=False).hexdigest()


def check(form: Form, content: bytes, name: str) -> bytes:
    """Return the content if it is the published one; otherwise BadInput with its name and both digests."""
    actual = fingerprint(form, content)
    if actual != form.expected:
        raise BadInput(
            f"{name} is not the published file: its {form.algorithm} is {actual} where {form.expected} is expected"
        )
    return content


def contents(source: Source, folder: Path) -> Iterator[bytes]:
    """Yield the checked content of each file, in the catalog's order, from `folder`/NAME."""
    for form, path in present(source, folder):
        if path is None:
            raise BadInput(f"{folder / source.name / form.name} is missing; run `gradveil data fetch {source.name}`")
        yield check(form, read(path), str(path))


def read(path: Path) -> bytes:
    """Return the whole content of a file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror})") from error


def store(path: Path, content: bytes) -> None:
    """Write a file atomically: under its final name it is either complete or not there.

    The bytes go to a hidden file in the same folder, reach the disk, and only then take the name.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, partial = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise BadInput(
            f"{path.parent} cannot be written ({error.strerror}); set GRADVEIL_CACHE to another folder"
        ) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except BaseException:
        Path(partial).unlink(missing_ok=True)
        raise
