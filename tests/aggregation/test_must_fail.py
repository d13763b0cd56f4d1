"""What a server, or a node together with it, may try against a secure sum: refused, or random numbers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from gradveil.aggregation import ring
from gradveil.aggregation.answering import SumAnswer
from gradveil.aggregation.cards import introduce
from gradveil.aggregation.collecting import Spoiled
from gradveil.aggregation.epoch import MOST_OPEN, Crowd, Epochs, Refused
from gradveil.aggregation.noise import discrete_gaussian, seeded_bytes, share_deviation
from gradveil.errors import BadInput

NAMES = [f"site-{i}" for i in range(5)]
OTHER_RUN, OTHER_PLAN = "f" * 32, "e" * 64


def ask_all(federation, attempts):
    """Give the answers of the nodes, each to what it was told."""
    return {name: federation.answer(name, attempt) for name, attempt in attempts.items()}


def test_the_sum_is_that_of_the_noised_vectors_to_the_bit_whatever_order_they_come_in(federation, cards):
    attempt = federation.attempt(cards)
    answers = {name: federation.answer(name, attempt, take=seeded_bytes(NAMES.index(name))) for name in NAMES}
    deviation = share_deviation(2.0, 40, 30, 5, 1)
    exact = sum(
        ring.encode(federation.vectors[name]).view(np.int64) + discrete_gaussian(deviation, 40, seeded_bytes(i))
        for i, name in enumerate(NAMES)
    )
    for order in (NAMES, NAMES[::-1]):
        summed = federation.collected(attempt, {name: answers[name] for name in order})
        assert (summed.view(np.int64) == exact).all()
    assert federation.charged == [(name, attempt.digest) for name in NAMES]


def spoiled(federation, attempt, answers):
    """Whether the server gets nothing though it says that all were told the same: the sum is no sum."""
    told = {name: SumAnswer(attempt.digest, given.masked) for name, given in answers.items()}
    with pytest.raises(Spoiled, match="larger than honest answers"):
        federation.collected(attempt, told)
    return True


@pytest.mark.parametrize(
    "lie",
    [{"state": "a" * 64}, {"round": 1}, {"serial": 7}, {"tolerated": 2}],
    ids=["weights", "round", "serial", "tolerated"],
)
def test_a_server_that_tells_one_node_something_else_gets_random_numbers(federation, cards, lie):
    attempt = federation.attempt(cards)
    told = {name: replace(attempt, **lie) if name == "site-2" else attempt for name in NAMES}
    answers = ask_all(federation, told)
    assert spoiled(federation, attempt, answers)
    with pytest.raises(Spoiled, match="site-2 answered something else"):
        federation.collected(attempt, answers)


def test_a_server_that_lists_other_nodes_to_some_gets_random_numbers(federation, cards):
    attempt, fewer = federation.attempt(cards), federation.attempt(cards[:4])
    told = dict.fromkeys(NAMES, attempt) | dict.fromkeys(NAMES[1:4], fewer)
    answers = ask_all(federation, told)
    assert spoiled(federation, attempt, answers)
    with pytest.raises(Spoiled):
        federation.collected(fewer, {name: answers[name] for name in NAMES[:4]})


def test_one_answer_left_out_of_those_that_were_asked_leaves_random_numbers(federation, cards):
    attempt = federation.attempt(cards)
    answers = ask_all(federation, dict.fromkeys(NAMES, attempt))
    rest = {name: answers[name] for name in NAMES[:-1]}
    with pytest.raises(Spoiled, match="no answer from site-4"):
        federation.collected(attempt, rest)
    units = ring.total(a.masked for a in rest.values())
    assert not ring.plausible(units, 150, share_deviation(2.0, 40, 30, 5, 1) * 5**0.5)


def test_a_stale_card_of_another_node_only_spoils_the_sum(federation, cards):
    federation.introduce("site-0")
    now = federation.nodes["site-0"].introduce(cards[0].run, cards[0].plan)
    fresh = federation.attempt((now, *cards[1:]))
    told = {name: fresh if name == "site-0" else federation.attempt(cards) for name in NAMES}
    assert spoiled(federation, fresh, ask_all(federation, told))


def test_an_answer_of_another_form_or_from_a_stranger_is_no_part_of_a_sum(federation, cards):
    attempt = federation.attempt(cards)
    answers = ask_all(federation, dict.fromkeys(NAMES, attempt))
    for wrong in (answers["site-1"].masked[:-1], answers["site-1"].masked.astype(np.float64)):
        with pytest.raises(Spoiled, match="site-1 sent"):
            federation.collected(attempt, answers | {"site-1": SumAnswer(attempt.digest, wrong)})
    with pytest.raises(Spoiled, match="mallory answered and was not asked"):
        federation.collected(attempt, answers | {"mallory": answers["site-1"]})


def stranger(federation, cards):
    _, card = introduce("site-9", cards[0].run, cards[0].plan, cards[0].roster, ec.generate_private_key(ec.SECP384R1()))
    return {"cards": (*cards, card)}


def swapped(card, **changes):
    return lambda federation, cards: {"cards": tuple(replace(c, **changes) if c.name == card else c for c in cards)}


def key_in_the_middle(federation, cards):
    own = X25519PrivateKey.generate().public_key().public_bytes_raw()
    return swapped("site-1", key=own)(federation, cards)


def signed_by_another(federation, cards):
    signature = federation.signers["site-2"].sign(cards[1].signed(), ec.ECDSA(hashes.SHA384()))
    return swapped("site-1", signature=signature)(federation, cards)


def time_stamp_as_card(federation, cards):
    """What the same key signs for Flower: the time."""
    stamp = federation.signers["site-1"].sign(b"2026-11-16T19:00:00+00:00", ec.ECDSA(hashes.SHA256()))
    return swapped("site-1", signature=stamp)(federation, cards)


def signed_for(purpose):
    """Give a card whose words the right key signed for another program or message: the bytes begin otherwise."""

    def make(federation, cards):
        card = cards[1]
        words = [card.name, card.run, card.plan, card.roster, card.key.hex(), card.nonce.hex()]
        signature = federation.signers["site-1"].sign(
            purpose + json.dumps(words, separators=(",", ":")).encode(), ec.ECDSA(hashes.SHA384())
        )
        return swapped("site-1", signature=signature)(federation, cards)

    return make


def renamed_card(federation, cards):
    return {"cards": tuple(replace(c, name="site-1") if c.name == "site-2" else c for c in cards if c.name != "site-1")}


def card_of(**changes):
    """Another node's card, signed by it, for something else than this run."""

    def make(federation, cards):
        told = {"run": cards[1].run, "plan": cards[1].plan, "roster": cards[1].roster} | changes
        _, card = introduce("site-1", told["run"], told["plan"], told["roster"], federation.signers["site-1"])
        return {"cards": (cards[0], card, *cards[2:])}

    return make


