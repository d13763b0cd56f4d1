"""How large an honest update can be: honest ones are never refused, absurd ones always, by name."""

import math
from dataclasses import replace

import jax
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, Message, RecordDict

from gradveil import keys
from gradveil.data.sampling import Poisson
from gradveil.engines.vectorized import Vectorized
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.limits import norms, statistics_fault, update_limit
from gradveil.federation.messages import task_for
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.methods import FED_CDP, FED_SDP_CLIENT, METHODS
from gradveil.privacy.clip import Flat, PerLayer
from gradveil.privacy.draw import Draw
from gradveil.privacy.schedule import Constant

UNBOUNDED = {"non-private", "pruning", "random-noise"}
AT_THE_SERVER = {"fed-sdp"}


def leaves(tree):
    return tuple(np.asarray(leaf) for leaf in jax.tree.leaves(tree))


def largest(plan, tiny, seeds=5):
    """Train cohorts honestly; gives the largest norm of an update and the limit of its round, over seeds and rounds."""
    found = []
    engine = Vectorized(plan, Population.of(plan, tiny()))
    for seed in range(seeds):
        state = server.init(plan, (12,), 3, Keys.of(seed, secret=False))
        for t in range(plan.rounds):
            task = task_for(plan, t, state.params, state.clip_state, keys.of_words(seed, t))
            reports = engine.train(task, np.arange(plan.clients))
            assert statistics_fault(plan, t, state.params, state.clip_state, leaves(reports.statistics)) is None
            found.append((norms(leaves(reports.update)).max(), update_limit(plan, t, state.params, state.clip_state)))
            state, _ = server.absorb(plan, task, state, reports)
    return found


