"""A node that is pinned to a model: a server that changes the network, or its first weights, is refused."""

import hashlib
import json
from dataclasses import replace

import jax
import numpy as np
import pytest

from gradveil.deployment import policy as policies
from gradveil.deployment.node import Node
from gradveil.deployment.policy import STRICT, Policy
from gradveil.deployment.policy_file import as_toml
from gradveil.deployment.spending import Spending
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.orders import NodeReply, Order, Refusal
from gradveil.keys import Keys
from gradveil.models.networks import Mlp


def ordered(plan, t=0, change=lambda leaves: leaves):
    state = server.init(plan, (12,), 3, Keys.of(plan.seed, secret=False))
    leaves = [np.array(a) for a in jax.tree.leaves(state.params)]
    return Order(
        plan=plan, t=t, clients=np.array([0, 3]), node=0, nodes=3, shape=(12,), classes=("a", "b", "c"), columns=(),
        params=tuple(change(leaves)), clip_state=tuple(map(np.asarray, jax.tree.leaves(state.clip_state))), key=None,
    )  # fmt: skip


def one_unit(leaves):
    """The least change: one unit of the first layer gets weights of its neighbor."""
    leaves[0][:, 0] = leaves[0][:, 1]
    return leaves


@pytest.fixture
def node(tmp_path, tiny):
    def pinned(**rules):
        return Node(tiny(), replace(STRICT, **rules), Spending(tmp_path / "spending.json"), (0, 3))

    return pinned


def test_weights_of_the_first_round_must_be_those_that_the_seed_draws(node, secret):
    plan = replace(secret, seed=5)
    assert isinstance(node(drawn_weights=True).handle(ordered(plan)), NodeReply)
    answer = node(drawn_weights=True).handle(ordered(plan, change=one_unit))
    assert isinstance(answer, Refusal)
    assert answer.reason == "weights: those of round 0 are not what seed = 5 draws, and this node requires that"


def test_refused_weights_cost_nothing(node, secret):
    pinned = node(drawn_weights=True)
    assert isinstance(pinned.handle(ordered(secret, change=one_unit)), Refusal)
    assert pinned.spending.read() == {}


def test_weights_are_not_looked_at_without_the_rule_nor_after_the_first_round(node, secret):
    assert isinstance(node().handle(ordered(secret, change=one_unit)), NodeReply)
    plan = replace(secret, rounds=2)
    assert isinstance(node(drawn_weights=True).handle(ordered(plan, t=1, change=one_unit)), NodeReply)


def test_another_model_is_refused_by_its_digest(node, secret):
    own = {"kind": "Mlp", "hidden": list(secret.model.hidden), "bias": secret.model.bias}
    digest = hashlib.sha256(json.dumps(own, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
    assert isinstance(node(model_sha256=digest).handle(ordered(secret)), NodeReply)
    other = replace(secret, model=Mlp(hidden=(4, 4)))
    answer = node(model_sha256=digest).handle(ordered(other))
    assert isinstance(answer, Refusal)
    assert answer.reason.startswith("model = Mlp(hidden=(4, 4)")
    assert f"this node trains only the model {digest}" in answer.reason


def test_a_pinned_policy_survives_its_file_and_a_digest_that_is_none_is_refused(tmp_path):
    policy = replace(STRICT, model_sha256="0" * 64, drawn_weights=True)
    (tmp_path / "policy.toml").write_text(as_toml(policy))
    assert policies.read(tmp_path / "policy.toml") == policy
    with pytest.raises(BadInput, match="model_sha256 = 'abc': must be 64 digits from 0 to f"):
        Policy(model_sha256="abc")
