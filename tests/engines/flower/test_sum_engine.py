"""Secure sums over nodes in memory: the bits of one machine, attempts that fail, nodes that leave and return."""

from dataclasses import replace

import numpy as np
import pytest
from flwr.app import Array as FlowerArray
from flwr.app import ArrayRecord, Message
from sums_in_memory import OPEN, SITES, SUMS, trained

from gradveil.aggregation import ring
from gradveil.aggregation.answering import SumAnswer
from gradveil.aggregation.noise import discrete_gaussian, seeded_bytes
from gradveil.aggregation.roster import KeyRoster
from gradveil.deployment.summing import Summing, epochs_of
from gradveil.engines.contributions import RoundSum
from gradveil.engines.flower import sum_wire
from gradveil.engines.flower.flower_engine import Absent
from gradveil.engines.local_sums import LocalSums
from gradveil.federation.engine import Population, TooFew


def test_nodes_give_the_bits_of_one_machine(sums, tiny):
    here = sums()
    over_nodes = trained(SUMS, here.engine())
    in_process = trained(SUMS, LocalSums(SUMS, Population.of(SUMS, tiny())))
    for a, b in zip(over_nodes, in_process, strict=True):
        assert (a == b).all()
    assert here.noted == [0, 1, 2, 3]
    assert [here.spent(name) for name in SITES] == [[0, 1, 2, 3]] * 4
    assert len(here.grid.crossed) == 4 * (1 + 4)  # one roll-call, one exchange a round


def test_a_node_that_fails_in_a_round_is_left_out_of_the_next_attempt_and_all_attempts_are_charged(sums):
    here = sums()
    kept = {}

    def gone(message, reply):
        if sum_wire.SUM in message.content and kept.setdefault("asked", 0) == 0:
            kept["asked"] = 1
            here.grid.away.add("site-2")
            return None
        return reply

    here.grid.tamper["site-2"] = gone
    seen = []
    trained(SUMS, here.engine(), seen.append)
    assert [done.attempts for done in seen] == [2, 1, 1, 1]
    assert here.noted == [0, 0, 1, 2, 3]
    assert seen[0].remarks["nodes"]["missing"] == {"site-2": "no reply within 10 s"}
    assert set(seen[1].remarks["nodes"]["seconds"]) == set(SITES) - {"site-2"}
    assert here.spent("site-0") == [0, 0, 1, 2, 3]
    assert here.spent("site-2") == [0]  # its answer was lost, and may have been seen


def test_a_node_that_refuses_the_plan_is_named_and_left_out_before_anything_is_charged(sums):
    here = sums()
    here.grid.sites["site-3"] = type(here.grid.sites["site-3"])(here.grid.sites["site-3"].node)  # no roster pinned
    seen = []
    trained(replace(SUMS, rounds=3), here.engine(plan=replace(SUMS, rounds=3)), seen.append)
    assert [done.attempts for done in seen] == [1, 1, 1]
    assert "refused: roster: this node has pinned none" in seen[0].remarks["nodes"]["missing"]["site-3"]
    assert here.spent("site-3") == []


def test_too_few_nodes_end_the_run_before_anything_is_sent(sums):
    here = sums()
    here.grid.away |= {"site-0", "site-1"}
    with pytest.raises(Absent, match="a sum needs 3 of 4 nodes, and 2 answered the roll-call"):
        trained(SUMS, here.engine())
    assert here.noted == []
    assert all(here.spent(name) == [] for name in SITES)


def test_when_too_many_refuse_the_run_ends_at_once_with_their_reasons(sums):
    here = sums(policy=replace(OPEN, maximum_epsilon=0.01))
    with pytest.raises(Absent, match=r"0 answered the roll-call \(site-0 refused: epsilon = .* would be spent"):
        trained(SUMS, here.engine())


def test_nodes_that_pinned_different_rosters_are_told_before_anything_is_spent(sums, signers):
    here = sums()
    other = KeyRoster({name: line for name, line in here.roster.keys.items() if name != "site-3"})
    node = here.grid.sites["site-1"].node
    here.grid.sites["site-1"] = Summing(node, epochs_of(OPEN, other, signers["site-1"]))
    with pytest.raises(Absent, match="the nodes have pinned different ones"):
        trained(SUMS, here.engine())
    assert here.noted == []


