"""Secure sums over nodes in memory: the bits of one machine, attempts that fail, nodes that leave and return."""

from sums_in_memory import SITES, SUMS, trained

from gradveil.engines.flower import sum_wire
from gradveil.engines.places import Places
from gradveil.federation.engine import Population


def test_nodes_give_the_bits_of_one_machine(sums, tiny):
    here = sums()
    over_nodes = trained(SUMS, here.engine())
    in_process = trained(SUMS, Places(SUMS, Population.of(SUMS, tiny())))
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
