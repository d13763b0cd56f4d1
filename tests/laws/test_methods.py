"""What every method promises: it can be written to a file and read back, compiled once, and makes sense."""

import json
import tomllib
from dataclasses import fields, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tomli_w

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.methods import DECAYS, FED_CDP, FED_SDP_CLIENT, METHODS, NON_PRIVATE, SENSITIVITY_NAMES, decay
from gradveil.privacy.adaptive import CLIPS, AdaClip
from gradveil.privacy.clip import Flat, OwnNorm, PerLayer, Unclipped
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Method, combine, split_static
from gradveil.privacy.prune import PRUNES
from gradveil.privacy.sanitize import cross
from gradveil.privacy.schedule import SCHEDULES, Constant, Linear
from gradveil.privacy.sensitivity import SENSITIVITIES, ClipBound, Fixed, L2Max, L2MaxAsCoded, L2MaxOfMean
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface

CONTRACT = (
    *("non-private", "fed-sdp", "fed-sdp-client", "fed-cdp", "fed-alpha-cdp", "fed-alpha-cdp-sigma"),
    *("quantile", "adaclip", "fed-slack", "fed-sum", "dssgd", "pruning", "random-noise"),
)
ALL = pytest.mark.parametrize("method", [e.value for e in METHODS.values()], ids=list(METHODS))


@pytest.mark.parametrize("name", CONTRACT)
def test_every_name_of_the_command_line_is_a_method(name):
    assert METHODS[name].value.name == name
    assert METHODS[name].meaning


def test_every_decay_of_the_command_line_is_a_schedule():
    assert list(DECAYS) == ["constant", "linear", "staircase", "exponential", "cyclic"]
    assert {type(decay(name, 15.0, 4.85)) for name in DECAYS} == set(SCHEDULES)


def test_every_sensitivity_but_a_number_has_a_name():
    assert {type(s) for s in SENSITIVITY_NAMES.values()} == set(SENSITIVITIES) - {Fixed}


@ALL
def test_a_method_is_made_of_listed_parts(method):
    listed = {"prune": PRUNES, "clip": CLIPS, "sensitivity": SENSITIVITIES, "noise": SCHEDULES}
    assert all(type(getattr(method, part)) in kinds for part, kinds in listed.items())
    assert {f.name for f in fields(Method) if "kinds" in f.metadata} == set(listed)


@ALL
def test_a_method_returns_from_toml_and_json_as_it_went(method):
    plain = codec.encode(method)
    assert codec.decode(Method, json.loads(json.dumps(plain))) == method
    assert codec.decode(Method, tomllib.loads(tomli_w.dumps(plain))) == method


@ALL
@pytest.mark.parametrize("draw", Draw)
def test_every_draw_returns_from_a_file(method, draw):
    drawn = replace(method, draw=draw)
    assert codec.decode(Method, codec.encode(drawn)) == drawn


def test_different_methods_have_different_digests():
    assert len({codec.digest(e.value) for e in METHODS.values()}) == len(METHODS)


@ALL
def test_binding_the_numbers_gives_the_parts_back(method):
    kind, numbers = split_static(method)
    rule = combine(kind, numbers)
    assert (rule.prune, rule.clip, rule.sensitivity) == (method.prune, method.clip, method.sensitivity)
    assert (rule.surface, rule.draw, rule.share, rule.idle) == (
        method.surface,
        method.draw,
        method.share,
        method.idle,
    )
    assert hash(kind) == hash(split_static(replace(method, name="another"))[0])


@ALL
def test_a_kind_holds_no_float(method):
    kind, _ = split_static(method)
    assert not [v for _, part in kind.parts for _, v in part if isinstance(v, float)]


@ALL
def test_different_shapes_of_a_method_are_different_kinds(method):
    kind, _ = split_static(method)
    assert split_static(replace(method, draw=Draw.MEAN))[0] != kind
    if not method.share:
        assert split_static(replace(method, surface=Surface((method.surface + 1) % 3)))[0] != kind


def test_one_compiled_program_serves_every_bound_and_sigma():
    traced = []

    @jax.jit
    def clip_one(numbers, sigma, key):
        traced.append(1)
        kind, _ = split_static(FED_CDP)
        lot = (jnp.full((1, 9), 100.0),)
        return cross(Surface.EXAMPLE, combine(kind, numbers), lot, jnp.ones(1), 1, sigma, (), key).used[0]

    for c in (1.0, 2.0, 5.0):
        _, numbers = split_static(replace(FED_CDP, clip=PerLayer(c)))
        used = clip_one(numbers, 0.0, jax.random.key(0))
        assert float(jnp.linalg.norm(used)) == pytest.approx(c, rel=1e-5)
    assert len(traced) == 1


@pytest.mark.parametrize("surface", Surface)
def test_the_non_private_method_is_idle_and_gives_the_plain_mean(surface):
    assert NON_PRIVATE.idle
    lot = (jnp.arange(12.0).reshape(3, 4), 1e6 * jnp.ones((3, 2)))
    kind, numbers = split_static(NON_PRIVATE)
    crossing = cross(surface, combine(kind, numbers), lot, jnp.ones(3), 3, 9.0, (), jax.random.key(0))
    for used, units in zip(crossing.used, lot, strict=True):
        np.testing.assert_allclose(used, np.mean(units, axis=0), rtol=1e-6)


def test_no_other_method_is_idle():
    assert [name for name, entry in METHODS.items() if entry.value.idle] == ["non-private"]


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"clip": Unclipped(), "sensitivity": ClipBound(), "noise": Constant(1.0)}, "infinite"),
        ({"clip": Unclipped(), "sensitivity": ClipBound()}, "infinite"),
        ({"noise": Constant(1.0)}, "sensitivity 0"),
        ({"noise": Linear(start=2.0, end=1.0), "sensitivity": Fixed(0.0), "clip": Flat(1.0)}, "sensitivity 0"),
        ({"sensitivity": L2MaxAsCoded(), "clip": PerLayer(4.0), "noise": Constant(1.0)}, "OwnNorm"),
        ({"clip": AdaClip(), "sensitivity": L2Max(), "noise": Constant(1.0)}, "whitened"),
        ({"clip": AdaClip(), "sensitivity": L2MaxOfMean(), "noise": Constant(1.0)}, "whitened"),
        ({"clip": Slack(4.0), "sensitivity": Fixed(4.0), "noise": Constant(1.0)}, "ClipBound"),
        ({"clip": Slack(4.0), "sensitivity": L2Max(), "noise": Constant(1.0)}, "ClipBound"),
        ({"share": True, "surface": Surface.SERVER}, "share"),
    ],
)
def test_a_senseless_combination_is_refused_with_the_methods_name(parts, why):
    with pytest.raises(BadInput, match=f"'mine'.*{why}"):
        Method(name="mine", **parts)


def test_sensible_combinations_are_accepted():
    Method(name="a", clip=OwnNorm(), sensitivity=L2MaxAsCoded(), noise=Constant(1.0))
    Method(name="b", sensitivity=Fixed(1.0), noise=Constant(1.0))
    assert not replace(FED_SDP_CLIENT, share=True).idle
