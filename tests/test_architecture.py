"""Which room may import which: the rules of the architecture, read from the source with `ast`."""

import ast
from pathlib import Path

import pytest

import gradveil

ROOT = Path(gradveil.__file__).parent
GROUND = {"surface", "tree", "normals", "keys", "codec", "errors", "fields", "devices", "names", "schema", "__about__"}
TRAINING = {"ground", "privacy", "models", "data", "accounting", "federation"}
WORK = TRAINING | {"engines", "attacks", "methods"}
RUNS = WORK | {"runs"}
PRODUCTS = RUNS | {"leakage", "calibration", "deployment", "reproduction"}
MAY_IMPORT = {
    "ground": {"ground"},
    "privacy": {"ground"},
    "models": {"ground"},
    "data": {"ground"},
    "accounting": set(),
    "methods": {"ground", "privacy"},
    "federation": TRAINING,
    "engines": TRAINING,
    "attacks": {"ground", "models"},
    "runs": WORK,
    "leakage": RUNS,
    "calibration": RUNS,
    "deployment": RUNS,
    "reproduction": RUNS | {"leakage", "calibration"},
    "reports": PRODUCTS,
    "pipeline": PRODUCTS | {"reports"},  # train, attack, report: the one way, for api, web and cli
    "web": PRODUCTS | {"reports", "pipeline"},
    "cli": PRODUCTS | {"reports", "pipeline", "web"},
    "api": PRODUCTS | {"reports", "pipeline"},
    "front": PRODUCTS | {"api"},  # gradveil/__init__: nobody inside imports it
    "__main__": {"cli"},
}
NETWORK = {"requests", "urllib", "pooch", "aiohttp", "httpx"}
ONLY_IN = (
    {"flwr": {"engines.flower"}, "matplotlib": {"reports"}, "typer": {"cli"}, "rich": {"cli"}, "click": {"cli"}}
    | {name: {"data"} for name in NETWORK}
    | {name: {"data", "web", "engines.flower"} for name in ("socket", "http")}  # they listen; nothing is fetched
)


def room_of(module):
    first = module.split(".")[1] if "." in module else "front"
    return "ground" if first in GROUND else first


