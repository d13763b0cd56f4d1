"""The examples in docstrings do what they say."""

import doctest
from importlib import import_module
from pathlib import Path

import pytest

import gradveil

ROOT = Path(gradveil.__file__).parent
WITH_EXAMPLES = sorted(
    ".".join(("gradveil", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")
    for path in ROOT.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
)


def test_there_are_examples_to_run():
    assert len(WITH_EXAMPLES) >= 3


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_module_hold(name):
    ran = doctest.testmod(import_module(name), optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert ran.attempted > 0
    assert ran.failed == 0


def test_a_wrong_example_is_seen():
    wrong = doctest.DocTestParser().get_doctest(">>> 1 + 1\n3\n", {}, "wrong", None, 0)
    assert doctest.DocTestRunner(verbose=False).run(wrong, out=lambda text: None).failed == 1
