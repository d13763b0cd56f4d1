"""The engine over Flower against the engine in process, and against nodes that fail."""

import json
from dataclasses import replace

import jax
import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from gradveil.data.sampling import Allocation, CohortSampling, Poisson, Whole
from gradveil.deployment.policy import Policy
from gradveil.engines.flower.flower_engine import Absent
from gradveil.engines.vectorized import Vectorized
from gradveil.federation import server
from gradveil.federation.engine import Population, TooFew
from gradveil.federation.rounds import cohort_of, round_task, rounds
from gradveil.keys import Keys
from gradveil.methods import FED_SDP_CLIENT, FED_SUM, METHODS
from gradveil.models.preparation import NoisedMean, NoisedSecondMoment
from gradveil.models.regression import SoftmaxRegression

SHAPE, CLASSES = (12,), 3


def leaves(tree):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def trained(plan, engine, **options):
    roots = Keys.of(plan.seed, secret=False)
    state = server.init(plan, SHAPE, CLASSES, roots)
    return list(rounds(plan, engine, state, roots, **options))


@pytest.mark.parametrize("name", METHODS)
def test_the_same_plan_and_seed_give_the_same_model_over_nodes_as_in_process(federation, plan, tiny, name):
    plan = replace(plan, method=METHODS[name].value)
    over, _ = federation(plan)
    there, here = (trained(plan, e) for e in (over, Vectorized(plan, Population.of(plan, tiny()))))
    for a, b in zip(there, here, strict=True):
        for one, other in zip(leaves(a.state.params), leaves(b.state.params), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)
        np.testing.assert_array_equal(a.state.participations, b.state.participations)
        np.testing.assert_array_equal(a.cohort, b.cohort)


@pytest.mark.parametrize("share", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_preparation_rounds_give_the_same_over_nodes_as_in_process(federation, plan, tiny, share):
    model = SoftmaxRegression(NoisedMean(0.2), NoisedSecondMoment(0.5))
    whole = {"local_steps": 1, "batch": plan.client_size, "sampling": Whole(), "rounds": 4, "cohort": plan.clients}
    plan = replace(plan, method=replace(FED_SUM, share=share), model=model, **whole)
    over, _ = federation(plan)
    there, here = (trained(plan, e) for e in (over, Vectorized(plan, Population.of(plan, tiny()))))
    assert len(there) == len(here) == 4
    for a, b in zip(there, here, strict=True):
        for one, other in zip(leaves(a.state.params), leaves(b.state.params), strict=True):
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-6 * max(1.0, float(np.abs(other).max())))


@pytest.mark.parametrize("sampling", [Poisson(), pytest.param(Allocation(), marks=pytest.mark.slow)])
def test_poisson_cohorts_agree_too_also_where_nobody_is_drawn(federation, plan, tiny, sampling):
    plan = replace(plan, cohort=1, rounds=6, sampling=sampling, cohort_sampling=CohortSampling.POISSON)
    over, _ = federation(plan)
    there, here = (trained(plan, e) for e in (over, Vectorized(plan, Population.of(plan, tiny()))))
    assert min(len(done.cohort) for done in here) == 0
    assert all("nodes" in done.remarks for done in there)
    for one, other in zip(leaves(there[-1].state.params), leaves(here[-1].state.params), strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-6)


def broken(change):
    """Give a tampering that changes the first array of an update."""

    def tamper(message, reply):
        arrays = {name: a.numpy() for name, a in reply.content["update"].items()}
        arrays["0"] = change(arrays["0"])
        content = RecordDict(
            {"update": ArrayRecord({n: Array(a) for n, a in arrays.items()}), "statistics": ArrayRecord()}
        )
        return Message(content, reply_to=message)

    return tamper


def with_nan(array):
    array = array.copy()
    array.reshape(-1)[5] = np.nan
    return array


def text(message, reply):
    return Message(RecordDict({"update": ConfigRecord({"0": "not an array"})}), reply_to=message)


def objects(message, reply):
    array = Array(dtype="object", shape=(1,), stype="numpy.ndarray", data=b"\x80\x04cos\nsystem\n.")
    return Message(RecordDict({"update": ArrayRecord({"0": array}), "statistics": ArrayRecord()}), reply_to=message)


def raw(data):
    """Give a tampering that sends bytes for an array."""

    def tamper(message, reply):
        array = Array(dtype="float32", shape=(9_999_999_999_999,), stype="numpy.ndarray", data=data)
        return Message(RecordDict({"update": ArrayRecord({"0": array}), "statistics": ArrayRecord()}), reply_to=message)

    return tamper


def sparse_beyond(message, reply):
    arrays = {"0.at": np.array([2**31], np.uint32), "0.values": np.ones(1, np.float32)}
    content = RecordDict({"update": ArrayRecord({n: Array(a) for n, a in arrays.items()}), "statistics": ArrayRecord()})
    return Message(content, reply_to=message)


def noted(message, reply):
    content = RecordDict(
        {"update": reply.content["update"], "statistics": ArrayRecord({"0": Array(np.ones(3, np.float32))})}
    )
    return Message(content, reply_to=message)


def lost(message, reply):
    """Fail as a SuperLink does that was killed after it had heard of a message and before it had all of it."""
    raise ObjectPushError(message.object_id, 1, "session")


