"""What a server may try against a node that takes part in secure sums: refused and free, or random and charged."""

import os
import time
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from nodes_in_memory import data
from scipy import stats
from sums_in_memory import OPEN, SITES, SUMS

from gradveil import codec
from gradveil.aggregation.answering import SumAnswer
from gradveil.aggregation.cards import introduce
from gradveil.aggregation.collecting import Spoiled, collected
from gradveil.aggregation.ring import RESOLUTION, decode
from gradveil.aggregation.roster import KeyRoster, key_line
from gradveil.deployment.node import Node
from gradveil.deployment.policy import Policy
from gradveil.deployment.spending import Spending
from gradveil.deployment.summing import Summing, epochs_of
from gradveil.engines.contributions import RoundSum, noise_bytes
from gradveil.engines.sum_messages import attempt_of
from gradveil.errors import BadInput
from gradveil.federation.orders import Refusal
from gradveil.federation.plan import NoiseSource
from gradveil.federation.secure_sum import SecureSum
from gradveil.privacy.schedule import Constant


def answers_of(here, told):
    found = {name: here.ask(name, order) for name, order in told.items()}
    assert all(isinstance(answer, SumAnswer) for answer in found.values()), found
    return found


def summed(here, told, answers):
    """Give what the server gets for an attempt; Spoiled if it is no sum."""
    one = RoundSum.of(here.plan, next(iter(told.values())).order.t, here.task().params, data().shape)
    attempt = attempt_of(next(iter(told.values())), one.size)
    same = {name: SumAnswer(attempt.digest, answer.masked) for name, answer in answers.items()}
    nodes = len(told)
    return collected(attempt, same, 15 * here.plan.clients, one.deviation(nodes) * nodes**0.5)


def test_the_sum_of_all_answers_is_the_sum_of_the_records_and_its_noise(sums):
    here = sums()
    told = here.told(*here.opened())
    units = summed(here, told, answers_of(here, told))
    one = RoundSum.of(here.plan, 0, here.task().params, data().shape)
    rows = data().train.x[: 15 * 8]  # an Iid split deals all of the first rows, in some order
    assert one.size == 12
    expected = sum(
        one.added(here.task().params, *here.grid.sites[name].node.records(order.order)[:2])
        for name, order in told.items()
    )
    noise = decode(units, 1.0) - expected
    assert 0 < np.abs(noise).max() < 6 * one.multiplier * (4 / 3) ** 0.5
    assert len(rows) == sum(len(here.grid.sites[name].node.records(o.order)[0]) for name, o in told.items())
    assert [here.spent(name) for name in SITES] == [[0]] * 4


LIES = {
    "weights": lambda told: replace(told, order=replace(told.order, params=_moved(told.order.params))),
    "round": lambda told: replace(told, order=replace(told.order, t=1)),
    "serial": lambda told: replace(told, serial=told.serial + 1),
    "key": lambda told: replace(told, order=replace(told.order, key=(1, 2))),
    "fewer nodes": lambda told: replace(told, cards=told.cards[:3]),
}


def _moved(params):
    return (*params[:-1], params[-1] + np.float32(0.5))


@pytest.mark.parametrize("lie", LIES)
def test_a_server_that_tells_one_node_something_else_gets_random_numbers_and_all_are_charged(sums, lie):
    plan = replace(SUMS, model=replace(SUMS.model, mean=None, moment=None), rounds=2)
    here = sums(plan)
    told = here.told(*here.opened())
    told["site-1"] = LIES[lie](told["site-1"])
    answers = answers_of(here, told)
    with pytest.raises(Spoiled, match="larger than honest answers"):
        summed(here, {name: told["site-0"] for name in SITES}, answers)
    assert all(len(here.spent(name)) == 1 for name in SITES)


def test_an_answer_that_is_left_out_of_a_sum_leaves_random_numbers(sums):
    here = sums()
    told = here.told(*here.opened())
    answers = answers_of(here, told)
    rest = np.add.reduce([answers[name].masked for name in SITES[:3]], dtype=np.uint64)
    for vector in (rest, *(answer.masked for answer in answers.values())):
        assert np.abs(vector.view(np.int64).astype(float)).max() > 2.0**55


def _strange(cards):
    signer = ec.generate_private_key(ec.SECP384R1())
    _, card = introduce("site-9", cards[0].run, cards[0].plan, cards[0].roster, signer)
    return (*cards[:3], card)


def _in_the_middle(cards):
    key = X25519PrivateKey.generate().public_key().public_bytes_raw()
    return (cards[0], replace(cards[1], key=key), *cards[2:])


