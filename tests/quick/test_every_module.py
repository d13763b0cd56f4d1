"""The quick tests are a selection that runs every module; whether it does is found out by watching calls."""

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest
from every_module import CALLED, ROOT, _Loader, has_functions, missing

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
    done = watched("import gradveil.normals, gradveil.keys, gradveil.errors; gradveil.keys.of_words(1, 2)")
    assert "keys.py" in done
    assert "normals.py" not in done


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    'what it gives'\n    return 7",
        "async def g():\n    return 7\n\ndef f():\n    return asyncio.run(g())\n\nimport asyncio",
        "f = lambda: 7",
        "class A:\n    def f(self):\n        return 7\n\nf = A().f",
    ],
)
def test_a_watched_function_is_noted_and_does_what_it_did(source, tmp_path):
    (tmp_path / "one.py").write_text(source)
    loaded = module_from_spec(spec_from_loader("one", _Loader("one", str(tmp_path / "one.py"))))
    loaded.__spec__.loader.exec_module(loaded)
    noted = CALLED.copy()
    assert loaded.f() == 7
    assert CALLED - noted == {str(tmp_path / "one.py")}
    CALLED.discard(str(tmp_path / "one.py"))


def watched(code):
    """Give what `ran` gives in a new process that watches and then runs some code."""
    code = f"import every_module; every_module.watch(); {code}; print(*every_module.ran())"
    environment = {"PYTHONPATH": f"{ROOT.parent}:{Path(__file__).parent}", "PATH": ""}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_everything_selected_is_there():
    chosen = (Path(__file__).parent / "selection.txt").read_text().splitlines()
    assert len(chosen) == len(set(chosen))
    assert [name for name in chosen if not (TESTS.parent / name.partition("::")[0]).exists()] == []
