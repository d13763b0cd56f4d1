"""Mutants: modules of the package with one check taken out, on which a test that was written for it must go red."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import gradveil

PACKAGE = Path(gradveil.__file__).parent


@dataclass(frozen=True)
class Mutant:
    """A text of a file and what stands in its place, and the test that must notice; case: its parameter, if any."""

    file: str
    old: str
    new: str
    test: str
    case: object = None
    also: tuple[tuple[str, str, str], ...] = ()

    def name(self):
        """Give the file, the text and the parameter, short enough for the name of a test."""
        return f"{Path(self.file).stem}: {' '.join(self.old.split())[:40]} {self.case or ''}".strip()

    @property
    def changes(self):
        """All changes: file, old text, new text."""
        return ((self.file, self.old, self.new), *self.also)


def source_of(path, changes):
    """Give the text of a file after changes, each of which must be found once."""
    text = path.read_text()
    for file, old, new in changes:
        if path == PACKAGE / file:
            assert text.count(old) == 1, f"{file} has {text.count(old)} of {old!r}"
            text = text.replace(old, new)
    return text


def execute(monkeypatch, name, path, changes=()):
    """Execute a file as the module of a name, which all that is imported later sees until the test ends."""
    module = ModuleType(name)
    module.__file__ = str(path)
    monkeypatch.setitem(sys.modules, name, module)
    parent, _, own = name.rpartition(".")
    if parent:
        monkeypatch.setattr(sys.modules[parent], own, module)
    exec(compile(source_of(path, changes), str(path), "exec"), vars(module))
    return module


def rebuild(monkeypatch, files, changes):
    """Execute files of the package anew, those that are imported before those that import them."""
    assert {file for file, *_ in changes} <= set(files)
    for file in files:
        execute(monkeypatch, "gradveil." + file.removesuffix(".py").replace("/", "."), PACKAGE / file, changes)


def run(test: Callable[..., None], fixtures, case):
    """Call a test with those of the fixtures that it takes, and its parameter if it has one."""
    wanted = list(inspect.signature(test).parameters)
    given = {name: fixtures[name] for name in wanted if name in fixtures}
    rest = [name for name in wanted if name not in fixtures]
    assert len(rest) == (case is not None), rest
    test(**given, **dict.fromkeys(rest, case))


def notices(test, fixtures, case):
    """Whether a test goes red."""
    try:
        run(test, fixtures, case)
    except (Exception, pytest.fail.Exception):  # a check that is gone may also show as an error of what comes after it
        return True
    return False
