"""Masks depend on all that a node is told: the digest of an attempt changes with every field of its order but two."""

from dataclasses import fields, replace

import numpy as np
import pytest
from sums_in_memory import SUMS

from gradveil.aggregation.cards import Introduction
from gradveil.engines.sum_messages import SumOrder, attempt_of
from gradveil.federation.orders import Order, clients_of

HEX = "a" * 64
CARD = Introduction(name="site-0", run="0" * 32, plan=HEX, roster=HEX, key=bytes(32), nonce=bytes(32))
ORDER = Order(
    plan=SUMS,
    t=2,
    clients=np.array([1, 5]),
    node=1,
    nodes=4,
    shape=(12,),
    classes=("a", "b"),
    columns=("age (1)",),
    params=(np.zeros(3, np.float32), np.ones(2, np.float32)),
    clip_state=(np.ones(1, np.float32),),
    key=(1, 2),
    canaries=0,
)
REQUEST = SumOrder(run="0" * 32, serial=3, within=60.0, cards=(CARD,), order=ORDER)

OTHER_ORDERS = {
    "plan": replace(SUMS, learning_rate=6.0),
    "t": 3,
    "clients": np.array([1]),
    "node": 2,
    "nodes": 5,
    "shape": (3, 4),
    "classes": ("a", "c"),
    "columns": ("age (2)",),
    "params": (np.zeros(3, np.float32), np.array([1, 1.0000001], np.float32)),
    "clip_state": (),
    "key": None,
    "canaries": 10,
}
OTHER_REQUESTS = {
    "run": "1" * 32,
    "serial": 4,
    "within": 60.5,
    "cards": (replace(CARD, nonce=b"1" * 32),),
    "order": replace(ORDER, t=3),
}
OWN = {
    "node": "each node has another; it checks its shard, and charges what it is asked under another number separately",
    "clients": "each node has others; it refuses all but those that plan, node and nodes give",
}
"""Fields that nodes of one sum are not told alike, and what a node does about them."""


def digest(request):
    return attempt_of(request, 20).digest


@pytest.mark.parametrize("name", [field.name for field in fields(Order)])
def test_the_digest_changes_with_every_field_of_an_order_that_nodes_are_told_alike(name):
    other = replace(REQUEST, order=replace(ORDER, **{name: OTHER_ORDERS[name]}))
    assert (digest(other) == digest(REQUEST)) is (name in OWN)


@pytest.mark.parametrize("name", [field.name for field in fields(SumOrder)])
def test_the_digest_changes_with_every_field_of_what_is_asked(name):
    assert digest(replace(REQUEST, **{name: OTHER_REQUESTS[name]})) != digest(REQUEST)


def test_the_fields_that_differ_between_nodes_leave_one_digest_to_all():
    told = [
        replace(REQUEST, order=replace(ORDER, node=i, clients=clients_of(i, 4, np.arange(SUMS.clients))))
        for i in range(4)
    ]
    assert len({digest(request) for request in told}) == 1


@pytest.mark.parametrize("within", [float("inf"), float("nan")])
def test_a_time_that_is_no_number_has_a_digest_too(within):
    assert digest(replace(REQUEST, within=within)) != digest(REQUEST)