def imports(source, known):
    """Give every imported module, wherever the import stands; `from a import b` is a.b if that is a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & known or {node.module or "a relative import"}


def violations(module, source, known=frozenset()):
    room = room_of(module)
    if room not in MAY_IMPORT:
        yield f"{module}: {room} is a room without a rule"
    for target in imports(source, known):
        top = target.split(".")[0]
        if top == "gradveil" and (there := room_of(target)) not in MAY_IMPORT.get(room, set()) | {room}:
            yield f"{module} imports {target}: {room} may not import {there}"
        places = ONLY_IN.get(top)
        if places and not any(f"{module}.".startswith(f"gradveil.{place}.") for place in places):
            yield f"{module} imports {target}: only {places} may"
        if room == "accounting" and top in {"jax", "jaxlib", "flax", "optax"}:
            yield f"{module} imports {target}: accounting is arithmetic without jax"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print" and room != "cli":
            yield f"{module}:{node.lineno} prints: only cli may"


def cycles(graph):
    """Give the nodes that can reach themselves."""
    for start in graph:
        seen, todo = set(), list(graph[start])
        while todo:
            if (node := todo.pop()) not in seen:
                seen.add(node)
                todo += graph.get(node, ())
        if start in seen:
            yield start


def graphs(sources):
    """Give who imports whom: modules, and rooms."""
    known = frozenset(sources)
    modules = {m: {t for t in imports(s, known) if t in known and t != m} for m, s in sources.items()}
    rooms = {room_of(m): set() for m in sources}
    for module, targets in modules.items():
        rooms[room_of(module)] |= {room_of(t) for t in targets} - {room_of(module)}
    return modules, rooms


def package():
    def name(path):
        parts = ("gradveil", *path.relative_to(ROOT).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    return {name(path): path.read_text() for path in sorted(ROOT.rglob("*.py"))}


def test_every_room_imports_only_what_it_may():
    sources = package()
    assert [v for m, s in sources.items() for v in violations(m, s, frozenset(sources))] == []


def test_no_modules_and_no_rooms_import_each_other():
    modules, rooms = graphs(package())
    assert list(cycles(modules)) == []
    assert list(cycles(rooms)) == []


BASES = {"Protocol", "Enum", "StrEnum", "IntEnum", "NamedTuple", "TyperGroup", "Exception", "ValueError"}
ERRORS = {"BadInput", "RunFailed"}
SHARED = {("gradveil.privacy.clip", "_Constant")}
"""The one base that parts share, by docs/decisions/0006."""


def inheritance(module, source):
    """Give the classes that inherit from something of our own that is no error."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            bases = {ast.unparse(base).partition("[")[0] for base in node.bases}
            yield from (
                f"{module}.{node.name} inherits from {base}"
                for base in sorted(bases - BASES - ERRORS)
                if (module, base) not in SHARED
            )


def test_no_part_inherits_from_another():
    assert [found for module, source in package().items() for found in inheritance(module, source)] == []
    assert list(inheritance("gradveil.attacks.prior", "class Box(_Pixels): pass")) != []
    assert list(inheritance("gradveil.privacy.adaptive", "class Learned(_Constant): pass")) != []


def test_these_rules_read_the_real_package():
    sources = package()
    assert {"privacy", "models", "data", "federation", "engines", "methods", "ground"} <= set(map(room_of, sources))
    assert "gradveil.privacy.sanitize" in graphs(sources)[0]["gradveil.federation.client"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gradveil.attacks.matching", "from gradveil.federation.leaks import Leak"),
        ("gradveil.attacks.matching", "def f():\n    import gradveil.data.dataset"),
        ("gradveil.attacks.matching", "from gradveil import methods"),
        ("gradveil.privacy.clip", "from gradveil.models.networks import Cnn"),
        ("gradveil.models.networks", "from gradveil.data.dataset import Dataset"),
        ("gradveil.federation.plan", "from gradveil.engines.serial import Serial"),
        ("gradveil.accounting.moments", "from gradveil.errors import BadInput"),
        ("gradveil.accounting.moments", "import jax.numpy as jnp"),
        ("gradveil.tree", "from gradveil.privacy import clip"),
        ("gradveil.engines.serial", "import flwr"),
        ("gradveil.engines.flowery", "import flwr"),
        ("gradveil.reports.card", "from rich.table import Table"),
        ("gradveil.web.page", "import matplotlib.pyplot"),
        ("gradveil.runs.store", "from urllib.request import urlopen"),
        ("gradveil.reports.page", "from gradveil.cli import main"),
        ("gradveil.runs.store", "print('saved')"),
        ("gradveil.privacy.clip", "from . import draw"),
        ("gradveil.attic.old", ""),
        ("gradveil.runs.store", "import gradveil"),
    ],
)
def test_a_violation_is_seen(module, source):
    known = frozenset({"gradveil.methods", "gradveil.privacy.clip"})
    found = list(violations(module, source, known))
    assert found or "a relative import" in imports(source, known)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("gradveil.engines.flower.node", "import flwr"),
        ("gradveil.cli.run", "from rich.table import Table\nprint('done')"),
        ("gradveil.data.download", "import pooch"),
        ("gradveil.federation.ledger", "from gradveil.accounting.release import Release"),
        ("gradveil.runs.store", "def save():\n    'print(nothing)'"),
    ],
)
def test_what_is_allowed_is_not_called_a_violation(module, source):
    assert list(violations(module, source)) == []


def test_a_cycle_is_seen():
    a, b = "gradveil.privacy.a", "gradveil.models.b"
    modules, rooms = graphs({a: "from gradveil.models import b", b: "def f():\n    import gradveil.privacy.a"})
    assert set(cycles(modules)) == {a, b}
    assert set(cycles(rooms)) == {"privacy", "models"}
