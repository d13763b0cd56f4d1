"""The owner of data has the last word: policies, what was spent, and orders that do not fit."""

import json
import math
import stat
from dataclasses import replace

import jax
import numpy as np
import pytest

from gradveil import keys
from gradveil.accounting.accountant import account
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.data.sampling import Poisson
from gradveil.data.table_schema import ClassTarget, NumberColumn, Schema
from gradveil.deployment import policy as policies
from gradveil.deployment.node import Node, NodeSettings, own_population
from gradveil.deployment.policy import Policy, least_sigma, unguarded
from gradveil.deployment.policy_file import as_toml
from gradveil.deployment.spending import Served, Spending
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.messages import task_for
from gradveil.federation.orders import NodeReply, Order, Refusal
from gradveil.keys import Keys
from gradveil.methods import FED_CDP, FED_SDP, FED_SDP_CLIENT, METHODS, NON_PRIVATE
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.clip import PerLayer
from gradveil.privacy.draw import Draw
from gradveil.privacy.schedule import Constant, Exponential
from gradveil.privacy.sensitivity import Fixed
from gradveil.runs.budget import Budget


@pytest.fixture
def site(tmp_path, tiny):
    def make(policy=Policy(), own=False, shard=(0, 3)):  # noqa: B008
        return Node(tiny(own), policy, Spending(tmp_path / "spending.json"), None if own else shard)

    return make


def ordered(plan, clients=(0, 3), t=0, **changes):
    state = server.init(plan, (12,), 3, Keys.of(0, secret=False))
    given = {
        "plan": plan, "t": t, "clients": np.array(clients), "node": 0, "nodes": 3, "shape": (12,),
        "classes": ("a", "b", "c"), "columns": (), "params": tuple(map(np.asarray, state.params)),
        "clip_state": tuple(map(np.asarray, jax.tree.leaves(state.clip_state))), "key": None,
    }  # fmt: skip
    return Order(**given | changes)


DECAYING = replace(FED_CDP, noise=Exponential(start=15.0, end=4.85))
OBJECTIONS = {
    "seeded": (Policy(), {"noise_source": policies.NoiseSource.SEEDED}, "seeded"),
    "method": (Policy(methods=("fed-sdp-client",)), {}, "method = fed-cdp: this node allows only fed-sdp-client"),
    "sigma": (Policy(minimum_sigma=6.5), {}, "sigma = 6:"),
    "decayed sigma": (
        Policy(minimum_sigma=5.0),
        {"method": DECAYING, "rounds": 100},
        "sigma",
    ),
    "promised noise": (Policy(minimum_sigma=0.1), {"method": FED_SDP}, "adds noise only at the server"),
    "small noise": (Policy(minimum_sigma=1.0), {"method": replace(FED_CDP, sensitivity=Fixed(0.1))}, "sigma = 0.15"),
    "rounds": (Policy(maximum_rounds=1), {}, "rounds = 2"),
    "borrowed name": (
        Policy(methods=("fed-cdp",)),
        {"method": replace(FED_SDP, name="fed-cdp")},
        "allows only fed-cdp",
    ),
    "epsilon": (Policy(maximum_epsilon=0.01), {}, "epsilon ="),
    "no epsilon": (Policy(), {"method": NON_PRIVATE}, "no finite epsilon"),
    "epsilon of promised noise": (Policy(), {"method": FED_SDP}, "no finite epsilon"),
    "no epsilon that is limited": (
        Policy(maximum_epsilon=100.0, allow_no_guarantee=True),
        {"method": NON_PRIVATE},
        "no finite epsilon",
    ),
    "share": (Policy(minimum_sigma=3.0), {"method": replace(FED_SDP_CLIENT, share=True)}, "sigma = 2.4"),
    "raw counts": (Policy(minimum_sigma=0.1), {"method": METHODS["quantile"].value}, "counts without noise"),
    "another clip": (
        Policy(methods=("fed-cdp",)),
        {"method": replace(FED_CDP, clip=Quantile(4.0))},
        "allows only fed-cdp",
    ),
    "noise that follows the data": (
        Policy(minimum_sigma=6.0),
        {"method": METHODS["fed-alpha-cdp"].value},
        "follows the private gradients",
    ),
    "noise that follows the data, where no guarantee is wanted": (
        Policy(minimum_sigma=6.0, allow_no_guarantee=True),
        {"method": METHODS["fed-alpha-cdp"].value},
        "sigma = 0:",
    ),
    "promised noise, where no guarantee is wanted": (
        Policy(minimum_sigma=0.1, allow_no_guarantee=True),
        {"method": FED_SDP},
        "sigma = 0:",
    ),
    "delta": (Policy(maximum_epsilon=100.0, maximum_delta=1e-6), {}, "delta ="),
}


