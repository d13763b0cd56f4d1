"""Parts of a user's own by name: in plan files and on the command line, in run folders, and nowhere else."""

import json
import sys

import pytest

import gradveil
from gradveil import codec, own_code
from gradveil.cli.main import main
from gradveil.deployment import conductor
from gradveil.federation.plan import Plan
from gradveil.runs import store

SOURCE = """
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from gradveil.attacks.zoo import MAP
from gradveil.data.sampling import FixedPass
from gradveil.parts import ConstantClip, joint_norms, within
from dataclasses import replace


@dataclass(frozen=True)
class Small:
    scale: float = 0.1

    def init(self, key, shape, classes):
        return {"w": self.scale * jax.random.normal(key, (int(np.prod(shape)), classes))}

    def apply(self, params, x):
        return x.reshape(-1) @ params["w"]


@dataclass(frozen=True)
class Half(ConstantClip):
    c: float = 1.0

    def scales(self, norms, state):
        return jnp.broadcast_to(within(joint_norms(norms), self.c / 2), norms.shape)

    def bound(self, state):
        return jnp.asarray(self.c / 2)


@dataclass(frozen=True)
class Steps:
    silent = False

    def sigmas(self, rounds, steps):
        return np.full((rounds, steps), 3.0)


@dataclass(frozen=True)
class Whole:
    data_dependent = False

    def __call__(self, norm_stats, bound):
        return 1.0 * bound


@dataclass(frozen=True)
class InOrder:
    name = "in-order"
    fixed_size = True

    def __getattr__(self, name):
        return getattr(FixedPass(), name)


@dataclass(frozen=True)
class Quick:
    name: str = "quick"
    restarts: int = 1

    def refuse(self, leak):
        pass

    def prepared(self, leak, key):
        return self

    def __call__(self, leak, key):
        return replace(MAP, iterations=1)(leak, key)


def pair_init(key, shape, classes):
    return (jnp.zeros((int(np.prod(shape)), classes)),)


def pair_apply(params, x):
    return x.reshape(-1) @ params[0]


pair = (pair_init, pair_apply)
number = 3


def boom(*arguments):
    raise ValueError("boom")


@dataclass(frozen=True)
class BadScales(Half):
    scales = boom


@dataclass(frozen=True)
class BadBound(Half):
    bound = boom


@dataclass(frozen=True)
class BadSteps(Steps):
    sigmas = boom


@dataclass(frozen=True)
class BadWhole(Whole):
    __call__ = boom


@dataclass(frozen=True)
class BadOrder(InOrder):
    check = boom


@dataclass(frozen=True)
class BadInit(Small):
    init = boom


@dataclass(frozen=True)
class BadApply(Small):
    apply = boom
"""
SIZES = {"clients": 4, "cohort": 2, "client_size": 40, "batch": 4, "local_steps": 2, "rounds": 2}


@pytest.fixture
def mine(tmp_path, monkeypatch):
    """A module of the user's, found in the environment."""
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path / "mine.py"
    sys.modules.pop("mine", None)


def refused(capsys, *arguments):
    assert main(list(map(str, arguments))) == 2
    answer = capsys.readouterr()
    assert len(answer.err.splitlines()) == 1
    return answer.err


PLAN = """
dataset = "synthetic"
model = "mine:Small"
sampling = "mine:InOrder"
clients = 4
cohort = 2
client_size = 40
batch = 4
local_steps = 2
rounds = 2

[method]
name = "mine"
[method.clip]
kind = "mine:Half"
c = 3.0
[method.sensitivity]
kind = "mine:Whole"
[method.noise]
kind = "mine:Steps"
"""


@pytest.fixture
def run(mine, tmp_path, capsys):
    """The folder of a run of own parts, and what the command line said of it."""
    (tmp_path / "plan.toml").write_text(PLAN)
    assert main(["run", str(tmp_path / "plan.toml"), "--out", str(tmp_path / "run"), "--json"]) == 0
    return tmp_path / "run", json.loads(capsys.readouterr().out)


def test_a_plan_of_own_parts_trains_and_loads_while_its_source_is_the_same(run, mine, capsys):
    folder, told = run
    caveats = next(g["caveats"] for g in told["guarantees"] if g["threat_model"] == "server")
    assert any("Your own parts were trusted" in c and "Half, Whole, Steps, InOrder" in c for c in caveats)
    model = gradveil.load(folder)
    assert (model.plan.method.clip.c, type(model.plan.model).__module__) == (3.0, "mine")
    table = store.read_toml(folder / "plan.toml")
    assert table["model"]["kind"] == "mine:Small"
    assert len(table["model"]["source_sha256"]) == 64
    mine.write_text(SOURCE.replace("3.0", "0.1"))
    sys.modules.pop("mine")
    for command in (["report", folder], ["run", "--resume", "--out", folder], ["attack", folder]):
        assert "its source was changed since this was written" in refused(capsys, *command)


