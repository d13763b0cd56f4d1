"""Which room may import which: the rules of the architecture, read from the source with `ast`."""

import ast
import sys
from collections import defaultdict

import pytest
from tools.import_graph import graphs, imports, package, reachable, room_of

from gradveil.cli.verbs import VERBS

TRAINING = {"ground", "privacy", "models", "data", "accounting", "federation"}
WORK = TRAINING | {"engines", "attacks", "methods"}
RUNS = WORK | {"runs"}
PRODUCTS = RUNS | {"aggregation", "auditing", "leakage", "calibration", "deployment", "reproduction"}
MAY_IMPORT = {
    "ground": {"ground"},
    "privacy": {"ground"},
    "models": {"ground"},
    "data": {"ground"},
    "accounting": set(),
    "methods": {"ground", "privacy"},
    "federation": TRAINING,
    "aggregation": {"ground"},  # of which only errors; see allowed_in_aggregation
    "engines": TRAINING | {"aggregation"},
    "attacks": {"ground", "models"},
    "runs": WORK,
    "auditing": RUNS | {"aggregation"},
    "leakage": RUNS,
    "calibration": RUNS,
    "deployment": RUNS | {"aggregation"},
    "reproduction": RUNS | {"leakage", "calibration", "auditing"},
    "reports": PRODUCTS,
    "pipeline": PRODUCTS | {"reports"},  # train, attack, report: the one way, for api, web and cli
    "inference": PRODUCTS | {"reports", "pipeline"},  # what a trained model is used for
    "web": PRODUCTS | {"reports", "pipeline"},
    "cli": PRODUCTS | {"reports", "pipeline", "web", "inference"},
    "api": PRODUCTS | {"reports", "pipeline", "inference"},
    "parts": WORK,  # what a researcher builds with, under one name
    "front": PRODUCTS | {"api", "inference", "parts"},  # gradveil/__init__: nobody inside imports it
    "__main__": {"cli"},
}
NETWORK = {"requests", "urllib", "pooch", "aiohttp", "httpx"}
ONLY_IN = (
    {"flwr": {"engines.flower"}, "matplotlib": {"reports"}, "typer": {"cli"}, "rich": {"cli"}, "click": {"cli"}}
    | {name: {"data"} for name in NETWORK}
    | {name: {"data", "web", "engines.flower"} for name in ("socket", "http")}  # they listen; nothing is fetched
)


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
        if room == "aggregation" and not allowed_in_aggregation(target):
            yield f"{module} imports {target}: aggregation has numpy, cryptography and the standard library"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print" and room != "cli":
            yield f"{module}:{node.lineno} prints: only cli may"


def allowed_in_aggregation(target):
    """Say whether the protocol of a secure sum may import this: no jax, no Flower and no files of gradveil."""
    if target.startswith("gradveil"):
        return target.startswith(("gradveil.aggregation", "gradveil.errors"))
    return target.split(".")[0] in {"numpy", "cryptography", *sys.stdlib_module_names}


def cycles(graph):
    """Give the nodes that can reach themselves."""
    return [node for node in graph if node in reachable(graph, node)]


def test_every_room_imports_only_what_it_may():
    sources = package()
    assert [v for m, s in sources.items() for v in violations(m, s, frozenset(sources))] == []


def test_no_modules_and_no_rooms_import_each_other():
    modules, rooms = graphs(package())
    assert cycles(modules) == []
    assert cycles(rooms) == []


BASES = {"Protocol", "Enum", "StrEnum", "IntEnum", "NamedTuple", "TyperGroup", "Exception", "ValueError"}
BASES |= {"ClassifierMixin", "RegressorMixin", "BaseEstimator"}  # scikit-learn's conventions
ERRORS = {"BadInput", "RunFailed"}
SHARED = {("gradveil.privacy.clip", "ConstantClip")}
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
    assert list(inheritance("gradveil.privacy.adaptive", "class Learned(ConstantClip): pass")) != []


BESIDE_VERBS = {"main", "verbs", "options", "output", "guarantee_output", "round_numbers", "loading"}
"""Modules of the command line that serve several verbs."""


def strange_cli_files(modules, verbs):
    """Give the modules of `cli` whose name is neither a verb nor begins with a verb and an underscore."""
    names = [module.removeprefix("gradveil.cli.") for module in modules if module.startswith("gradveil.cli.")]
    return [name for name in names if name.partition("_")[0] not in verbs and name not in BESIDE_VERBS]


def shared_module_names(modules):
    """Give the names that two modules or rooms have; those of `cli` are the verbs and may be the name of a room too."""
    homes = defaultdict(list)
    for module in modules:
        if not module.startswith("gradveil.cli."):
            homes[module.rpartition(".")[2]].append(module)
    return {name: places for name, places in homes.items() if len(places) > 1}


def shared_class_names(sources):
    """Give the names that two classes have, wherever they are defined."""
    homes = defaultdict(list)
    for module, source in sources.items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(module)
    return {name: places for name, places in homes.items() if len(places) > 1}


def test_files_of_the_command_line_are_named_after_their_verb():
    assert strange_cli_files(package(), VERBS) == []
    assert strange_cli_files(["gradveil.cli.run_summary", "gradveil.cli.runner"], VERBS) == ["runner"]


def test_no_two_modules_share_a_name():
    assert shared_module_names(package()) == {}
    assert list(shared_module_names(["gradveil.data.tables", "gradveil.reports.tables", "gradveil.cli.data"])) == [
        "tables"
    ]


def test_no_two_classes_share_a_name():
    assert shared_class_names(package()) == {}
    two = {"gradveil.tree": "class Size: pass", "gradveil.keys": "def f():\n    class Size: pass"}
    assert shared_class_names(two) == {"Size": ["gradveil.tree", "gradveil.keys"]}


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
        ("gradveil.aggregation.masks", "import jax"),
        ("gradveil.aggregation.masks", "from gradveil.keys import Keys"),
        ("gradveil.aggregation.masks", "from gradveil.runs import store"),
        ("gradveil.federation.plan", "from gradveil.aggregation import ring"),
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
        ("gradveil.aggregation.masks", "import hashlib, numpy\nfrom cryptography import x509"),
        ("gradveil.deployment.node", "from gradveil.aggregation.roster import KeyRoster"),
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