FAULTS = {
    "lost": (lost, "lost on its way"),
    "nan": (broken(with_nan), "not finite"),
    "shape": (broken(lambda a: a[:1]), "shape"),
    "huge": (broken(lambda a: np.ones((40, 1000, 100), np.float32)), "shape"),
    "double": (broken(lambda a: a.astype(np.float64)), "float64"),
    "text": (text, "cannot be read"),
    "zip": (raw(b"PK\x03\x04 not a zip"), "numpy's format"),
    "bomb": (
        raw(b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (9999999999999,), }"),
        "not of the size that it claims",
    ),
    "pickle": (objects, "numpy's format"),
    "sparse": (sparse_beyond, "do not match"),
    "statistics": (noted, "arrays of statistics"),
    "late": (lambda message, reply: None, "no reply within"),
    "error": (lambda message, reply: Message(Error(5, "gone"), reply_to=message), "Flower error 5"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_node_that_fails_is_named_and_the_round_goes_on_without_it(federation, plan, tiny, fault):
    tamper, said = FAULTS[fault]
    over, grid = federation(plan)
    grid.tamper["east"] = tamper
    first = trained(plan, over)[0]
    missing = first.remarks["nodes"]["missing"]
    assert set(missing) == {"east"}
    assert said in missing["east"]
    heard = np.sort(first.cohort)[np.sort(first.cohort) % 3 != 1]
    assert first.remarks["nodes"]["slowest"] in ("north", "west")
    # The model moved by the mean of those that answered, as if the cohort had been theirs alone.
    roots = Keys.of(plan.seed, secret=False)
    state = server.init(plan, SHAPE, CLASSES, roots)
    task = round_task(plan, 0, state, roots)
    alone = Vectorized(plan, Population.of(plan, tiny())).train(task, heard)
    expected = [leaf + update.mean(axis=0) for leaf, update in zip(leaves(state.params), alone.update, strict=True)]
    for one, other in zip(leaves(first.state.params), expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    # Everybody who was asked may have answered somebody.
    assert first.state.participations.sum() == plan.cohort


def test_a_round_that_too_few_answer_is_tried_again_with_other_draws_and_all_of_it_is_counted(federation, plan):
    plan, asked = replace(plan, minimum_cohort=6, rounds=1), []
    over, grid = federation(plan, before=lambda t, cohort: asked.append((t, cohort)))
    silent = iter((True, False))
    grid.tamper["west"] = lambda message, reply: None if next(silent, False) else reply
    retried = []
    (done,) = trained(plan, over, may_retry=lambda state: not retried.append(state))
    assert done.attempts == 2
    assert len(asked) == 2
    assert not np.array_equal(asked[0][1], asked[1][1])
    assert done.state.participations.sum() == 12
    assert retried[0].participations.sum() == 6
    assert retried[0].round == 0
    first, second = ({name: m for name, m, _ in grid.crossed[i : i + 3]} for i in (0, 3))
    keys = [messages["north"].content["order"]["json"] for messages in (first, second)]
    assert keys[0] != keys[1]


def test_without_leave_to_retry_the_model_is_untouched_and_the_reason_told(federation, plan):
    over, grid = federation(replace(plan, minimum_cohort=6))
    grid.tamper["west"] = lambda message, reply: None
    with pytest.raises(TooFew, match="west no reply within"):
        trained(plan, over, may_retry=lambda state: False)


def test_where_clients_share_the_noise_all_must_answer(federation, plan):
    plan = replace(plan, method=replace(FED_SDP_CLIENT, share=True))
    over, grid = federation(plan)
    grid.tamper["west"] = lambda message, reply: None
    with pytest.raises(TooFew):
        trained(plan, over, may_retry=lambda state: False)


def test_nothing_is_sent_or_counted_while_too_few_nodes_are_there(federation, plan):
    asked = []
    over, grid = federation(replace(plan, minimum_cohort=6), before=lambda t, cohort: asked.append(t))
    grid.away |= {"north", "west"}
    with pytest.raises(Absent, match="restart with --resume"):
        trained(plan, over)
    assert asked == grid.crossed == []


def test_a_node_that_refuses_is_named_with_its_reason_and_not_asked_again(federation, plan):
    over, grid = federation(replace(plan, rounds=2))
    grid.sites["east"].policy = Policy()
    told = [done.remarks["nodes"]["missing"] for done in trained(replace(plan, rounds=2), over)]
    assert "seeded" in told[0]["east"]
    assert told[1] == told[0]
    assert [name for name, _, _ in grid.crossed].count("east") == 1


def test_all_refusals_are_told_where_nobody_is_left(federation, plan):
    over, _ = federation(plan, policy=Policy(methods=("fed-sdp",), allow_seeded=True))
    with pytest.raises(Absent, match=r"north refused: method = fed-cdp: this node allows only fed-sdp"):
        trained(plan, over)


def test_bytes_of_a_round_are_counted_and_pruned_updates_travel_sparse(federation, plan):
    def up(method):
        over, _ = federation(replace(plan, method=METHODS[method].value))
        return trained(over.plan, over)[0].remarks["nodes"]

    dense, sparse = up("non-private"), up("dssgd")
    params = 12 * 6 + 6 + 6 * 3 + 3
    assert 4 * params * plan.cohort < dense["bytes_up"] < 4 * params * plan.cohort + 20_000
    assert sparse["bytes_up"] < dense["bytes_up"]
    assert dense["bytes_down"] == pytest.approx(sparse["bytes_down"], rel=0.2)


def test_cohorts_are_divided_by_number_whatever_the_node(federation, plan):
    over, grid = federation(plan)
    trained(plan, over)
    cohort = cohort_of(plan, 0, Keys.of(plan.seed, secret=False))
    for i, name in enumerate(("north", "east", "west")):
        sent = next(m for n, m, _ in grid.crossed if n == name)
        assert sorted(cohort[cohort % 3 == i].tolist()) == json.loads(sent.content["order"]["json"])["clients"]
