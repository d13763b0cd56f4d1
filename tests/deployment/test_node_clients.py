"""Nodes that are one client or several, each with as many rows as it has: the same run as on one machine."""

import json
import re
from dataclasses import replace

import jax
import numpy as np
import pytest
from nodes_in_memory import ANY, MemoryGrid

import gradveil
from gradveil import codec
from gradveil.data.natural_clients import SIZES
from gradveil.data.schema_text import schema_toml
from gradveil.data.table_schema import ClassTarget, NumberColumn, Schema
from gradveil.deployment import conductor
from gradveil.deployment.node import Node, NodeSettings
from gradveil.deployment.node_clients import ClientList, client_list, gathered, holders_of, node_data
from gradveil.deployment.policy import Policy
from gradveil.deployment.policy_file import as_toml
from gradveil.deployment.spending import Spending
from gradveil.engines.flower.flower_engine import Flower, Roster
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import limits, server
from gradveil.federation.engine import Population
from gradveil.federation.orders import NodeReply, Refusal
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.models.networks import Mlp
from gradveil.runs import store
from gradveil.runs.run_records import RunResult

SITES = {"north": {"city": 24}, "east": {"county": 8, "island": 2}, "west": {"valley": 4}}
NODES = tuple(SITES)
ROWS = {name: rows for site in SITES.values() for name, rows in site.items()}
HOLDERS = (0, 1, 1, 2)
SCHEMA = Schema(
    ClassTarget("back", ("no", "yes")), (NumberColumn("age", 0, 120), NumberColumn("days", 0, 60)), public=True
)


