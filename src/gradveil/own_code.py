"""A user's own code by name: `package.module:Name`, imported from the user's environment, known by its source's digest.

Nothing is imported unless the caller says that the text comes from the user: see `may_import`. A plan that came over a
network, or through a form, names no code.
"""

import hashlib
import importlib
import inspect
import re
import sys
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from gradveil.errors import BadInput, quoted

_NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*(,[A-Za-z_][\w.]*:[A-Za-z_][\w.]*)*")
_ALLOWED: ContextVar[bool] = ContextVar("allowed", default=False)
_NAMES: dict[int, tuple[Any, str]] = {}
"""Objects that were found by a name and are no classes or functions, so that nothing in them tells their name."""


@contextmanager
def may_import() -> Iterator[None]:
    """Let names in what is read meanwhile be imported: it was written by the user, on the user's machine."""
    before = _ALLOWED.set(True)
    try:
        yield
    finally:
        _ALLOWED.reset(before)


def is_name(value: object) -> bool:
    """Whether a text names code: `package.module:Name`, or two of them with a comma between."""
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def find(name: str, where: str) -> Any:
    """Import what a name stands for; a tuple where there are several names. BadInput if it cannot be had."""
    if not _ALLOWED.get():
        raise BadInput(f"{where} = {quoted(name)}: code is imported only for your own plan files, options and runs")
    if "," in name:
        return tuple(find(one, where) for one in name.split(","))
    module, _, path = name.partition(":")
    try:
        target: Any = importlib.import_module(module)
    except Exception as error:  # whatever the user's module does when it is imported
        raise BadInput(f"{where} = {quoted(name)}: {module!r} cannot be imported ({reason(error)})") from error
    for part in path.split("."):
        if not hasattr(target, part):
            raise BadInput(f"{where} = {quoted(name)}: {module!r} has no {path!r}")
        target = getattr(target, part)
    if not hasattr(target, "__qualname__"):
        _NAMES[id(target)] = (target, name)
    return target


def is_own(part: object) -> bool:
    """Whether a part is a user's, not gradveil's."""
    return not type(part).__module__.startswith("gradveil.")


@contextmanager
def called(where: str, part: object) -> Iterator[None]:
    """Make one sentence of whatever goes wrong while a part of the user's own is called; our own errors pass."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:
        if not is_own(part):
            raise
        raise BadInput(f"{where} = {type(part).__qualname__}: cannot be used ({reason(error)})") from error


def reason(error: Exception) -> str:
    """Return what an error of the user's code says, on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def name_of(value: Any) -> str | None:
    """Return the name by which `find` returns this very object; None for one that has none."""
    if isinstance(value, tuple):
        names = [name_of(one) for one in value]
        return None if None in names else ",".join(map(str, names))
    if id(value) in _NAMES:
        return _NAMES[id(value)][1]
    qualname = getattr(value, "__qualname__", "<none>")
    return None if "<" in qualname else f"{value.__module__}:{qualname}"


def source_sha256(value: Any) -> str:
    """Return the SHA-256 of the file that defines a class or function, or of its own source in a notebook.

    "unknown" where there is no source, as for what was typed at a prompt.
    """
    if isinstance(value, tuple):
        return hashlib.sha256(",".join(map(source_sha256, value)).encode()).hexdigest()
    named = _NAMES[id(value)][1].partition(":")[0] if id(value) in _NAMES else None
    defined = value if hasattr(value, "__qualname__") else type(value)
    return _source_sha256(str(named or defined.__module__), cast(Hashable, defined))


@lru_cache(maxsize=256)
def _source_sha256(module: str, defined: Hashable) -> str:
    """Digest once in a process: what was imported stays, though its file may be edited while a run trains."""
    try:
        file = getattr(sys.modules.get(module), "__file__", None)
        content = Path(file).read_bytes() if file else inspect.getsource(cast(Any, defined)).encode()
    except (OSError, TypeError):
        return "unknown"
    return hashlib.sha256(content).hexdigest()


def library_of(value: object) -> str:
    """Return which library's module a value or class is: flax, equinox, torch, or "" for none of them."""
    bases = (value if isinstance(value, type) else type(value)).__mro__
    homes = {base.__module__.partition(".")[0] + "." + base.__name__ for base in bases}
    return next((name for name in ("flax", "equinox", "torch") if f"{name}.Module" in homes), "")
