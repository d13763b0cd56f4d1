"""Canaries in a run over nodes: only where policies allow them, and judged by an audit of the finished run."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from nodes_in_memory import ANY, NODES, MemoryGrid

import gradveil
from gradveil.data.sampling import Poisson
from gradveil.data.sources import load
from gradveil.deployment import conductor
from gradveil.deployment.node import Node
from gradveil.deployment.policy import Policy
from gradveil.deployment.policy_file import as_toml
from gradveil.deployment.spending import Spending
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.canary_rows import clients_with, coins, refuse_unfit
from gradveil.federation.messages import task_for
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.methods import FED_SDP_CLIENT, METHODS
from gradveil.privacy.schedule import Constant
from gradveil.runs import store

LENDS = replace(ANY, audit_canaries=15)
CANARIES = 45


def heard(federation, plan, policy=LENDS):
    engine, grid = federation(plan, policy, canaries=CANARIES)
    roots = Keys.of(plan.seed, secret=False)
    return list(rounds(plan, engine, server.init(plan, (12,), 3, roots), roots)), grid


def quiet(plan):
    return replace(plan, rounds=1, cohort=9, method=replace(plan.method, noise=Constant(1e-4)))


def test_a_canary_that_is_in_shows_as_the_clip_allows_and_one_that_is_out_not_at_all(federation, plan):
    """3 steps of 4 over 10 records hold each once, two of them twice: eta C / B, or twice that."""
    (done,), grid = heard(federation, quiet(plan))
    seen, inside = np.array(done.remarks["canaries"]["client"]), coins(plan, CANARIES)
    np.testing.assert_allclose(seen[~inside], 0.0, atol=1e-3)
    times = seen[inside] / -(0.1 * 4.0 / 4)
    np.testing.assert_allclose(times, np.round(times), atol=0.02)
    assert set(np.round(times)) <= {1.0, 2.0}
    np.testing.assert_allclose(seen, done.remarks["canaries"]["everyone"], atol=1e-2)
    assert len(jax.tree.leaves(done.state.params)) == 2
    assert all("refusal" not in reply.content for _, _, reply in grid.crossed)


def test_no_real_record_depends_on_a_coin(federation, plan, monkeypatch):
    """Canaries that are in and out in turn leave the same model: their places are lent either way."""
    models = []
    for tossed in (True, False):
        monkeypatch.setattr("gradveil.federation.canary_rows.coins", lambda p, m, all=tossed: np.full(m, all))
        (done,), _ = heard(federation, quiet(plan))
        models.append(jax.tree.leaves(done.state.params))
    for one, other in zip(*models, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


@pytest.mark.parametrize(
    ("lent", "said"), [(0, "this node lends 0"), (14, "the places of 15 records here; this node lends 14")]
)
def test_a_node_whose_policy_does_not_allow_them_refuses_and_spends_nothing(federation, plan, lent, said):
    engine, grid = federation(plan, replace(ANY, audit_canaries=lent), canaries=CANARIES)
    roots = Keys.of(0, secret=False)
    with pytest.raises(Exception, match=said):
        list(rounds(plan, engine, server.init(plan, (12,), 3, roots), roots))
    assert all(node.spending.read() == {} for node in grid.sites.values())


def test_the_policy_says_so_in_its_file_and_is_strict_by_default(tmp_path):
    assert Policy().audit_canaries == 0
    assert "audit_canaries = 0" in as_toml(Policy())
    with pytest.raises(BadInput, match="audit_canaries = -1"):
        Policy(audit_canaries=-1)


UNFIT = {
    "noised updates": ({"method": FED_SDP_CLIENT}, 45, "where examples are noised"),
    "a clip that learns": ({"method": METHODS["adaclip"].value}, 45, "a clip that learns"),
    "too many": ({}, 46, "must be between 8 and 45, half of all records"),
    "too few": ({}, 7, "must be between 8"),
    "unequal clients": ({"client_sizes": (10,) * 9, "sampling": Poisson()}, 45, "clients have one size"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_canaries_that_would_show_nothing_are_refused_by_server_and_node(federation, plan, name):
    changes, canaries, said = UNFIT[name]
    changed = replace(plan, **changes)
    with pytest.raises(BadInput, match=said):
        refuse_unfit(changed, canaries)


def test_canaries_are_dealt_to_all_clients_by_turns(plan):
    assert np.bincount(clients_with(plan, CANARIES)).tolist() == [5] * 9


@pytest.fixture
def run(tmp_path):
    """Train a run over nodes in memory with as many canaries; gives its folder."""

    def make(canaries):
        plan = gradveil.plan("synthetic", "fed-cdp", clients=9, client_size=20, rounds=2, sigma=30.0, batch=20,
                             sampling="whole", seed=1)  # fmt: skip
        data = load("synthetic")
        federation = conductor.Federation(nodes=NODES, canaries=canaries)
        conductor.lay_out(plan, data, tmp_path / "run", federation)
        policy = replace(ANY, audit_canaries=30)
        conductor.conduct(
            MemoryGrid(
                {name: Node(data, policy, Spending(tmp_path / name / "s.json"), (i, 3)) for i, name in enumerate(NODES)}
            ),
            tmp_path / "run",
        )
        assert store.read_json(tmp_path / "run" / conductor.STATUS)["state"] == "done"
        return tmp_path / "run"

    return make


def audited(folder):
    return gradveil.audit(folder, levels=("one-run",))


def test_an_audit_of_the_finished_run_is_not_refuted_and_its_model_is_like_any_other(run):
    folder = run(90)
    record = audited(folder)
    assert {row.level for row in record.rows} == {"one-run"}
    assert all(row.verdict != "refuted" for row in record.rows)
    assert all("90 canaries in one run" in row.why for row in record.rows if row.unit == "example")
    assert gradveil.load(folder).predict(load("synthetic").test.x).shape == (len(load("synthetic").test),)


def test_nodes_that_forget_their_noise_are_refuted_by_the_canaries_of_the_run(run, monkeypatch):
    def silent(*args):
        return (task := task_for(*args))._replace(sigmas=jnp.zeros_like(task.sigmas))

    monkeypatch.setattr("gradveil.deployment.node.task_for", silent)
    record = audited(run(90))
    assert record.verdict == "refuted"
    assert any(row.threat_model == "server" and row.verdict == "refuted" for row in record.rows)


def test_a_run_without_canaries_is_refused_in_a_sentence(run):
    folder = run(0)
    with pytest.raises(BadInput, match="without canaries"):
        audited(folder)
    with pytest.raises(BadInput, match="whose records are no canaries"):
        gradveil.audit(folder, levels=("black-box",))
