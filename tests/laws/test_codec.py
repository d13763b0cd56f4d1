"""Plain data to values, strictly: whatever is wrong, one sentence names the key and the value."""

import json
from dataclasses import dataclass, field, replace
from enum import Enum

import pytest

from gradveil import codec
from gradveil.data.partition import PARTITIONS, Dirichlet, Iid, TwoShards
from gradveil.data.sampling import Allocation, CohortSampling, Poisson
from gradveil.errors import BadInput
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.methods import FED_ALPHA_CDP_SIGMA, METHODS
from gradveil.models.networks import Mlp
from gradveil.privacy.method import Method


class Colour(Enum):
    RED = 1
    DARK_BLUE = 2


@dataclass(frozen=True)
class Circle:
    radius: float


@dataclass(frozen=True)
class Square:
    side: float = 1.0

    def __post_init__(self):
        if self.side <= 0:
            raise BadInput(f"side = {self.side}: must be above 0")


@dataclass(frozen=True)
class Picture:
    name: str
    copies: int
    shape: Circle | Square = field(default=Square(), metadata={"kinds": (Circle, Square)})
    framed: bool = False
    colour: Colour = Colour.RED
    sizes: tuple[int, ...] = ()
    price: float | None = None


PLAN = Plan(
    dataset="mnist",
    method=FED_ALPHA_CDP_SIGMA,
    clients=10,
    cohort=5,
    rounds=3,
    local_steps=2,
    batch=4,
    client_size=8,
    learning_rate=0.05,
)
PLANS = (
    PLAN,
    replace(PLAN, model=Mlp((5,), bias=True), partition=Dirichlet(0.5), sampling=Poisson(), seed=2**32 - 1),
    replace(PLAN, sampling=Allocation()),
    replace(PLAN, cohort_sampling=CohortSampling.POISSON, noise_source=NoiseSource.SECRET, target_accuracy=0.9),
    replace(PLAN, partition=Iid(), target="income", train_all=True, delta=1e-6),
    *(replace(PLAN, method=entry.value) for entry in METHODS.values()),
)


def refusal(cls, data, where=""):
    with pytest.raises(BadInput) as caught:
        codec.decode(cls, data, where)
    sentence = str(caught.value)
    assert "\n" not in sentence
    return sentence


def test_a_value_becomes_plain_data_without_its_nones():
    picture = Picture("sun", 2, Circle(0.5), colour=Colour.DARK_BLUE, sizes=(1, 2))
    assert codec.encode(picture) == {
        "name": "sun",
        "copies": 2,
        "shape": {"kind": "Circle", "radius": 0.5},
        "framed": False,
        "colour": "dark_blue",
        "sizes": [1, 2],
    }


@pytest.mark.parametrize("plan", PLANS, ids=lambda p: p.method.name)
def test_a_plan_returns_as_it_went(plan):
    assert codec.decode(Plan, json.loads(json.dumps(codec.encode(plan)))) == plan


def test_these_plans_use_every_partition():
    assert {type(plan.partition) for plan in PLANS} == set(PARTITIONS) == {TwoShards, Iid, Dirichlet}


def test_what_is_left_out_takes_its_default():
    assert codec.decode(Picture, {"name": "a", "copies": 1}) == Picture("a", 1)


def test_a_whole_number_may_stand_for_a_number_but_not_the_reverse():
    assert codec.decode(Circle, {"radius": 3}).radius == 3.0
    assert isinstance(codec.decode(Circle, {"radius": 3}).radius, float)
    assert "copies = 2.0" in refusal(Picture, {"name": "a", "copies": 2.0})