def test_a_node_that_comes_back_is_in_the_next_sum(sums):
    here = sums()
    here.grid.away.add("site-1")
    seen = []

    def back(done):
        seen.append(done)
        here.grid.away.discard("site-1")

    trained(SUMS, here.engine(), back)
    assert [len(done.remarks["nodes"]["seconds"]) for done in seen] == [3, 4, 4, 4]
    assert [done.attempts for done in seen] == [1, 1, 1, 1]  # who is known to be away costs no attempt


def garbled(message, reply):
    """Spoil an answer: other numbers, of the right form."""
    if "masked" in reply.content:
        answer = sum_wire.unpack_answer(reply.content)
        flipped = SumAnswer(answer.attempt, answer.masked ^ np.uint64(1 << 60))
        return Message(sum_wire.pack_result(flipped), reply_to=message)
    return reply


def test_a_spoiled_sum_changes_nothing_and_ends_the_run_after_so_many_attempts(sums):
    here = sums()
    here.grid.tamper["site-2"] = garbled
    left = [3]

    def may_retry(state):
        left[0] -= 1
        return left[0] > 0

    with pytest.raises(TooFew, match="larger than honest answers can make it"):
        trained(SUMS, here.engine(), may_retry=may_retry)
    assert here.noted == [0, 0, 0]
    assert here.spent("site-0") == [0, 0, 0]


BAD_REPLIES = {
    "float64": lambda answer: SumAnswer(answer.attempt, answer.masked.astype(np.float64)),
    "another length": lambda answer: SumAnswer(answer.attempt, answer.masked[:-1]),
    "another attempt": lambda answer: SumAnswer(bytes(32), answer.masked),
}


@pytest.mark.parametrize("case", BAD_REPLIES)
def test_what_is_no_answer_is_rejected(sums, case):
    here = sums()

    def other(message, reply):
        if "masked" not in reply.content:
            return reply
        bad = BAD_REPLIES[case](sum_wire.unpack_answer(reply.content))
        content = sum_wire.pack_result(SumAnswer(bad.attempt, bad.masked.astype(np.uint64)))
        content["masked"] = ArrayRecord({"masked": FlowerArray(bad.masked)})
        return Message(content, reply_to=message)

    here.grid.tamper["site-2"] = other
    with pytest.raises(TooFew):
        trained(SUMS, here.engine(), may_retry=lambda state: False)


def test_no_vector_leaves_twice_under_one_attempt_whoever_restarts_between_messages(sums):
    """Every third message restarts a node, once the server too; every answer that leaves has a digest of its own."""
    here = sums()
    left, count = [], [0]

    def watched(name):
        def seen(message, reply):
            count[0] += 1
            if "masked" in reply.content:
                answer = sum_wire.unpack_answer(reply.content)
                left.append((name, answer.attempt, answer.masked.tobytes()))
            if count[0] in (6, 7, 13, 22):
                here.restart(SITES[count[0] % 4])
            return reply

        return seen

    here.grid.tamper |= {name: watched(name) for name in SITES}
    first = trained(replace(SUMS, rounds=3), here.engine(plan=replace(SUMS, rounds=3)))
    trained(replace(SUMS, rounds=3), here.engine(plan=replace(SUMS, rounds=3)))  # a server that begins anew
    assert all(np.isfinite(leaf).all() for leaf in first)
    assert len({(name, attempt) for name, attempt, _ in left}) == len(left)
    assert len({vector for *_, vector in left}) == len(left)
    charged = sum(len(here.spent(name)) for name in SITES)
    assert charged == len(left)


def test_nothing_that_crosses_the_network_is_what_a_node_added_without_mask(sums, tiny):
    here = sums()
    trained(SUMS, here.engine())
    one = RoundSum.of(SUMS, 0, here.task().params, tiny().shape)
    for name, message, reply in here.grid.crossed:
        if "masked" in reply.content and sum_wire.unpack_request(message.content).order.t == 0:
            order = sum_wire.unpack_request(message.content).order
            x, y, _ = here.grid.sites[name].node.records(order)
            own = ring.encode(one.added(here.task().params, x, y))
            noisy = own + discrete_gaussian(one.deviation(4), one.size, seeded_bytes(*order.key, order.node)).astype(
                np.uint64
            )
            sent = sum_wire.unpack_answer(reply.content).masked
            assert not np.isin(sent, own).any()
            assert not np.isin(sent, noisy).any()
            assert np.abs(sent.view(np.int64).astype(float)).max() > 2.0**55
