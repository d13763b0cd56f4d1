"""Names, help and mistyped options answer without starting JAX or any other heavy library."""

import json
import subprocess
import sys

import pytest

HEAVY = ("jax", "numpy", "scipy", "sklearn", "matplotlib", "dp_accounting", "flwr", "uvicorn")
VERBS = (
    "run",
    "attack",
    "audit",
    "account",
    "plan",
    "predict",
    "export",
    "report",
    "serve",
    "table",
    "data list",
    "list",
    "bench",
    "federate demo",
)


def imported(*arguments):
    """Run the command line in a fresh process; gives its exit code and the heavy libraries that it imported."""
    script = (
        "import json, sys\nfrom gradveil.cli.main import main\n"
        f"code = main({list(arguments)!r})\n"
        f"print(json.dumps([code, [name for name in {HEAVY!r} if name in sys.modules]]))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("what", ["methods", "attacks", "decays", "threats", "datasets", "tables"])
def test_listing_names_imports_nothing_heavy(what):
    assert imported("list", what) == [0, []]


@pytest.mark.parametrize("verb", VERBS)
def test_a_mistyped_option_is_refused_before_anything_heavy_is_imported(verb):
    assert imported(*verb.split(), "--no-such") == [2, []]


@pytest.mark.parametrize("verb", VERBS)
def test_help_imports_nothing_heavy(verb):
    assert imported(*verb.split(), "--help") == [0, []]


def test_the_list_of_commands_imports_nothing_heavy():
    assert imported("--help") == [0, []]


def test_the_check_sees_what_a_command_that_works_imports():
    code, heavy = imported("account", "--sigma", "1", "--q", "0.1", "--steps", "2", "--json")
    assert code == 0
    assert {"numpy", "scipy"} <= set(heavy)


@pytest.mark.parametrize(
    "arguments",
    [
        ("fed-cdp", "--delta", "1e-5"),
        ("--mechanism", "mine:release", "--victims", "400"),
        ("--mechanism", "mine:release", "--level", "replay,one-run"),
        ("fed-cdp", "--mechanism", "mine:release"),
        (),
    ],
)
def test_an_audit_of_one_kind_refuses_options_of_the_other_before_anything_heavy_is_imported(arguments):
    assert imported("audit", *arguments) == [2, []]