@pytest.mark.parametrize("name", OBJECTIONS)
def test_a_plan_that_breaks_the_policy_is_refused_with_the_reason_and_nothing_is_spent(site, secret, name):
    policy, changes, said = OBJECTIONS[name]
    here = site(policy)
    answer = here.handle(ordered(replace(secret, **changes)))
    assert isinstance(answer, Refusal)
    assert said in answer.reason
    assert here.spending.read() == {}


MISFITS = {
    "dataset": ({"dataset": "other"}, {}, "holds tiny"),
    "columns": ({}, {"columns": ("age (1)",)}, "columns: those of the plan differ"),
    "sizes": (
        {"sampling": Poisson(), "client_sizes": (10,) * 9},
        {},
        "client_names: this node was started without --client",
    ),
    "another split": ({"train_all": True}, {}, "train_all"),
    "a key for secret noise": ({}, {"key": (1, 2)}, "key: must be absent where the plan's noise is secret"),
    "double weights": ({}, {"params": "double"}, "float32"),
    "shape": ({}, {"shape": (13,)}, "shape"),
    "classes": ({}, {"classes": ("a", "b")}, "classes"),
    "node": ({}, {"node": 1, "clients": np.array([1])}, "shard = 1/3: this node holds 0/3"),
    "another's client": ({}, {"clients": np.array([0, 1])}, "clients: must be clients of this node"),
    "twice": ({}, {"clients": np.array([0, 0])}, "clients: must be clients of this node"),
    "none": ({}, {"clients": np.array([], np.int64)}, "clients: must be clients of this node"),
    "beyond": ({}, {"clients": np.array([9])}, "clients: must be clients of this node"),
    "round": ({}, {"t": 2}, "round = 2:"),
    "negative round": ({}, {"t": -1}, "round = -1:"),
    "weights": ({}, {"params": (np.ones(3, np.float32),)}, "do not have the shapes"),
    "not finite": ({}, {"clip_state": (), "params": "nan"}, "not finite"),
}


@pytest.mark.parametrize("name", MISFITS)
def test_an_order_that_does_not_fit_the_data_is_refused_with_the_reason(site, secret, name):
    plan, changes, said = MISFITS[name]
    order = ordered(replace(secret, **plan))
    if changes.get("params") == "nan":
        changes = changes | {"params": tuple(p * np.nan for p in order.params)}
    if changes.get("params") == "double":
        changes = changes | {"params": tuple(p.astype(np.float64) for p in order.params)}
    fields = {f: getattr(order, f) for f in Order.__dataclass_fields__}
    answer = site(Policy()).handle(Order(**fields | changes))
    assert isinstance(answer, Refusal)
    assert said in answer.reason


def test_what_is_sent_is_written_down_before_for_its_owner_alone(site, secret, monkeypatch):
    here, train, written = site(), Node._train, []

    def watched(self, engine, order):
        written.extend(here.spending.read().values())
        return train(self, engine, order)

    monkeypatch.setattr(Node, "_train", watched)
    assert isinstance(here.handle(ordered(secret)), NodeReply)
    (seen,) = written
    assert seen.rounds == {"0": [0], "3": [0]}
    assert stat.S_IMODE(here.spending.path.stat().st_mode) == 0o600


