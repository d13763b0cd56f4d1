"""What holds for the tests themselves: none passes by returning early, and none waits without an end."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def own(node):
    """Give what stands in a function itself, not in functions inside it."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, SCOPES):
            yield child
            yield from own(child)


def early_returns(source):
    """Give the lines on which a test returns: after it nothing is tested, and the test passes."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test"):
            yield from (child.lineno for child in own(node) if isinstance(child, ast.Return))


def endless(source):
    """Give the lines of loops that sleep and look at no clock, unless they stand in an asyncio.timeout."""
    tree = ast.parse(source)
    timed = [n for n in ast.walk(tree) if isinstance(n, ast.AsyncWith) and "timeout" in ast.unparse(n.items[0])]
    bounded = {id(inner) for outer in timed for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.While) and id(node) not in bounded:
            text = ast.unparse(node)
            if "sleep(" in text and "monotonic()" not in text:
                yield node.lineno


def everywhere(rule):
    return [f"{path.relative_to(TESTS)}:{n}" for path in sorted(TESTS.rglob("*.py")) for n in rule(path.read_text())]


def test_no_test_passes_by_returning_early():
    assert everywhere(early_returns) == []


def test_no_test_waits_without_an_end():
    assert everywhere(endless) == []


def test_every_test_has_a_time_limit_and_none_is_skipped_for_want_of_parameters(pytestconfig):
    assert pytestconfig.pluginmanager.hasplugin("timeout")
    assert 0 < float(pytestconfig.getini("timeout")) <= 600
    assert pytestconfig.getini("empty_parameter_set_mark") == "fail_at_collect"


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (early_returns, "def test_a(x):\n    if x:\n        return\n    assert x"),
        (early_returns, "async def test_a(x):\n    with x:\n        return None"),
        (endless, "while not ready():\n    time.sleep(1)"),
        (endless, "async def f():\n    while not ready:\n        await asyncio.sleep(0)"),
    ],
)
def test_a_breach_is_seen(rule, source):
    assert list(rule(source)) != []


@pytest.mark.parametrize(
    ("rule", "source"),
    [
        (early_returns, "def test_a(x):\n    def inner():\n        return 1\n    assert inner()"),
        (early_returns, "def helper():\n    return 1"),
        (endless, "while time.monotonic() < end:\n    time.sleep(1)"),
        (
            endless,
            "async def f():\n    async with asyncio.timeout(3):\n        while x:\n            await asyncio.sleep(0)",
        ),
        (endless, "while todo:\n    todo.pop()"),
    ],
)
def test_what_ends_is_not_called_a_breach(rule, source):
    assert list(rule(source)) == []
