"""What crosses the network: exactly the order and the answer, whole, and nothing of the data."""

import json
from dataclasses import replace

import numpy as np
import pytest
from flwr.app import ConfigRecord, RecordDict

from gradveil import keys
from gradveil.engines.flower import wire
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.orders import NodeReply, Order, Refusal
from gradveil.federation.rounds import round_task, rounds
from gradveil.keys import Keys
from gradveil.methods import METHODS

IN_SECONDS = ("fed-cdp", "quantile", "dssgd")
"""Methods of which one sends an update alone, one statistics beside it, and one only some of its places."""


def an_order(plan, **changes):
    given = {
        "plan": plan, "t": 1, "clients": np.array([0, 3]), "node": 0, "nodes": 3, "shape": (12,),
        "classes": ("a", "b", "c"), "columns": ("age (1)", "job (3)"),
        "params": (np.ones((2, 3), np.float32),), "clip_state": (np.float32(4.0),),
        "key": (7, 9),
    }  # fmt: skip
    return Order(**given | changes)


def everything(content):
    """Spell out a message as bytes: all arrays and all words."""
    arrays = b"".join(a.data for record in content.array_records.values() for a in record.values())
    return arrays + json.dumps([dict(record) for record in content.config_records.values()]).encode()


@pytest.mark.parametrize("key", [None, (7, 2**32 - 1)])
def test_an_order_arrives_as_it_was_sent(plan, key):
    sent = an_order(plan, key=key)
    got = wire.unpack_order(wire.pack_order(sent))
    for name in ("plan", "t", "node", "nodes", "shape", "classes", "columns", "key"):
        assert getattr(got, name) == getattr(sent, name)
    np.testing.assert_array_equal(got.clients, sent.clients)
    for one, other in zip((*got.params, *got.clip_state), (*sent.params, *sent.clip_state), strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kept", [0.0, 0.1, 0.49, 0.5, 1.0])
def test_an_answer_arrives_as_it_was_sent_however_sparse(kept):
    rng = np.random.default_rng(0)
    leaf = (rng.normal(size=(3, 40, 5)) * (rng.random((3, 40, 5)) < kept)).astype(np.float32)
    note = rng.normal(size=(3, 2)).astype(np.float32)
    packed = wire.pack_reply(NodeReply((leaf,), (note,)))
    got = wire.unpack_reply(packed, NodeReply((leaf[:0],), (note[:0],)), 3)
    np.testing.assert_array_equal(got.update[0], leaf)
    np.testing.assert_array_equal(got.statistics[0], note)
    assert wire.size(packed) < leaf.nbytes * min(1.0, 2 * kept + 0.3) + note.nbytes + 1000


def test_a_refusal_arrives_and_is_cut_if_it_is_a_book():
    got = wire.unpack_reply(wire.pack_reply(Refusal("no \n" * 5000)), NodeReply((), ()), 1)
    assert isinstance(got, Refusal)
    assert len(got.reason) <= wire.LONGEST
    assert "\n" not in got.reason


@pytest.mark.parametrize(
    "words", ["", "{}", "[]", '{"plan": 3}', '{"plan": {"dataset": "x"}, "t": 0}', '{"t": {"__class__": 1}}']
)
def test_a_broken_order_is_bad_input(words):
    with pytest.raises(BadInput):
        wire.unpack_order(RecordDict({"order": ConfigRecord({"json": words})}))


@pytest.mark.parametrize("clients", [[[0]], [[[0]]], ["x"], [None], 3])
def test_clients_are_a_plain_list_of_numbers(plan, clients):
    packed = wire.pack_order(an_order(plan))
    words = json.loads(packed["order"]["json"]) | {"clients": clients}
    packed["order"] = ConfigRecord({"json": json.dumps(words)})
    with pytest.raises(BadInput):
        wire.unpack_order(packed)


def test_an_order_without_its_words_is_bad_input():
    with pytest.raises(BadInput):
        wire.unpack_order(RecordDict())


@pytest.mark.parametrize(
    "name", [*IN_SECONDS, *(pytest.param(name, marks=pytest.mark.slow) for name in METHODS if name not in IN_SECONDS)]
)
def test_nothing_but_the_order_and_the_answer_crosses_and_no_record_with_it(federation, secret, tiny, name):
    plan = replace(secret, method=METHODS[name].value, rounds=1, cohort=9)  # so that every node is asked
    over, grid = federation(plan)
    roots = Keys.of(plan.seed, secret=True)
    list(rounds(plan, over, server.init(plan, (12,), 3, roots), roots))
    assert len(grid.crossed) == 3
    for _, message, reply in grid.crossed:
        assert set(message.content) == {"order", "params", "clip_state"}
        words = json.loads(message.content["order"]["json"])
        assert set(words) == {"plan", "t", "clients", "node", "nodes", "shape", "classes", "columns", "key", "canaries"}
        assert words["key"] is None
        assert set(reply.content) == {"update", "statistics"}
        clients = len(words["clients"])
        for record in reply.content.values():
            for label, array in record.items():
                if not label.endswith((".at", ".values")):
                    assert array.numpy().shape[0] == clients
                assert array.numpy().dtype == (np.uint32 if label.endswith(".at") else np.float32)
        for row in tiny().train.x:
            assert row.tobytes() not in everything(message.content) + everything(reply.content)


def test_the_key_of_secret_noise_is_the_nodes_own_and_differs_each_time(federation, secret):
    plan = replace(secret, rounds=1, cohort=9)
    roots = Keys(keys.root(1), keys.root(2))

    def update():
        over, _ = federation(plan)
        state = server.init(plan, (12,), 3, roots)
        return over.train(round_task(plan, 0, state, roots), np.arange(9)).update

    one, other = update(), update()
    assert all((a != b).mean() > 0.99 for a, b in zip(one, other, strict=True))