def test_an_allowed_order_is_answered_with_an_update_a_client(site, secret):
    answer = site(Policy(methods=("fed-cdp",), minimum_sigma=6.0, maximum_rounds=5)).handle(ordered(secret))
    assert isinstance(answer, NodeReply)
    assert [leaf.shape[0] for leaf in answer.update] == [2, 2]


def test_the_limit_of_epsilon_holds_over_rounds_plans_and_restarts(site, secret):
    plan = replace(secret, rounds=50)
    budget = Budget(plan, site().dataset, 1)
    two = account(budget.ledger(50, 2), plan.delta, ADD_REMOVE, "server").epsilon
    policy = Policy(maximum_epsilon=2.5 * two)
    answers = [site(policy).handle(ordered(plan, t=t)) for t in range(15)]
    taken = [isinstance(a, NodeReply) for a in answers]
    assert taken == sorted(taken, reverse=True)
    assert 3 <= sum(taken) < 15
    another = site(policy).handle(ordered(replace(plan, seed=12, rounds=49)))
    assert isinstance(another, Refusal)
    assert "would be spent in all" in another.reason


def test_the_limit_of_rounds_counts_every_message_also_repeated_ones(site, secret):
    here = site(Policy(maximum_rounds=3))
    answers = [here.handle(ordered(secret, t=t)) for t in (0, 0, 1, 1)]
    assert [isinstance(a, NodeReply) for a in answers] == [True, True, True, False]
    assert "has served its 3 rounds" in answers[-1].reason


@pytest.mark.parametrize("method", [FED_CDP, FED_SDP_CLIENT], ids=lambda m: m.name)
def test_epsilon_is_what_the_accountant_says_of_the_busiest_client(site, secret, method):
    plan = replace(secret, method=method, rounds=5)
    served = Served(plan, 2, 1, {"0": [0, 1, 2], "3": [4]})
    expected = Budget(plan, site().dataset, 1).ledger(4, 3)
    assert served.epsilon() == pytest.approx(account(expected, plan.delta, ADD_REMOVE, "server").epsilon)


def test_the_same_rows_as_another_shard_add_up(site, secret):
    here = site(Policy(maximum_rounds=3), own=True)
    plan = replace(secret, client_size=4)
    answers = [
        here.handle(ordered(plan, clients=(node,), node=node, nodes=nodes))
        for node, nodes in ((0, 3), (1, 3), (0, 2), (1, 2))
    ]
    assert [isinstance(a, NodeReply) for a in answers] == [True, True, True, False]


def test_a_seeded_order_without_a_key_is_refused(site, secret):
    seeded = replace(secret, noise_source=policies.NoiseSource.SEEDED)
    answer = site(Policy(allow_seeded=True)).handle(ordered(seeded))
    assert "key: must be absent where the plan's noise is secret" in answer.reason


def test_a_round_that_is_served_again_costs_again(secret):
    once, again = (Served(secret, 4, 1, {"0": rounds}).epsilon() for rounds in ([0], [0, 0]))
    assert 0 < once < again < math.inf


def released(plan, tiny, words):
    """Train one round of one step twice with other noise: both updates of every client, flat, and the clip state."""
    plan = replace(plan, local_steps=1)
    state = server.init(plan, (12,), 3, Keys.of(0, secret=False))
    engine = Vectorized(plan, Population.of(plan, tiny()))
    found = [engine.train(task_for(plan, 0, *state[1:3], keys.of_words(1, w)), np.arange(9)).update for w in words]
    return [np.concatenate([np.asarray(leaf).ravel() for leaf in update]) for update in found], state.clip_state


NOISE_COUNTS = {"fed-sdp-client", "fed-cdp", "fed-sum", "fed-slack", "adaclip", "dssgd-noisy"}
"""Methods whose noise has a floor: it is drawn, and its scale does not follow the data."""


