"""The quick tests are a selection that runs every module; whether it does is found out by watching calls."""

import subprocess
import sys
from pathlib import Path

import pytest
from every_module import ROOT, has_functions, missing

TESTS = Path(__file__).parents[1]
EVERY = [path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py")]


def test_a_module_that_is_not_run_is_named():
    assert missing(EVERY, []) == []
    assert missing([name for name in EVERY if name != "privacy/clip.py"], []) == ["privacy/clip.py"]
    assert missing([name for name in EVERY if name != "privacy/clip.py"], ["privacy/clip.py"]) == []


@pytest.mark.parametrize(
    ("source", "callable_"),
    [
        ("X = 1", False),
        ("def f():\n    return 1", True),
        ("F = lambda: 1", True),
        ("class A(Protocol):\n    def f(self): ...", False),
        ("class A:\n    def f(self): ...", True),
    ],
)
def test_only_what_can_be_called_must_be_called(source, callable_):
    assert has_functions(source) is callable_


def test_to_import_a_module_is_not_to_run_it():
    code = (
        "import every_module; every_module.watch(); import gradveil.normals, gradveil.keys, gradveil.errors;"
        "gradveil.keys.of_words(1, 2); print(*every_module.ran())"
    )
    environment = {"PYTHONPATH": f"{ROOT.parent}:{Path(__file__).parent}", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert "keys.py" in done.stdout.split()
    assert "normals.py" not in done.stdout.split()


def test_everything_selected_is_there():
    chosen = (Path(__file__).parent / "selection.txt").read_text().splitlines()
    assert len(chosen) == len(set(chosen))
    assert [name for name in chosen if not (TESTS.parent / name.partition("::")[0]).exists()] == []