@pytest.mark.slow
def test_a_run_of_own_parts_is_resumed_reported_and_attacked(run, capsys):
    folder = str(run[0])
    assert main(["run", "--resume", "--rounds", "3", "--out", folder, "--json"]) == 0
    assert main(["report", folder]) == 0
    capsys.readouterr()
    assert main(["attack", folder, "--surface", "2", "--attack", "mine:Quick", "--victims", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attack"] == "quick"


def test_short_names_take_own_parts_too(mine):
    plan = gradveil.plan(
        "synthetic", "fed-cdp", **SIZES, model="mine:Small", clip="mine:Half", decay="mine:Steps",
        sensitivity="mine:Whole", sampling="mine:InOrder",
    )  # fmt: skip
    parts = (plan.model, plan.method.clip, plan.method.noise, plan.method.sensitivity, plan.sampling)
    assert [type(part).__name__ for part in parts] == ["Small", "Half", "Steps", "Whole", "InOrder"]
    with own_code.may_import():
        assert codec.decode(Plan, codec.encode(plan)) == plan


@pytest.mark.parametrize("name", ["mine:pair", "mine:pair_init,mine:pair_apply"])
def test_a_pair_of_functions_is_a_model_that_can_be_named(mine, name):
    plan = gradveil.plan("synthetic", "fed-cdp", **SIZES, model=name)
    assert codec.encode(plan)["model"]["kind"] == "mine:pair_init,mine:pair_apply"
    with own_code.may_import():
        assert codec.decode(Plan, codec.encode(plan)) == plan


@pytest.mark.parametrize(
    ("option", "name", "said"),
    [
        ("--model", "mine:Large", "'mine' has no 'Large'"),
        ("--model", "no_such_module:Small", "cannot be imported (ModuleNotFoundError"),
        ("--model", "mine:number", "model = 3: must be a value of"),
        ("--clip", "mine:Small", "clip = Small(scale=0.1): must be a value of"),
        ("--sampling", "mine:Small", "sampling = Small(scale=0.1)"),
        ("--decay", "mine:Whole", "noise = Whole()"),
        ("--attack", "mine:Small", "attack = Small(scale=0.1): must be a value with name"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(mine, capsys, option, name, said):
    verb = "attack" if option == "--attack" else "run"
    assert said in refused(capsys, verb, "--dataset", "synthetic", option, name)


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--clip", "BadScales"),
        ("--clip", "BadBound"),
        ("--decay", "BadSteps"),
        ("--sensitivity", "BadWhole"),
        ("--sampling", "BadOrder"),
        ("--model", "BadInit"),
        ("--model", "BadApply"),
    ],
)
def test_a_part_that_raises_is_one_sentence(mine, capsys, tmp_path, option, name):
    key = {"--decay": "noise"}.get(option, option[2:])
    sizes = ("--rounds", 1, "--noise-source", "seeded", "--out", tmp_path / "run")
    said = refused(capsys, "run", "--dataset", "synthetic", *sizes, option, f"mine:{name}")
    assert f"{key} = {name}: cannot be used (ValueError: boom)" in said


def test_a_module_that_fails_when_it_is_imported_is_one_sentence(mine, capsys):
    mine.write_text("1 / 0")
    assert "ZeroDivisionError" in refused(capsys, "run", "--dataset", "synthetic", "--model", "mine:Small")


def test_what_others_send_imports_nothing(mine):
    table = {"model": "mine:Small"}
    with pytest.raises(gradveil.BadInput, match="code is imported only for your own"):
        codec.decode_given(Plan, table)
    assert "mine" not in sys.modules


@pytest.mark.parametrize("part", [{"model": "mine:Small"}, {"clip": "mine:Half"}])
def test_nodes_are_sent_no_part_that_is_not_ours(mine, tmp_path, part):
    plan = gradveil.plan("synthetic", "fed-cdp", **SIZES, **part)
    with pytest.raises(gradveil.BadInput, match=r"(model|clip) = 'mine:\w+': nodes run gradveil's own parts only"):
        conductor.lay_out(plan, gradveil.dataset("synthetic"), tmp_path / "run", conductor.Federation(nodes=("a",)))


def test_what_was_made_in_python_has_to_be_handed_over_again(mine, tmp_path):
    class Local:
        def init(self, key, shape, classes):
            return (gradveil.model(SmallOf.value).init(key, shape, classes),)

        def apply(self, params, x):
            return SmallOf.value.apply(params[0], x)

        def __repr__(self):
            return "Local()"

    import mine as module

    class SmallOf:
        value = module.Small()

    local = Local()
    plan = gradveil.plan("synthetic", "non-private", **SIZES, model=local)
    model = gradveil.train(plan, tmp_path / "run")
    with pytest.raises(gradveil.BadInput, match=r"gradveil\.load\(folder, model="):
        gradveil.load(tmp_path / "run")
    again = gradveil.load(tmp_path / "run", model=local)
    assert again.result.params_sha256 == model.result.params_sha256
    with pytest.raises(gradveil.BadInput, match="is not the model of the run"):
        gradveil.load(tmp_path / "run", model=module.Small())