@pytest.mark.parametrize("draw", Draw, ids=lambda d: d.value)
@pytest.mark.parametrize("name", sorted(set(METHODS) - NOISE_COUNTS))
def test_a_method_whose_noise_a_policy_does_not_count_is_called_unguarded(secret, name, draw):
    plan = replace(secret, method=replace(METHODS[name].value, draw=draw))
    assert least_sigma(plan) == 0
    assert unguarded(plan) is not None


@pytest.mark.slow
@pytest.mark.parametrize("draw", Draw, ids=lambda d: d.value)
@pytest.mark.parametrize("name", sorted(NOISE_COUNTS))
def test_the_noise_that_a_policy_counts_is_on_what_was_sent(secret, tiny, name, draw):
    method = replace(METHODS[name].value, draw=draw)
    plan = replace(secret, method=method)
    counted = least_sigma(plan)
    assert counted > 0
    (one, other), clip_state = released(plan, tiny, (1, 2))
    std = (one - other).std() / math.sqrt(2)  # what is left is noise, since batches are the same
    example = method.surface == 2
    per_sum = std / plan.learning_rate * plan.batch if example else std
    width = float(np.asarray(clip_state[2][0]).flat[0]) if name == "adaclip" else 1.0
    assert per_sum / width / float(method.clip.bound(clip_state)) == pytest.approx(counted, rel=0.15)


def test_noise_that_follows_the_data_can_vanish_and_counts_as_none(secret, tiny):
    """The reason: examples with small gradients get small noise, though sigma is 6."""
    method = replace(METHODS["fed-alpha-cdp"].value, clip=PerLayer(4000.0))
    (one, other), _ = released(replace(secret, method=method), tiny, (1, 2))
    per_sum = (one - other).std() / math.sqrt(2) / secret.learning_rate * secret.batch
    assert per_sum < 6.0 * 4000.0 / 100
    assert least_sigma(replace(secret, method=method)) == 0


@pytest.mark.parametrize("name", METHODS)
def test_whoever_says_nothing_allows_no_method_without_a_guarantee(secret, name):
    sound = {"fed-sdp-client", "fed-cdp", "fed-sum", "fed-slack", "adaclip", "dssgd-noisy"}
    assert (Policy().objection(replace(secret, method=METHODS[name].value)) is None) == (name in sound)


def test_own_rows_are_divided_among_the_nodes_clients_no_row_twice(secret, tiny):
    population = own_population(secret, tiny(True), 1, 3)
    held = population.shards[[1, 4, 7]]
    assert len(np.unique(held)) == held.size == 30
    assert population.copies == 1


def test_a_node_with_too_few_rows_of_its_own_refuses(site, secret):
    answer = site(own=True).handle(ordered(replace(secret, client_size=50)))
    assert answer == Refusal("client_size = 50: 3 clients need 150 training examples, and this node has 130")


def test_own_data_may_bear_any_name(site, secret):
    assert isinstance(site(own=True).handle(ordered(replace(secret, dataset="clinic.csv"))), NodeReply)