@pytest.mark.parametrize("written", ["dark_blue", "DARK-BLUE", "Dark_Blue"])
def test_a_choice_is_read_in_any_case_and_with_dashes(written):
    assert codec.decode(Picture, {"name": "a", "copies": 1, "colour": written}).colour is Colour.DARK_BLUE


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"frame": True}, ["frame", "unknown", "framed"]),
        ({"name": 3}, ["name = 3", "text"]),
        ({"copies": "two"}, ["copies = 'two'", "whole number"]),
        ({"copies": True}, ["copies = True", "whole number"]),
        ({"framed": 1}, ["framed = 1", "true or false"]),
        ({"price": "dear"}, ["price = 'dear'", "number"]),
        ({"price": False}, ["price = False", "number"]),
        ({"sizes": 3}, ["sizes = 3", "list"]),
        ({"sizes": [1, "x"]}, ["sizes = 'x'", "whole number"]),
        ({"colour": "green"}, ["colour = 'green'", "red", "dark_blue"]),
        ({"colour": 1}, ["colour = 1", "red"]),
        ({"shape": "Circle"}, ["shape = 'Circle'", "kind"]),
        ({"shape": {"radius": 1.0}}, ["shape", "radius", "kind"]),
        ({"shape": {"kind": "Oval"}}, ["shape.kind = 'Oval'", "Circle", "Square"]),
        ({"shape": {"kind": 7}}, ["shape.kind = 7", "Circle"]),
        ({"shape": {"kind": ["Circle"]}}, ["shape.kind = ['Circle']", "Circle, Square"]),
        ({"shape": {"kind": "Circle"}}, ["shape.radius", "missing"]),
        ({"shape": {"kind": "Circle", "side": 1.0}}, ["shape.side", "unknown", "radius"]),
        ({"shape": {"kind": "Square", "side": -1.0}}, ["shape.side = -1.0", "above 0"]),
    ],
)
def test_a_wrong_entry_is_refused_by_its_key_and_value(change, words):
    sentence = refusal(Picture, {"name": "a", "copies": 1} | change)
    assert [w for w in words if w not in sentence] == []


def test_a_missing_key_is_named():
    assert refusal(Picture, {"name": "a"}).startswith("copies: ")


@pytest.mark.parametrize("data", [None, 3, "text", [1]])
def test_what_is_no_table_is_refused(data):
    assert repr(data) in refusal(Picture, data)


def test_the_path_to_a_wrong_entry_is_given_in_full():
    plain = codec.encode(PLAN)
    plain["method"]["clip"]["c"] = -1.0
    assert refusal(Plan, plain).startswith("method.clip.c = -1.0")


def test_the_complaint_of_a_whole_method_is_readable_inside_a_plan():
    plain = codec.encode(PLAN)
    plain["method"]["clip"] = {"kind": "Unclipped"}
    plain["method"]["sensitivity"] = {"kind": "ClipBound"}
    assert "method.method" not in refusal(Plan, plain)


def test_a_part_of_ones_own_is_written_by_its_module_and_refused_when_read():
    @dataclass(frozen=True)
    class Oval(Circle):
        pass

    plain = codec.encode(Picture("a", 1, Oval(1.0)))
    assert plain["shape"]["kind"].startswith(f"{__name__}:")
    with pytest.raises(BadInput, match=r"shape = .*Oval.*was made in Python"):
        codec.decode(Picture, plain)


def test_what_is_no_part_cannot_be_written():
    with pytest.raises(BadInput, match=r"shape = 'round'"):
        codec.encode(Picture("a", 1, "round"))


def test_a_digest_depends_on_every_value_and_on_nothing_else():
    assert codec.digest(Picture("a", 1)) == codec.digest(Picture("a", 1, Square(1.0)))
    others = [Picture("b", 1), Picture("a", 2), Picture("a", 1, Circle(1.0)), Picture("a", 1, price=1.0)]
    assert len({codec.digest(p) for p in [Picture("a", 1), *others]}) == 5


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("key", ["learning_rate", "delta"])
def test_a_number_that_is_none_is_refused(key, value):
    assert refusal(Plan, codec.encode(PLAN) | {key: value}).startswith(f"{key} = ")


@pytest.mark.parametrize(
    ("key", "value"),
    [(k, 0) for k in ("clients", "cohort", "rounds", "local_steps", "batch", "client_size")]
    + [("cohort", 11), ("batch", 9), ("seed", -1), ("seed", 2**32), ("delta", 1.0), ("target_accuracy", 1.5)],
)
def test_a_plan_refuses_what_cannot_be_trained(key, value):
    assert f"{key} = {value}" in refusal(Plan, codec.encode(PLAN) | {key: value})


def test_a_method_needs_a_name():
    assert refusal(Method, {}).startswith("name: ")