BAD_CARDS = {
    "a stranger": (_strange, "site-9 is not in the roster"),
    "another key in the middle": (_in_the_middle, "site-1 is not signed"),
    "its own card is missing": (lambda cards: cards[1:], "current one is missing"),
    "too few nodes": (lambda cards: cards[:2], "at least 3"),
    "one twice": (lambda cards: (*cards[:3], cards[2]), "each name once"),
    "another order": (lambda cards: cards[::-1], "sorted by name"),
}


@pytest.mark.parametrize("case", BAD_CARDS)
def test_cards_that_are_not_those_of_the_roster_are_refused_for_nothing(sums, case):
    change, why = BAD_CARDS[case]
    here = sums()
    engine, cards = here.opened()
    told = here.told(engine, cards)["site-0"]
    answer = here.ask("site-0", replace(told, cards=change(cards)))
    assert isinstance(answer, Refusal)
    assert why in answer.reason
    assert here.spent("site-0") == []
    assert isinstance(here.ask("site-0", told), SumAnswer)  # the serial was not used up


CHANGED = {
    "another plan": (lambda plan: replace(plan, learning_rate=6.0), "is not the one that this run was introduced with"),
    "a plan without secure sums": (lambda plan: replace(plan, secure_sum=None), "the plan has none"),
    "another number of nodes": (lambda plan: replace(plan, secure_sum=SecureSum(nodes=5)), "another number of nodes"),
    "fewer colluders": (lambda plan: replace(plan, secure_sum=SecureSum(nodes=4, tolerated=1)), "requires at least 2"),
    "less noise": (lambda plan: replace(plan, method=replace(plan.method, noise=Constant(0.5))), "sigma = 0.5"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_plan_that_the_policy_forbids_or_that_was_not_introduced_is_refused(sums, case):
    change, why = CHANGED[case]
    plan = replace(SUMS, secure_sum=SecureSum(nodes=4, tolerated=2))
    digest = sums(plan).roster.digest
    here = sums(plan, replace(OPEN, tolerated=2, minimum_sigma=1.0, adversary="aggregate", roster=digest))
    told = here.told(*here.opened())["site-0"]
    answer = here.ask("site-0", replace(told, order=replace(told.order, plan=change(plan))))
    assert isinstance(answer, Refusal)
    assert why in answer.reason
    assert here.spent("site-0") == []


def test_orders_that_leave_clients_out_or_come_without_masks_are_refused(sums):
    here = sums()
    told = here.told(*here.opened())["site-0"]
    part = here.ask("site-0", replace(told, order=replace(told.order, clients=told.order.clients[:1])))
    assert part == Refusal("clients: a secure sum is over all clients of a node")
    plain = here.ask("site-0", told.order)
    assert plain == Refusal("secure_sum: what this node adds is sent under masks only")
    assert here.spent("site-0") == []


def test_a_repeated_serial_is_refused_and_a_restarted_node_has_no_old_run(sums):
    here = sums()
    told = here.told(*here.opened())
    answers_of(here, told)
    again = here.ask("site-0", told["site-0"])
    assert isinstance(again, Refusal)
    assert "serial = 0: must be above 0" in again.reason
    here.restart("site-1")
    assert "no such run is open" in here.ask("site-1", told["site-1"]).reason
    assert here.spent("site-0") == here.spent("site-1") == [0]


def test_a_stale_card_of_another_node_spoils_the_sum_only(sums):
    here = sums()
    engine, cards = here.opened()
    here.restart("site-1")
    new = here.ask("site-1", engine.introduce("site-1", here.task()))
    told = here.told(engine, cards)
    told["site-1"] = replace(told["site-1"], cards=(cards[0], new, *cards[2:]))
    with pytest.raises(Spoiled):
        summed(here, told, answers_of(here, told))


def test_retries_at_will_have_fresh_noise_and_end_where_the_policy_does(sums):
    plan = replace(SUMS, noise_source=NoiseSource.SECRET)
    probe = sums(plan)
    name, new = probe.grid.sites["site-0"].node.served(probe.told(*probe.opened())["site-0"].order, 1)
    digest = probe.roster.digest
    limit = new.with_round(2, [0, 4]).with_round(2, [0, 4]).with_round(2, [0, 4]).epsilon("aggregate")
    here = sums(plan, replace(OPEN, adversary="aggregate", roster=digest, maximum_epsilon=limit))
    engine, cards = probe.engine(), None
    cards = tuple(
        here.grid.sites[site].epochs.introduce(engine.run, attempt_plan(engine, here, site)) for site in SITES
    )
    got = []
    for serial in range(5):
        told = here.told(engine, cards, t=2, serial=serial)
        answer = here.ask("site-0", told["site-0"])
        got.append(answer)
    assert [isinstance(one, SumAnswer) for one in got] == [True, True, True, False, False]
    assert "would be spent in all, and this node allows" in got[3].reason
    assert here.spent("site-0") == [2, 2, 2]
    assert name


def attempt_plan(engine, here, site):
    return codec.digest(engine.introduce(site, here.task()).about.plan)


def test_two_sums_that_differ_in_one_node_have_noise_of_their_own(sums):
    here = sums(replace(SUMS, noise_source=NoiseSource.SECRET))
    engine, cards = here.opened()
    one = RoundSum.of(here.plan, 1, here.task().params, data().shape)
    assert one.size == 78
    everyone, without = here.told(engine, cards, 1, 0), here.told(engine, cards[:3], 1, 1)
    sums_of = [summed(here, told, answers_of(here, told)) for told in (everyone, without)]
    difference = decode(sums_of[0] - sums_of[1], 1.0)
    last = here.grid.sites["site-3"].node.records(everyone["site-3"].order)
    noise = difference - one.added(here.task().params, *last[:2])
    # Shares of variance s^2 = z^2 / (r - t): four at t = 1 and three at t = 1.
    expected = one.multiplier * np.sqrt(4 / 3 + 3 / 2)
    square = np.sum(noise**2) / expected**2
    assert 1e-7 < stats.chi2.cdf(square, one.size) < 1 - 1e-7
    assert stats.chi2.sf(9 * square, one.size) < 1e-7  # a third of the noise would be seen, but for once in 10^13


def test_an_answer_after_its_time_is_not_sent_and_costs_nothing(sums):
    here = sums()
    told = here.told(*here.opened())["site-0"]
    answer = here.ask("site-0", replace(told, within=0.0))
    assert isinstance(answer, Refusal)
    assert "the time for an answer is over" in answer.reason
    assert here.spent("site-0") == []


def test_the_time_for_an_answer_begins_when_a_node_is_asked_and_counts_what_it_reads(sums, monkeypatch):
    here, read = sums(), Node.records
    engine, cards = here.opened()
    here.ask("site-0", here.told(engine, cards)["site-0"])  # compiled now

    def slow(node, order):
        time.sleep(1.2)
        return read(node, order)

    monkeypatch.setattr(Node, "records", slow)
    answer = here.ask("site-0", replace(here.told(engine, cards, serial=1)["site-0"], within=1.0))
    assert answer == Refusal("within = 1: the time for an answer is over")
    assert here.spent("site-0") == [0]


def test_the_charge_is_on_disk_before_noise_is_drawn(sums, monkeypatch):
    here = sums()
    told = here.told(*here.opened())["site-0"]

    def killed(*args):
        assert here.spent("site-0") == [0]
        raise SystemExit

    monkeypatch.setattr("gradveil.aggregation.answering.discrete_gaussian", killed)
    with pytest.raises(SystemExit):
        here.ask("site-0", told)
    assert here.spent("site-0") == [0]


def test_a_record_that_is_not_finite_counts_as_none_and_nothing_fails(sums):
    here = sums()
    params = here.task().params
    one = RoundSum.of(here.plan, 0, params, data().shape)
    x, y = data().train.x[:20].copy(), data().train.y[:20]
    x[3], x[4] = np.nan, 1e38
    sound = one.added(params, np.delete(x, [3, 4], axis=0), np.delete(y, [3, 4]))
    found = one.added(params, x, y)
    assert np.isfinite(found).all()
    assert np.linalg.norm(found - sound) <= 1 + 1e-9  # 1e38 is a direction still, nan is nothing
    assert np.abs(one.added(params, x[3:4], y[3:4])).max() == 0


def test_a_record_moves_the_whole_numbers_by_the_sensitivity_at_most(sums):
    here = sums()
    for t in range(3):
        params = here.task(t).params
        one = RoundSum.of(here.plan, t, params, data().shape)
        x, y = 1e3 * data().train.x[:40], data().train.y[:40]
        for j in range(40):
            moved = one.added(params, x, y) - one.added(params, np.delete(x, j, 0), np.delete(y, j))
            units = np.linalg.norm(np.rint(moved * RESOLUTION))
            assert units <= one.deviation(4) / one.multiplier * 3**0.5


def test_a_share_is_sized_for_those_who_do_not_collude_and_for_the_largest_node(sums):
    plan = replace(SUMS, secure_sum=SecureSum(nodes=3, tolerated=1), clients=8)
    here = sums(plan)
    one = RoundSum.of(plan, 1, here.task().params, data().shape)
    records = 3 * 15  # 8 clients over 3 nodes
    delta = 2**24 * (1 + 2**-20) + 78**0.5 * (1 + 2 * (records + 3) * records * 2**24 * 2.0**-53)
    assert one.deviation(3) == pytest.approx(plan.sigmas()[1, 0] * delta / 2**0.5, rel=1e-12)


def test_noise_is_the_systems_or_another_for_every_node():
    assert noise_bytes(replace(SUMS, noise_source=NoiseSource.SECRET), None, 0) is os.urandom
    assert len({noise_bytes(SUMS, (1, 2), node)(32) for node in range(4)} | {noise_bytes(SUMS, (1, 3), 0)(32)}) == 5


def test_a_node_that_could_not_afford_all_rounds_refuses_at_the_roll_call(sums):
    tight = replace(OPEN, maximum_epsilon=0.5)
    here = sums(SUMS, tight)
    engine = here.engine()
    refusal = here.ask("site-0", engine.introduce("site-0", here.task()))
    assert isinstance(refusal, Refusal)
    assert "would be spent in all" in refusal.reason
    assert here.spent("site-0") == []


def epsilons(here):
    _, new = here.grid.sites["site-0"].node.served(here.told(*here.opened())["site-0"].order, 1)
    for t in range(4):
        new = new.with_round(t, [0, 4])
    return new.epsilon("aggregate"), new.epsilon("server"), new.epsilon("alone")


def test_whom_a_policy_trusts_decides_what_is_counted(sums):
    aggregate, server, alone = epsilons(sums())
    assert aggregate < server == alone
    between = (aggregate + alone) / 2
    digest = sums().roster.digest

    def refused(policy):
        here = sums(SUMS, policy)
        return isinstance(here.ask("site-0", here.engine().introduce("site-0", here.task())), Refusal)

    trusting = replace(OPEN, adversary="aggregate", roster=digest, maximum_epsilon=between)
    assert not refused(trusting)
    assert refused(replace(OPEN, maximum_epsilon=between))
    assert refused(replace(trusting, maximum_alone_epsilon=between))
    assert not refused(replace(trusting, maximum_alone_epsilon=alone + 0.01))
    assert refused(replace(trusting, allow_seeded=False))


def test_a_node_without_a_roster_or_with_another_than_its_policy_names_makes_no_sums(sums, signers):
    here = sums()
    node = here.grid.sites["site-0"].node
    told = here.told(*here.opened())["site-0"]
    assert "has pinned none" in Summing(node).handle(told).reason
    policy = replace(OPEN, adversary="aggregate", roster="0" * 64)
    with pytest.raises(BadInput, match="the policy names 0000"):
        epochs_of(policy, here.roster, signers["site-0"])


def test_more_cards_than_the_plan_has_nodes_are_refused(tmp_path, signers, sums):
    plan = replace(SUMS, clients=6, cohort=6, secure_sum=SecureSum(nodes=3))
    here = sums(plan)
    roster = KeyRoster({name: key_line(key.public_key()) for name, key in signers.items()})
    for name in SITES:
        node = Node(data(own=True), OPEN, Spending(tmp_path / "own" / name / "spending.json"))
        here.grid.sites[name] = Summing(node, epochs_of(OPEN, roster, signers[name]))
    engine = here.engine()
    engine.roster = replace(engine.roster, names=SITES[:3])
    cards = tuple(here.ask(name, engine.introduce(SITES[0], here.task())) for name in SITES)
    order = engine.order_for("site-0", cards, here.task())
    assert "4 are more than the plan's nodes = 3" in here.ask("site-0", replace(order, serial=0)).reason
    assert isinstance(here.ask("site-0", replace(order, serial=0, cards=cards[:3])), SumAnswer)


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"adversary": "nobody"}, "must be server or aggregate"),
        ({"adversary": "aggregate"}, "needs roster"),
        ({"roster": "abc"}, "64 digits"),
        ({"tolerated": 0}, "tolerated = 0"),
        ({"tolerated": 2, "minimum_nodes": 3}, "minimum_nodes = 3"),
        ({"maximum_alone_epsilon": 0.0}, "maximum_alone_epsilon = 0.0"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(keys, why):
    with pytest.raises(BadInput, match=why):
        Policy(**keys)


def test_a_fingerprint_may_be_written_in_groups_as_it_is_printed(sums):
    roster = sums().roster
    assert Policy(roster=roster.fingerprint).roster == roster.digest