def test_a_policy_is_read_from_toml_strictly(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text('methods = ["fed-cdp"]\nminimum_sigma = 1\nmaximum_epsilon = 8.0\n')
    assert policies.read(path) == Policy(methods=("fed-cdp",), minimum_sigma=1.0, maximum_epsilon=8.0)
    for text in (
        'methods = ["sdp"]', "minimum_sigma = -1", "maximum_epsilon = 0", "maximal_epsilon = 3",
        "maximum_epsilon = nan", "maximum_epsilon = inf", "minimum_sigma = nan", "", "allow_seeded = true",
    ):  # fmt: skip
        path.write_text(text)
        with pytest.raises(BadInput):
            policies.read(path)


def test_a_policy_without_a_limit_must_say_that_it_means_it(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("allow_no_guarantee = true\n")
    assert policies.read(path) == Policy(allow_no_guarantee=True)
    path.write_text("")
    with pytest.raises(BadInput, match="maximum_epsilon is missing"):
        policies.read(path)


@pytest.mark.parametrize(
    "policy", [policies.STRICT, Policy(methods=("fed-cdp",), maximum_epsilon=0.5, allow_seeded=True)]
)
def test_a_written_policy_is_the_one_that_is_read_and_explains_every_key(tmp_path, policy):
    path = tmp_path / "policy.toml"
    path.write_text(as_toml(policy))
    assert policies.read(path) == policy
    lines = path.read_text().splitlines()
    for i, line in enumerate(lines):
        assert not line or line.startswith("#") or lines[i - 1].startswith("# ")


def above(text, key):
    """Give the comment above a key."""
    before = text.partition(f"\n{key} = ")[0].splitlines()
    first = max(i for i, line in enumerate(before) if not line.startswith("#"))
    return " ".join(line.removeprefix("# ") for line in before[first + 1 :])


def test_a_written_policy_says_against_whom_its_epsilon_is_counted():
    every = "against an adversary who sees every update that leaves this node"
    assert every in above(as_toml(policies.STRICT), "maximum_epsilon")
    text = as_toml(replace(policies.STRICT, adversary="aggregate", roster="0" * 64))
    trusting = above(text, "maximum_epsilon")
    assert "secure sums against an adversary who sees only sums over nodes and knows what `tolerated` of" in trusting
    assert f"all else {every}" in trusting
    assert "of a secure sum the noise of all nodes together" in above(text, "minimum_sigma")


@pytest.mark.parametrize("shard", ["3/3", "a/3", "1", "-1/3"])
def test_a_shard_is_two_numbers(shard):
    with pytest.raises(BadInput, match="shard"):
        NodeSettings(data="digits", state="x", policy="p", shard=shard).shard_numbers  # noqa: B018


def test_a_named_dataset_needs_its_shard(tmp_path):
    with pytest.raises(BadInput, match="--shard 0/3"):
        Node.open(NodeSettings(data="digits", state=str(tmp_path), policy="p"))


def test_spending_survives_as_json(tmp_path, secret):
    spending = Spending(tmp_path / "spending.json")
    assert spending.spend(Policy(), "a plan", Served(secret, 4, 1, {}), 0, [2, 5]) is None
    (one,) = json.loads(spending.path.read_text())["plans"].values()
    assert one["rounds"] == {"2": [0], "5": [0]}
    assert Spending(spending.path).read()[next(iter(spending.read()))].plan == secret


def test_constant_noise_below_the_minimum_is_refused(secret):
    low = replace(secret, method=replace(FED_CDP, noise=Constant(0.5)))
    assert "sigma = 0.5" in Policy(minimum_sigma=1.0).objection(low)


def test_spending_that_was_edited_is_refused_not_believed(tmp_path, secret):
    spending = Spending(tmp_path / "spending.json")
    spending.spend(Policy(), "a plan", Served(secret, 4, 1, {}), 0, [2, 5])
    text = spending.path.read_text()
    for changed in (text.replace('"copies": 1', '"copies": 0'), "{}", "[]", text[:-9], ""):
        spending.path.write_text(changed)
        with pytest.raises(BadInput):
            spending.read()
    spending.path.write_text(text)
    assert spending.read()


SCHEMA = Schema(
    ClassTarget("kind", ("a", "b", "c")), tuple(NumberColumn(f"x{i}", -5, 5) for i in range(12)), public=True
)
OTHER = replace(SCHEMA, columns=(NumberColumn("x0", -6, 5), *SCHEMA.columns[1:]))


@pytest.mark.parametrize(
    ("own", "planned", "accepted"),
    [(SCHEMA, SCHEMA, True), (SCHEMA, OTHER, False), (None, SCHEMA, False), (SCHEMA, None, False)],
    ids=["same", "another range", "node has none", "plan has none"],
)
def test_a_node_trains_only_by_the_schema_that_it_encoded_its_rows_by(site, secret, own, planned, accepted):
    node = site(own=True)
    node.dataset = replace(node.dataset, schema=own)
    objection = node._mismatch(ordered(replace(secret, schema=planned)))
    assert accepted == (objection is None)
    assert accepted or objection.startswith("schema: ")