def small_order(federation, cards):
    """A colluding node's card with a key for which every shared secret is zero."""
    blank = replace(cards[1], key=bytes(32), signature=b"")
    signature = federation.signers["site-1"].sign(blank.signed(), ec.ECDSA(hashes.SHA384()))
    return {"cards": (cards[0], replace(blank, signature=signature), *cards[2:])}


def stale_own(federation, cards):
    federation.introduce("site-0")
    return {}


def two_cards_of_a_name(federation, cards):
    (again,) = federation.introduce("site-1")
    return {"cards": (*cards[:2], again, *cards[2:])}


REFUSED = {
    "a stranger": (stranger, "site-9 is not in the roster"),
    "a key in the middle": (key_in_the_middle, "site-1 is not signed"),
    "a signature by another key": (signed_by_another, "site-1 is not signed"),
    "a time stamp signed for Flower": (time_stamp_as_card, "site-1 is not signed"),
    "the words of a card without a tag": (signed_for(b""), "site-1 is not signed"),
    "the words of a card under the tag alone": (signed_for(b"gradveil/secure-sum/1/"), "site-1 is not signed"),
    "a card under another name": (renamed_card, "site-1 is not signed"),
    "a card of another run": (card_of(run=OTHER_RUN), "another run, plan or roster"),
    "a card for another plan": (card_of(plan=OTHER_PLAN), "another run, plan or roster"),
    "a card of another roster": (card_of(roster=OTHER_PLAN), "another run, plan or roster"),
    "a key of small order": (small_order, "small order"),
    "two cards of a name": (two_cards_of_a_name, "each name once"),
    "cards out of order": (lambda f, c: {"cards": c[::-1]}, "sorted by name"),
    "own card missing": (lambda f, c: {"cards": c[1:]}, "current one is missing"),
    "stale own card": (stale_own, "current one is missing"),
    "too few nodes": (lambda f, c: {"cards": c[:3]}, "requires at least 4"),
    "too few honest nodes": (lambda f, c: {"tolerated": 4}, "2 more are needed"),
    "fewer tolerated than the policy's": (lambda f, c: {"tolerated": 0}, "requires at least 1"),
    "another plan": (lambda f, c: {"plan": OTHER_PLAN}, "is not the one that this run"),
    "a run that is not open": (lambda f, c: {"run": OTHER_RUN}, "no such run is open"),
    "no coordinates": (lambda f, c: {"size": 0}, "has 40 coordinates"),
    "other coordinates": (lambda f, c: {"size": 41}, "has 40 coordinates"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_node_refuses(federation, cards, case):
    make, said = REFUSED[case]
    attempt = replace(federation.attempt(cards, serial=3), **make(federation, cards))
    with pytest.raises(Refused, match=said) as refused:
        federation.answer("site-0", attempt)
    assert "\n" not in str(refused.value)
    assert federation.charged == []


def test_a_refusal_by_a_check_does_not_use_up_the_serial(federation, cards):
    attempt = federation.attempt(cards, serial=3)
    with pytest.raises(Refused):
        federation.answer("site-0", replace(attempt, plan=OTHER_PLAN))
    assert len(federation.answer("site-0", attempt).masked) == 40


@pytest.mark.parametrize("serial", [3, 2, 0, -1])
def test_a_serial_is_answered_once_and_never_an_older_one(federation, cards, serial):
    federation.answer("site-0", federation.attempt(cards, serial=3))
    with pytest.raises(Refused, match="must be above 3"):
        federation.answer("site-0", federation.attempt(cards, serial=serial, round=1))
    federation.answer("site-0", federation.attempt(cards, serial=4))
    assert len(federation.charged) == 2


def test_a_serial_is_used_up_though_the_computation_failed(federation, cards):
    attempt, vector = federation.attempt(cards), federation.vectors.pop("site-0")
    with pytest.raises(KeyError):
        federation.answer("site-0", attempt)
    federation.vectors["site-0"] = vector
    with pytest.raises(Refused, match="must be above 0"):
        federation.answer("site-0", attempt)
    assert federation.charged == []


def test_nothing_is_sent_or_charged_when_the_time_is_over(federation, cards):
    times = iter([100.0, 161.0])
    with pytest.raises(Refused, match="time for an answer is over"):
        federation.answer("site-0", federation.attempt(cards), within=60.0, clock=lambda: next(times))
    assert federation.charged == []
    times = iter([100.0, 159.0])
    federation.answer("site-0", federation.attempt(cards, serial=1), within=60.0, clock=lambda: next(times))


def test_the_charge_is_written_before_noise_is_drawn_and_anything_can_leave(federation, cards):
    def killed(count):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        federation.answer("site-0", federation.attempt(cards), take=killed)
    assert len(federation.charged) == 1

    def too_much(attempt):
        raise Refused("epsilon: is spent")

    with pytest.raises(Refused, match="is spent"):
        federation.answer("site-0", federation.attempt(cards, serial=1), take=killed, charge=too_much)


def test_a_record_that_is_not_finite_or_huge_is_answered_like_any_other(federation, cards):
    """Weights could be chosen so that one record overflows, and a refusal would tell."""
    for serial, value in enumerate((np.nan, np.inf, -1e308)):
        federation.vectors["site-0"] = np.full(40, value)
        assert len(federation.answer("site-0", federation.attempt(cards, serial=serial)).masked) == 40


def test_a_retry_without_the_missing_node_has_fresh_noise_and_is_charged_again(federation, cards):
    first, retry = federation.attempt(cards), federation.attempt(cards[:4], serial=1)
    ask_all(federation, dict.fromkeys(NAMES[:4], first))
    answers = ask_all(federation, dict.fromkeys(NAMES[:4], retry))
    summed = federation.collected(retry, answers).view(np.int64)
    plain = sum(ring.encode(federation.vectors[name]).view(np.int64) for name in NAMES[:4])
    noise = (summed - plain) / (2.0 * 2**24 * (4 / 3) ** 0.5)
    assert 1e-6 < stats.chi2.sf(np.sum(noise**2), 40) < 1 - 1e-6
    assert [digest for _, digest in federation.charged] == [first.digest] * 4 + [retry.digest] * 4


def test_a_late_answer_to_an_attempt_that_was_given_up_gives_another_sum_with_noise_of_its_own(federation):
    """The server says that site-4 dropped out, and asks it after the others: two sums, whose difference is noised."""
    federation.size = size = 4000
    for name in NAMES:
        federation.vectors[name] = np.full(size, 3.0 if name == "site-4" else 1.0)
    cards = federation.introduce()
    everyone, without = federation.attempt(cards), federation.attempt(cards[:4], serial=1)
    answers = ask_all(federation, dict.fromkeys(NAMES[:4], everyone))
    rest = federation.collected(without, ask_all(federation, dict.fromkeys(NAMES[:4], without)))
    whole = federation.collected(everyone, answers | ask_all(federation, {"site-4": everyone}))
    noise = ((whole - rest).view(np.int64) / 2**24 - 3.0) / (2.0 * (1 + size**0.5 / 2**24))
    assert np.mean(noise**2) == pytest.approx(5 / 4 + 4 / 3, rel=5 * (2 / size) ** 0.5)
    assert [digest for _, digest in federation.charged] == [everyone.digest] * 4 + [without.digest] * 4 + [
        everyone.digest
    ]


def test_what_colluding_nodes_cannot_subtract_is_the_promised_noise(federation):
    """Five nodes of which one colludes: four shares make z Delta, and all five sqrt(5 / 4) of it."""
    federation.size = size = 20_000
    for name in NAMES:
        federation.vectors[name] = np.zeros(size)
    attempt = federation.attempt(federation.introduce())
    answers = {name: federation.answer(name, attempt, take=seeded_bytes(NAMES.index(name))) for name in NAMES}
    promised = 2.0 * (2**24 + size**0.5)
    noise = federation.collected(attempt, answers).view(np.int64) / promised
    assert np.mean(noise**2) == pytest.approx(5 / 4, rel=5 * (2 / size) ** 0.5)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_answers_of_a_part_of_the_nodes_are_uniform(federation, count):
    for name in NAMES:
        federation.vectors[name] = np.zeros(4000)
    federation.size = 4000
    attempt = federation.attempt(federation.introduce())
    sent = [federation.answer(name, attempt).masked for name in NAMES]
    for vector in (*sent, ring.total(sent[:count]), ring.total(sent[-count:])):
        seen = np.bincount(np.frombuffer(vector.tobytes(), np.uint8), minlength=256)
        assert stats.chisquare(seen).pvalue > 1e-8


def test_the_oldest_run_is_forgotten_when_too_many_are_open(federation, cards):
    for i in range(MOST_OPEN):
        federation.introduce("site-0", run=f"{i + 2:032x}")
    with pytest.raises(Refused, match="no such run is open"):
        federation.answer("site-0", federation.attempt(cards))


ACTIONS = st.lists(
    st.sampled_from(["introduce", "restart", "answer", "again", "older"]) | st.integers(0, 4), min_size=1, max_size=14
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTIONS)
def test_no_two_vectors_ever_leave_a_node_under_one_digest_whatever_is_restarted(federation, actions):
    cards, serial, left, told = federation.introduce(), 0, {}, []
    for action in actions:
        if action == "restart":
            federation.start("site-0")
        elif action == "introduce":
            cards = (federation.introduce("site-0")[0], *cards[1:])
        else:
            serial += action == "answer"
            fresh = federation.attempt(cards, serial if action == "answer" else max(0, serial - 1))
            attempt = told[action % len(told)] if isinstance(action, int) and told else fresh
            told.append(attempt)
            try:
                sent = federation.answer("site-0", attempt)
            except Refused:
                continue
            assert left.setdefault(sent.attempt, sent.masked.tobytes()) == sent.masked.tobytes()


def test_what_a_node_requires_must_leave_two_honest_ones():
    for wrong in ({"tolerated": 0}, {"tolerated": 2, "minimum_nodes": 3}):
        with pytest.raises(BadInput, match="must be at least"):
            Crowd(**wrong)


def test_a_node_that_is_not_in_its_own_roster_introduces_nothing(federation):
    lost = Epochs(federation.roster, ec.generate_private_key(ec.SECP384R1()), federation.crowd)
    with pytest.raises(BadInput, match="this node's key"):
        lost.introduce("0" * 32, "a" * 64)