@pytest.fixture(scope="module")
def everyone():
    """All rows on one machine, in the order of the nodes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(sum(ROWS.values()), 3)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(int)
    names = np.repeat(list(ROWS), list(ROWS.values()))
    return gradveil.Dataset.of(x, y, test=(x[:10], y[:10]), classes=("no", "yes"), clients=names)


@pytest.fixture(scope="module")
def planned(everyone):
    settings = {"rounds": 2, "local_steps": 1, "batch": 3, "seed": 3, "noise_source": "seeded", "sigma": 2.0}
    plan = gradveil.plan(everyone, "fed-cdp", model=Mlp(hidden=(4,)), **settings)
    return replace(plan, client_names=everyone.client_names)


def part(everyone, name):
    """The data of one node, which numbers its own clients."""
    rows = np.flatnonzero([everyone.client_names[owner] in SITES[name] for owner in everyone.owners])
    names = tuple(sorted(SITES[name]))
    owners = np.array([names.index(everyone.client_names[owner]) for owner in everyone.owners[rows]], np.int32)
    train = replace(everyone.train, x=everyone.train.x[rows], y=everyone.train.y[rows])
    return replace(everyone, train=train, owners=owners, client_names=names)


@pytest.fixture
def over_nodes(everyone, tmp_path):
    def make(plan, policy=ANY):
        sites = {
            name: Node(part(everyone, name), policy, Spending(tmp_path / name / "spending.json")) for name in NODES
        }
        grid = MemoryGrid(sites)
        roster = Roster(NODES, deadline=10.0, patience=30.0, gathering=5.0, holders=HOLDERS)
        return Flower(plan, replace(everyone, owners=None), grid, roster, clock=lambda: grid.now), grid

    return make


def trained(plan, engine):
    roots = Keys.of(plan.seed, secret=False)
    *_, last = rounds(plan, engine, server.init(plan, (3,), 2, roots), roots)
    return last.state


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fed-cdp", "fed-sdp-client"])
def test_nodes_of_different_size_train_what_one_machine_with_all_rows_does(everyone, planned, over_nodes, method):
    plan = replace(planned, method=gradveil.plan(everyone, method).method)
    here = trained(plan, Vectorized(plan, Population.of(plan, everyone)))
    engine, grid = over_nodes(plan)
    there = trained(plan, engine)
    for one, other in zip(jax.tree.leaves(there.params), jax.tree.leaves(here.params), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
    np.testing.assert_array_equal(there.participations, here.participations)
    sent = {name: set(json.loads(str(m.content["order"]["json"]))["clients"]) for name, m, _ in grid.crossed}
    assert sent == {"north": {0}, "east": {1, 2}, "west": {3}}


def test_the_noised_sums_of_a_small_client_are_within_its_limit(everyone, over_nodes):
    """Sigma is 40, so that a client of 2 rows sends noise that the limit of one of 24 rows would not allow."""
    settings = {"rounds": 3, "seed": 3, "noise_source": "seeded", "sigma": 40.0}
    plan = replace(gradveil.plan(everyone, "fed-sum", **settings), client_names=everyone.client_names)
    assert plan.preparation
    engine, _ = over_nodes(plan)
    assert trained(plan, engine).participations.tolist() == [3, 3, 3, 3]


def test_the_limit_of_an_update_is_that_of_its_clients_own_size(everyone, planned, over_nodes):
    """A client of 2 rows divides by 0.25 and not by 3, so its noise is 12 times that of the largest."""
    plan = replace(planned, rounds=1)
    params = server.init(plan, (3,), 2, Keys.of(0, secret=False)).params
    largest, smallest = (limits.update_limit(plan, 0, params, (), size) for size in (24, 2))
    assert largest == limits.update_limit(replace(plan, client_sizes=None, client_names=None), 0, params, ())
    engine, grid = over_nodes(plan)
    assert trained(plan, engine).round == 1
    (answer,) = [reply for name, _, reply in grid.crossed if name == "east"]
    update = [leaf.numpy() for leaf in answer.content["update"].values()]
    norms = np.sqrt(sum(np.square(leaf).reshape(2, -1).sum(axis=1) for leaf in update))
    assert largest < norms[1] <= smallest


def order_of(everyone, plan, over_nodes, name="east"):
    """The order that a node gets in round 0, and the node."""
    caught = []
    engine, grid = over_nodes(plan)
    node, handle = grid.sites[name], grid.sites[name].handle

    class Listening:
        def handle(self, order):
            caught.append(order)
            return handle(order)

    grid.sites[name] = Listening()
    trained(replace(plan, rounds=1), engine)
    return node, caught[0]


MISFITS = {
    "another number of rows": ({"client_sizes": (24, 9, 2, 4)}, {}, "'county' has another number of rows here"),
    "unnamed": ({"client_names": ("city", "county", "isle", "valley")}, {}, "does not name a client of this node"),
    "of one size": ({"client_sizes": None, "client_names": None}, {}, "the plan does not name them"),
    "another's client": ({}, {"clients": np.array([1, 3])}, "clients: must be clients of this node"),
    "another schema": ({"schema": SCHEMA}, {}, "schema: "),
}


@pytest.mark.parametrize("name", MISFITS)
def test_a_plan_with_other_clients_is_refused_and_no_number_is_told(everyone, planned, over_nodes, name):
    changes, ordered, said = MISFITS[name]
    node, order = order_of(everyone, planned, over_nodes)
    node.spending.path.unlink()
    answer = node.handle(replace(order, plan=replace(order.plan, **changes), **ordered))
    assert isinstance(answer, Refusal)
    assert said in answer.reason
    assert not re.search(r"\b8\b", answer.reason)
    assert node.spending.read() == {}


def test_a_node_without_named_clients_refuses_a_plan_that_names_them(everyone, planned, over_nodes):
    node, order = order_of(everyone, planned, over_nodes)
    assert isinstance(node.handle(order), NodeReply)
    node.dataset = replace(node.dataset, owners=None, client_names=())
    node._views.clear()
    assert "without --client or --client-column" in node.handle(order).reason


def table(rows, seed=0, header="age,days,back", label="yes"):
    rng = np.random.default_rng(seed)
    lines = [f"{rng.integers(18, 95)},{rng.integers(1, 40)},{rng.choice(['no', label])}" for _ in range(rows)]
    return "\n".join([header, *lines]) + "\n"


@pytest.fixture
def files(tmp_path):
    """Three tables of different size and a schema; the rows of the second are of two clients."""
    (tmp_path / "schema.toml").write_text(schema_toml(SCHEMA))
    for seed, (name, rows) in enumerate({"north": 90, "west": 11, "test": 40}.items()):
        (tmp_path / f"{name}.csv").write_text(table(rows, seed))
    lines = table(30, 7).splitlines()
    wards = ["ward", *["heart"] * 22, *["lung"] * 8]
    (tmp_path / "east.csv").write_text("\n".join(f"{a},{b}" for a, b in zip(lines, wards, strict=True)) + "\n")
    return tmp_path


NAMED = {"north": {"client": "north"}, "east": {"client_column": "ward"}, "west": {"client": "west"}}


def settings(files, name, **changes):
    given = {"data": str(files / f"{name}.csv"), "schema": str(files / "schema.toml"), **NAMED[name]}
    (files / "policy.toml").write_text(as_toml(Policy(allow_no_guarantee=True)))
    paths = {"state": str(files / f"{name}-state"), "policy": str(files / "policy.toml")}
    return NodeSettings(**paths | given | changes)


def test_a_federated_run_has_the_guarantee_of_the_worst_client_and_a_table_of_all(files):
    sites = {name: Node.open(settings(files, name)) for name in NODES}
    for name, node in sites.items():
        store.write_json(files / f"{name}.json", codec.encode(client_list(node.dataset)))
    lists, given = gathered([files / f"{name}.json" for name in NODES], NODES)
    test = str(files / "test.csv")
    data = gradveil.dataset(test, schema=SCHEMA, test=test)
    assert (len(data.test), given["client_names"]) == (40, ("heart", "lung", "north", "west"))
    plan = gradveil.plan(
        test,
        "fed-cdp",
        rounds=2,
        sigma=3.0,
        sampling="whole",
        schema=SCHEMA,
        test=test,
        model=Mlp(hidden=(4,)),
        **given,
    )
    assert (plan.cohort, plan.batch, plan.client_sizes) == (4, 90, (22, 8, 90, 11))
    federation = conductor.Federation(nodes=NODES, holders=holders_of(plan, lists, NODES))
    assert federation.holders == (1, 1, 0, 2)
    conductor.lay_out(plan, data, files / "run", federation)
    grid = MemoryGrid(sites)
    conductor.conduct(grid, files / "run")
    result = store.read_record(files / "run" / store.RESULT, RunResult)
    assert [(c.name, c.examples, c.participations) for c in result.clients] == [
        ("heart", 22, 2), ("lung", 8, 2), ("north", 90, 2), ("west", 11, 2)
    ]  # fmt: skip
    guarantee = result.guarantee(plan.threat_model)
    assert guarantee.epsilon >= max(c.epsilon for c in result.clients) > 0
    assert SIZES in guarantee.caveats
    for _, message, _ in grid.crossed:
        assert str(files) not in str(message.content["order"]["json"])


BAD_TABLES = {
    "a column is missing": ("age,back\n" + "40,yes\n" * 12, "'days'"),
    "a class that the schema does not know": (table(20, label="perhaps"), "'perhaps'"),
    "no rows": ("age,days,back\n", "no row"),
    "an unknown column": (table(20, header="age,days,back").replace("\n", ",1\n").replace("back,1", "back,x"), "'x'"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_a_table_that_the_schema_does_not_fit_starts_no_node(files, name):
    text, said = BAD_TABLES[name]
    (files / "west.csv").write_text(text)
    with pytest.raises(BadInput) as refused:
        Node.open(settings(files, "west"))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_no_table_is_encoded_by_its_own_rows(files):
    with pytest.raises(BadInput, match="needs one over Flower"):
        node_data(str(files / "north.csv"), target="back")
    plan = gradveil.plan(str(files / "test.csv"), "fed-cdp", target="back", rounds=1)
    with pytest.raises(BadInput, match="needs one over Flower"):
        conductor.lay_out(
            plan, gradveil.dataset(plan.dataset, target="back"), files / "run", conductor.Federation(nodes=("a",))
        )
    assert not (files / "run").exists()


def test_a_node_is_one_client_or_several_and_not_both(files):
    with pytest.raises(BadInput, match="give one of the two"):
        Node.open(settings(files, "east", client="east"))
    with pytest.raises(BadInput, match="is for data of your own"):
        node_data("digits", client="digits")
    one = node_data(str(files / "east.csv"), schema=files / "schema.toml", client_column="ward")
    assert np.bincount(one.owners).tolist() == [22, 8]


LISTS = {
    "unknown node": ({"south": {"a": 1}}, "must be called as one of the nodes north, east, west"),
    "missing": ({"north": {"a": 1}, "east": {"b": 1}}, "the list of west is missing"),
    "twice": ({"north": {"a": 1}, "east": {"b": 1}, "west": {"a": 2}}, "'a' of west is also a client of another node"),
    "no client": ({"north": {}}, "at least one is expected"),
    "no rows": ({"north": {"a": 0}}, "clients.a = 0"),
    "a fraction": ({"north": {"a": 2.5}}, "clients"),
    "a long name": ({"north": {"a" * 201: 1}}, "1 to 200 characters"),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_that_do_not_fit_together_are_refused(tmp_path, name):
    lists, said = LISTS[name]
    for node, clients in lists.items():
        (tmp_path / f"{node}.json").write_text(json.dumps({"clients": clients}))
    with pytest.raises(BadInput, match=said):
        gathered([tmp_path / f"{node}.json" for node in lists], NODES)


def test_a_node_with_another_schema_is_named_before_the_run(planned):
    lists = {node: ClientList(clients, SCHEMA.digest() if node == "west" else None) for node, clients in SITES.items()}
    with pytest.raises(BadInput, match="schema: that of west is not the one of the plan"):
        holders_of(planned, lists, NODES)
