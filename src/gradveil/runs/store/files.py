"""Files that are whole or not there, and readers that answer what is damaged with one sentence.

What a run folder says in JSON is sealed: the key `seal` holds the SHA-256 of the rest, so a file that was cut, flipped
or edited by hand is noticed. A seal has no key: it is no defence against somebody who makes a new one.
"""

import errno
import hashlib
import io
import json
import math
import os
import stat
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.errors import BadInput

Record = dict[str, Any]
SEAL = "seal"


@contextmanager
def refusing(path: Path, done: str) -> Iterator[None]:
    """Turn what the operating system refuses, such as a full disk or a path too long, into bad input."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"{str(path)!r}: cannot be {done} ({error.strerror or error})") from None
    except BadInput:
        raise
    except ValueError as error:  # a path that no file can have, such as one with a zero byte
        raise BadInput(f"{str(path)!r}: cannot be {done} ({error})") from None


def exists(path: Path) -> bool:
    """Whether a path exists; one that cannot be asked for is bad input."""
    with refusing(path, "read"):
        return path.exists()


def write(path: Path, content: bytes, owner_only: bool = False) -> None:
    """Write a file so that a reader, or a kill at any moment, finds the old content or the new one.

    A device, a pipe or a socket is refused: it would be replaced by the new file.
    """
    with refusing(path, "written"):
        _refuse_special(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.partial")
        partial.unlink(missing_ok=True)
        try:
            _fill(partial, content, 0o600 if owner_only else 0o666)
            os.replace(partial, path)
        finally:
            with suppress(OSError):
                partial.unlink(missing_ok=True)
        _flush_folder(path.parent)


def _refuse_special(path: Path) -> None:
    """Refuse a path, or what a link there leads to, that exists and is no regular file."""
    with suppress(FileNotFoundError):
        _refuse_unless_regular(path, path.stat())


def _refuse_unless_regular(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise BadInput(f"{str(path)!r}: is a device, a pipe or a socket, where a regular file is expected")


def opened(path: Path, flags: int) -> int:
    """Open a regular file without waiting, as a pipe would make one wait; gives its descriptor."""
    _refuse_special(path)
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    try:
        _refuse_unless_regular(path, os.fstat(descriptor))  # again: it may have been exchanged meanwhile
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _fill(path: Path, content: bytes, mode: int) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush_folder(folder: Path) -> None:
    """Let a new name outlive a power cut before anything that is written later."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file, on disk when this returns; what could not be added whole is taken away again."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    with refusing(path, "written"), os.fdopen(opened(path, flags), "ab", buffering=0) as file:
        before = os.fstat(file.fileno()).st_size
        try:
            remaining = memoryview(content)
            while remaining:
                remaining = remaining[file.write(remaining) :]
            os.fsync(file.fileno())
        except OSError:
            os.ftruncate(file.fileno(), before)
            raise


def read(path: Path) -> bytes:
    """Read a file; one that is missing, or is no regular file, is bad input."""
    with refusing(path, "read"), os.fdopen(opened(path, os.O_RDONLY), "rb") as file:
        return file.read()


def read_toml(path: Path) -> Record:
    """Read a TOML file; a missing or broken one is bad input."""
    try:
        return tomllib.loads(read(path).decode("utf-8"))
    except RecursionError:
        raise BadInput(f"{str(path)!r}: is nested too deep to be read") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{str(path)!r}: is not TOML ({error})") from None


def parsed(text: str | bytes, where: str) -> Record:
    """Read a JSON object; anything else is bad input."""
    try:
        value = json.loads(text, parse_float=_finite, parse_constant=_finite)
    except RecursionError:
        raise BadInput(f"{where}: is nested too deep to be read") from None
    except ValueError as error:
        raise BadInput(f"{where}: is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise BadInput(f"{where}: a JSON object is expected, not {type(value).__name__}")
    return value


def _finite(text: str) -> float:
    """Read a number; NaN, Infinity and what a float cannot hold are none."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no finite number")
    return number


def read_json(path: Path) -> Record:
    """Read a JSON object from a file; a missing or broken one is bad input."""
    return parsed(read(path), repr(str(path)))


def write_json(path: Path, value: Record, owner_only: bool = False) -> None:
    """Write strict JSON atomically."""
    write(path, (json.dumps(value, indent=2, allow_nan=False) + "\n").encode(), owner_only)


def digest(value: Any) -> str:
    """Return the SHA-256 of plain data as canonical JSON."""
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def write_sealed(path: Path, value: Record, owner_only: bool = False) -> None:
    """Write a JSON object with its seal."""
    write_json(path, {**value, SEAL: digest(value)}, owner_only)


def read_sealed(path: Path) -> Record:
    """Read a JSON object that `write_sealed` wrote, without its seal; refuse one that was changed since."""
    value = read_json(path)
    if value.pop(SEAL, None) != digest(value):
        raise BadInput(f"{str(path)!r}: was damaged or edited after it was written")
    return value


def npz(arrays: Record) -> bytes:
    """Return the content of an .npz file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def read_npz(path: Path, names: Iterable[str] | None = None) -> dict[str, np.ndarray[Any, Any]]:
    """Read the arrays of an .npz file, or those named; nothing pickled is opened, and checksums are compared."""
    content = read(path)
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in (file.files if names is None else names)}
    except KeyError as error:
        raise BadInput(f"{str(path)!r}: holds no array {error.args[0]}") from None
    except Exception as error:  # zip and npy readers raise a dozen types for damaged bytes, EOFError among them
        raise BadInput(f"{str(path)!r}: is damaged or no .npz file ({type(error).__name__})") from None


def by_round(folder: Path) -> dict[int, Path]:
    """Find the files of a folder that are named by a round, such as round-000010.npz."""
    named = ((path.stem.removeprefix("round-"), path) for path in folder.glob("round-*.npz"))
    return {int(number): path for number, path in named if number.isdecimal()}
