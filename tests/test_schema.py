"""The JSON Schema of a dataclass lets through what the codec writes, and nothing else."""

from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.schema import json_schema


class Color(Enum):
    RED = 1
    DARK_BLUE = 2


@dataclass(frozen=True)
class Point:
    """A place."""

    x: float
    y: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What a schema may describe.

    All of it.
    """

    name: str
    count: int
    done: bool = field(metadata={"description": "whether it came to its end"})
    value: float | str | None
    color: Color = Color.RED
    verdict: Literal["agrees", "not comparable"] = "agrees"
    points: tuple[Point, ...] = ()
    pair: tuple[int, str] = (1, "a")
    versions: dict[str, str] = field(default_factory=dict)
    best: Point | None = None
    free: dict[str, Any] = field(default_factory=dict)
    curve: tuple[float, ...] = ()


SAMPLE = Sample(name="a", count=1, done=True, value=0.5)
VALUES = (
    SAMPLE,
    replace(SAMPLE, value=None, best=Point(1.0)),
    replace(SAMPLE, value="diverged", color=Color.DARK_BLUE, verdict="not comparable"),
    replace(SAMPLE, points=(Point(1.0), Point(2.0, 3.0)), pair=(2, "b"), versions={"jax": "1"}, free={"x": [1]}),
    replace(SAMPLE, curve=(0.25, 1.0)),
)
WRONG = {
    "name": 1, "count": 1.5, "done": "yes", "value": [], "color": "green", "verdict": "differs", "points": [{"y": 1.0}],
    "pair": [1], "versions": {"jax": 1}, "best": {"x": 1.0, "z": 1.0}, "free": [], "curve": ["a"], "other": 1,
}  # fmt: skip


def errors(data, cls=Sample):
    schema = json_schema(cls)
    Draft202012Validator.check_schema(schema)
    return [error.message for error in Draft202012Validator(schema).iter_errors(data)]


@pytest.mark.parametrize("value", VALUES)
def test_what_the_codec_writes_is_valid_and_is_read_back(value):
    written = codec.record(value)
    assert errors(written) == []
    assert codec.decode(Sample, written) == value


@pytest.mark.parametrize(("key", "value"), WRONG.items())
def test_a_wrong_value_is_refused_by_schema_and_codec_alike(key, value):
    written = codec.record(SAMPLE) | {key: value}
    assert len(errors(written)) == 1
    with pytest.raises(BadInput, match=key):
        codec.decode(Sample, written)


def test_a_key_without_a_default_is_required():
    written = codec.record(SAMPLE)
    for key in ("name", "count", "done", "value"):
        assert errors({k: v for k, v in written.items() if k != key}) == [f"{key!r} is a required property"]
    assert errors({k: written[k] for k in ("name", "count", "done", "value")}) == []


def test_docstrings_and_metadata_describe():
    schema = json_schema(Sample)
    assert schema["description"] == "What a schema may describe.\n\nAll of it."
    assert schema["properties"]["done"]["description"] == "whether it came to its end"
    assert schema["$defs"]["Point"]["description"] == "A place."


def test_a_type_that_json_cannot_hold_is_refused():
    @dataclass(frozen=True)
    class Odd:
        """A set."""

        names: set[str]

    with pytest.raises(TypeError, match=r"set\[str\]"):
        json_schema(Odd)
