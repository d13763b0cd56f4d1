"""A server that asks for what it may not have, against a node with the strict policy: nothing leaves it."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from gradveil.deployment.node import Node
from gradveil.deployment.policy import STRICT
from gradveil.deployment.spending import Spending
from gradveil.engines.flower import wire
from gradveil.federation import server
from gradveil.federation.orders import NodeReply, Order, Refusal
from gradveil.federation.plan import NoiseSource
from gradveil.keys import Keys
from gradveil.methods import FED_CDP, FED_SDP, FED_SDP_CLIENT, METHODS
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.clip import PerLayer, Unclipped
from gradveil.privacy.schedule import Constant, Cyclic, Exponential
from gradveil.privacy.sensitivity import Fixed, L2Max, L2MaxOfMean

NAMED = "this node allows only fed-cdp, fed-sdp-client"
SEEDED = {"noise_source": NoiseSource.SEEDED}


def cdp(**changes):
    return {"method": replace(FED_CDP, **changes)}


HOSTILE = {
    "no protection": ({"method": METHODS["non-private"].value}, {}, NAMED),
    "no protection under a good name": (
        {"method": replace(METHODS["non-private"].value, name="fed-cdp")}, {}, NAMED),
    "noise at the server": ({"method": FED_SDP}, {}, NAMED),
    "noise at the server under a good name": ({"method": replace(FED_SDP, name="fed-cdp")}, {}, NAMED),
    "almost no noise": (cdp(noise=Constant(1e-9)), {}, "sigma = 1e-09"),
    "almost no noise on updates": ({"method": replace(FED_SDP_CLIENT, noise=Constant(1e-9))}, {}, "sigma = 1e-09"),
    "no noise": (cdp(noise=Constant(0.0)), {}, "does not clip and noise every step"),
    "noise that fades": (cdp(noise=Exponential(start=15.0, end=0.1)) | {"rounds": 50}, {}, "sigma = "),
    "noise that falls to nothing": (cdp(noise=Cyclic(start=15.0)) | {"rounds": 50}, {}, "sigma = "),
    "noise for a smaller bound": (cdp(sensitivity=Fixed(1e-6)), {}, NAMED),
    "noise without a bound": (cdp(clip=Unclipped(), sensitivity=Fixed(1.0)), {}, NAMED),
    "noise that follows the data": ({"method": METHODS["fed-alpha-cdp"].value}, {}, NAMED),
    "noise that follows the data under a good name": (cdp(sensitivity=L2Max()), {}, NAMED),
    "noise that follows the mean": (cdp(sensitivity=L2MaxOfMean()), {}, NAMED),
    "the authors' code": ({"method": METHODS["fed-alpha-cdp-as-coded"].value}, {}, NAMED),
    "a bound that follows counts": (cdp(clip=Quantile(4.0)), {}, NAMED),
    "a share of the noise": ({"method": replace(FED_SDP_CLIENT, share=True)}, {}, NAMED),
    "pruning": ({"method": METHODS["pruning"].value}, {}, NAMED),
    "a part of the coordinates": ({"method": METHODS["dssgd"].value}, {}, NAMED),
    "noise from a seed": (SEEDED, {"key": (1, 2)}, "seeded"),
    "a key for secret noise": ({}, {"key": (1, 2)}, "key: must be absent where the plan's noise is secret"),
    "too many rounds": ({"rounds": 1_000_000}, {}, "rounds = 1000000"),
    "a delta that allows everything": ({"delta": 0.009}, {}, "delta = 0.009"),
    "so many steps that the noise averages out": ({"local_steps": 3000}, {}, "epsilon = "),
    "another's clients": ({}, {"clients": np.array([0, 1])}, "clients: must be clients of this node"),
    "one client many times": ({}, {"clients": np.array([0, 0, 0])}, "clients: must be clients of this node"),
}  # fmt: skip


def ordered(plan, **changes):
    state = server.init(plan, (12,), 3, Keys.of(0, secret=False))
    given = {
        "plan": plan, "t": 0, "clients": np.array([0, 3]), "node": 0, "nodes": 3, "shape": (12,),
        "classes": ("a", "b", "c"), "columns": (), "params": tuple(map(np.asarray, state.params)),
        "clip_state": tuple(map(np.asarray, jax.tree.leaves(state.clip_state))), "key": None,
    }  # fmt: skip
    return Order(**given | changes)


@pytest.fixture
def node(tmp_path, tiny):
    return Node(tiny(), STRICT, Spending(tmp_path / "spending.json"), (0, 3))


def sent(node, order):
    """Let an order come as it comes over the network."""
    return node.handle(wire.unpack_order(wire.pack_order(order)))


def test_the_strict_policy_serves_an_honest_order(node, secret):
    for plan in (
        secret,
        replace(secret, method=FED_SDP_CLIENT),
        replace(secret, method=replace(FED_CDP, clip=PerLayer(1.0))),
    ):
        assert isinstance(sent(node, ordered(plan)), NodeReply)


def test_there_are_26_hostile_orders():
    assert len(HOSTILE) == 26


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_order_is_refused_with_the_reason_and_nothing_is_spent(node, secret, name):
    plan, changes, said = HOSTILE[name]
    answer = sent(node, ordered(replace(secret, **plan), **changes))
    assert isinstance(answer, Refusal)
    assert said in answer.reason
    assert node.spending.read() == {}


def test_an_honest_order_that_is_repeated_ends_with_the_budget(node, secret):
    answers = [sent(node, ordered(replace(secret, rounds=100))) for _ in range(40)]
    served = [isinstance(answer, NodeReply) for answer in answers]
    assert served == sorted(served, reverse=True)
    assert 0 < sum(served) < 40
    assert "would be spent in all" in answers[-1].reason