@pytest.mark.parametrize("sampling", ["fixed", pytest.param("poisson", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", METHODS)
def test_honest_updates_of_every_method_are_within_the_limit(plan, tiny, name, sampling):
    plan = replace(plan, method=METHODS[name].value, rounds=3)
    plan = replace(plan, sampling=Poisson()) if sampling == "poisson" else plan
    found = largest(plan, tiny)
    assert all(norm <= limit for norm, limit in found)
    assert all(math.isinf(limit) == (name in UNBOUNDED | AT_THE_SERVER) for _, limit in found)


@pytest.mark.parametrize("draw", Draw, ids=lambda d: d.value)
@pytest.mark.parametrize("method", [FED_CDP, FED_SDP_CLIENT], ids=lambda m: m.name)
def test_where_noise_is_all_the_limit_is_less_than_twice_what_is_sent(plan, tiny, method, draw):
    loud = replace(plan, method=replace(method, draw=draw, noise=Constant(1000.0)))
    assert all(norm <= limit < 2 * norm for norm, limit in largest(loud, tiny))


@pytest.mark.parametrize("clip", [PerLayer, Flat])
@pytest.mark.parametrize("steps", [1, 3])
def test_where_every_example_is_clipped_the_limit_is_reached(plan, tiny, clip, steps):
    """One example a step, each far above the bound in every layer: the sum is the bound, C or C sqrt(M)."""
    quiet = replace(FED_CDP, clip=clip(1e-3), noise=Constant(1e-6))
    found = largest(replace(plan, method=quiet, batch=1, local_steps=steps), tiny)
    assert all(norm <= limit for norm, limit in found)
    layers = 2 if clip is PerLayer else 1  # the two matrices of the model
    expected = plan.learning_rate * steps * 1e-3 * math.sqrt(layers)
    assert all(limit == pytest.approx(expected, rel=0.02) for _, limit in found)
    assert steps > 1 or max(norm for norm, _ in found) == pytest.approx(expected, rel=1e-2)


@pytest.mark.parametrize("clip", [PerLayer, Flat])
def test_where_every_update_is_clipped_the_limit_is_reached(plan, tiny, clip):
    quiet = replace(FED_SDP_CLIENT, clip=clip(1e-4), noise=Constant(1e-6))
    found = largest(replace(plan, method=quiet), tiny)
    expected = 1e-4 * math.sqrt(2 if clip is PerLayer else 1)
    assert all(norm <= limit for norm, limit in found)
    assert all(limit == pytest.approx(expected, rel=0.05) for _, limit in found)
    assert max(norm for norm, _ in found) == pytest.approx(expected, rel=1e-2)


def trained(plan, engine, **options):
    roots = Keys.of(plan.seed, secret=False)
    return list(rounds(plan, engine, server.init(plan, (12,), 3, roots), roots, **options))


def constant(value, part="update"):
    """Give a tampering that puts one number everywhere in an update or in its notes."""

    def tamper(message, reply):
        arrays = {name: a.numpy() for name, a in reply.content[part].items() if "." not in name}
        changed = ArrayRecord({n: Array(np.full_like(a, value)) for n, a in arrays.items()})
        parts = {name: reply.content[name] for name in ("update", "statistics")} | {part: changed}
        return Message(RecordDict(parts), reply_to=message)

    return tamper


HUGE = (1e4, 1e30, 3e38)
BOUNDED = sorted(set(METHODS) - UNBOUNDED - AT_THE_SERVER - {"dssgd"})  # dssgd travels sparse, see below


@pytest.mark.parametrize("value", [HUGE[0], *(pytest.param(value, marks=pytest.mark.slow) for value in HUGE[1:])])
@pytest.mark.parametrize("name", BOUNDED)
def test_an_absurd_update_is_refused_by_name_and_the_model_is_what_the_others_make(federation, plan, name, value):
    plan = replace(plan, method=METHODS[name].value, rounds=1)
    over, grid = federation(plan)
    grid.tamper["east"] = constant(value)
    (done,) = trained(plan, over)
    missing = done.remarks["nodes"]["missing"]
    assert set(missing) == {"east"}
    assert "the update of client" in missing["east"]
    assert "above the limit" in missing["east"]
    without, grid = federation(plan)
    grid.tamper["east"] = lambda message, reply: None
    (expected,) = trained(plan, without)
    for one, other in zip(leaves(done.state.params), leaves(expected.state.params), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_sparse_update_is_measured_too(federation, plan):
    over, grid = federation(replace(plan, method=METHODS["dssgd"].value))

    def tamper(message, reply):
        arrays = {n: a.numpy() * (1e30 if n.endswith("values") else 1) for n, a in reply.content["update"].items()}
        arrays = {n: a.astype(np.uint32 if n.endswith("at") else np.float32) for n, a in arrays.items()}
        parts = {
            "update": ArrayRecord({n: Array(a) for n, a in arrays.items()}),
            "statistics": reply.content["statistics"],
        }
        return Message(RecordDict(parts), reply_to=message)

    grid.tamper["east"] = tamper
    assert "above the limit" in trained(over.plan, over)[0].remarks["nodes"]["missing"]["east"]


@pytest.mark.parametrize("value", HUGE)
def test_what_the_server_clips_itself_moves_the_model_no_further_than_an_honest_update(federation, plan, value):
    plan = replace(plan, method=replace(METHODS["fed-sdp"].value, noise=Constant(0.0)), rounds=1)
    over, grid = federation(plan)
    grid.tamper["east"] = constant(value)
    (done,) = trained(plan, over)
    before = leaves(server.init(plan, (12,), 3, Keys.of(plan.seed, secret=False)).params)
    moved = [after - old for after, old in zip(leaves(done.state.params), before, strict=True)]
    assert norms(tuple(m[None] for m in moved))[0] <= 4.0 * math.sqrt(2) * 1.001


@pytest.mark.parametrize("name", sorted(UNBOUNDED))
def test_where_the_plan_bounds_nothing_the_server_can_set_a_limit(federation, plan, name):
    plan = replace(plan, method=METHODS[name].value, rounds=1)
    over, grid = federation(plan, largest=50.0)
    grid.tamper["east"] = constant(1e4)
    assert "above the limit 50" in trained(plan, over)[0].remarks["nodes"]["missing"]["east"]
    free, grid = federation(plan)
    grid.tamper["east"] = constant(1e4)
    assert trained(plan, free)[0].remarks["nodes"]["missing"] == {}


@pytest.mark.parametrize("name", ["quantile", "adaclip", "fed-slack"])
@pytest.mark.parametrize("value", [-3e38, 1e4, 1e30])
def test_an_absurd_note_to_an_adaptive_clip_is_refused_too(federation, plan, name, value):
    plan = replace(plan, method=METHODS[name].value, rounds=1)
    over, grid = federation(plan)
    grid.tamper["east"] = constant(value, "statistics")
    missing = trained(plan, over)[0].remarks["nodes"]["missing"]
    assert set(missing) == {"east"}
    assert missing["east"].startswith(("rejected: a count is above the limit", "rejected: clip statistics have norm"))
