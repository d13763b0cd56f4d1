"""Every check of a secure sum is tested: where it is taken out, the test of what must fail goes red."""

from pathlib import Path

import pytest
from mutants import Mutant, execute, notices, rebuild, run

HERE, FILES = Path(__file__).parent, ("test_must_fail", "test_masks")
ROOM = [f"aggregation/{name}.py" for name in (
    "ring", "roster", "cards", "masks", "noise", "epoch", "answering", "collecting")]  # fmt: skip
CARDS, MASKS, NOISE, EPOCH, ANSWERING, COLLECTING, RING = (
    f"aggregation/{name}.py" for name in ("cards", "masks", "noise", "epoch", "answering", "collecting", "ring")
)
REFUSES, LIES, DIGEST, CARD_DIGEST = (
    "test_a_node_refuses",
    "test_a_server_that_tells_one_node_something_else_gets_random_numbers",
    "test_the_digest_of_an_attempt_changes_with_every_field",
    "test_the_digest_of_a_card_changes_with_every_field_but_the_signature_over_it",
)
RETRY, LEFT_OUT, LATE, UNIFORM, ONCE = (
    "test_a_retry_without_the_missing_node_has_fresh_noise_and_is_charged_again",
    "test_one_answer_left_out_of_those_that_were_asked_leaves_random_numbers",
    "test_a_late_answer_to_an_attempt_that_was_given_up_gives_another_sum_with_noise_of_its_own",
    "test_the_answers_of_a_part_of_the_nodes_are_uniform",
    "test_no_two_vectors_ever_leave_a_node_under_one_digest_whatever_is_restarted",
)
TAGGED = 'TAG + b"introduction\\0" + canonical(fields)'
EQUAL = "(card.run, card.plan, card.roster) != (mine.run, mine.plan, mine.roster)"
UNSIGNED, UNMASKED = " and not is_signed(card, self.roster)", "in pairs.items():"
DRAWN = "discrete_gaussian(deviation, attempt.size, take)"
NEVER = "if False:"
SAME_NOISE = """
from gradveil.aggregation.noise import seeded_bytes
AGAIN = lambda name, size: discrete_gaussian(2.0**24, size, seeded_bytes(*name.encode()))
"""
"""Noise that a node draws once and uses in every attempt."""

OF_NODES = (
    Mutant(EPOCH, "if name not in self.roster.keys:", NEVER, REFUSES, "a stranger"),
    *(
        Mutant(EPOCH, UNSIGNED, " and False", REFUSES, case)
        for case in (
            "a key in the middle",
            "a signature by another key",
            "a time stamp signed for Flower",
            "the words of a card without a tag",
            "a card under another name",
        )
    ),
    Mutant(CARDS, "return False", "return True", REFUSES, "a signature by another key"),
    Mutant(CARDS, TAGGED, "canonical(fields)", REFUSES, "the words of a card without a tag"),
    Mutant(CARDS, TAGGED, "TAG + canonical(fields)", REFUSES, "the words of a card under the tag alone"),
    Mutant(CARDS, ", self.key.hex()", "", REFUSES, "a key in the middle"),
    *(
        Mutant(CARDS, old, new, CARD_DIGEST, field)
        for field, old, new in (
            ("name", "[self.name, self.run", "[self.run"),
            ("run", "[self.name, self.run", "[self.name"),
            ("plan", "self.plan, self.roster, self.key", "self.roster, self.key"),
            ("roster", "self.plan, self.roster, self.key", "self.plan, self.key"),
            ("nonce", ", self.nonce.hex()]", "]"),
        )
    ),
    Mutant(EPOCH, EQUAL, "(card.plan, card.roster) != (mine.plan, mine.roster)", REFUSES, "a card of another run"),
    Mutant(EPOCH, EQUAL, "(card.run, card.roster) != (mine.run, mine.roster)", REFUSES, "a card for another plan"),
    Mutant(EPOCH, EQUAL, "(card.run, card.plan) != (mine.run, mine.plan)", REFUSES, "a card of another roster"),
    Mutant(
        EPOCH,
        'raise Refused(f"cards: that of {card.name} has a key of small order") from None',
        "epoch.pairs[card.digest] = bytes(32)",
        REFUSES,
        "a key of small order",
    ),
    Mutant(EPOCH, "if names != sorted(set(names)):", NEVER, REFUSES, "two cards of a name"),
    Mutant(EPOCH, "if names != sorted(set(names)):", NEVER, REFUSES, "cards out of order"),
    Mutant(EPOCH, "if epoch.card not in attempt.cards:", NEVER, REFUSES, "own card missing"),
    Mutant(EPOCH, "if epoch.card not in attempt.cards:", NEVER, REFUSES, "stale own card"),
    Mutant(EPOCH, "if nodes < self.crowd.minimum_nodes:", NEVER, REFUSES, "too few nodes"),
    Mutant(EPOCH, "if nodes - attempt.tolerated < LEAST_HONEST:", NEVER, REFUSES, "too few honest nodes"),
    Mutant(
        EPOCH, "if attempt.tolerated < self.crowd.tolerated:", NEVER, REFUSES, "fewer tolerated than the policy's"
    ),
    Mutant(EPOCH, "if attempt.plan != mine.plan:", NEVER, REFUSES, "another plan"),
    Mutant(
        EPOCH, "self._open.get(attempt.run)", "next(iter(self._open.values()))", REFUSES, "a run that is not open"
    ),
    Mutant(EPOCH, "while len(self._open) > MOST_OPEN:", "while False:",
           "test_the_oldest_run_is_forgotten_when_too_many_are_open"),
    Mutant(EPOCH, "if attempt.serial <= epoch.last:", NEVER,
           "test_a_serial_is_answered_once_and_never_an_older_one", 3),
    Mutant(EPOCH, "if attempt.serial <= epoch.last:", "if attempt.serial == epoch.last:",
           "test_a_serial_is_answered_once_and_never_an_older_one", 2),
    Mutant(EPOCH, "epoch.last = attempt.serial", "pass",
           "test_a_serial_is_used_up_though_the_computation_failed"),
    Mutant(EPOCH, "epoch.last = attempt.serial", "pass", ONCE),
    Mutant(ANSWERING, "if units.shape != (attempt.size,):", NEVER, REFUSES, "no coordinates"),
    Mutant(ANSWERING, "if units.shape != (attempt.size,):", NEVER, REFUSES, "other coordinates"),
    Mutant(ANSWERING, "if clock() - begun > within:", NEVER,
           "test_nothing_is_sent_or_charged_when_the_time_is_over"),
)  # fmt: skip
"""Checks of a node."""

OF_MASKS = (
    *(
        Mutant(MASKS, f"{before}self.{field}{after}", before + after.removeprefix(", "), test, case)
        for field, before, after, test, case in (
            ("run", "[", ", ", DIGEST, "run"),
            ("plan", "self.run, ", ", ", DIGEST, "plan"),
            ("size", "self.round, ", ", ", DIGEST, "size"),
            ("serial", "self.plan, ", ", ", LIES, {"serial": 7}),
            ("round", "self.serial, ", ", ", LIES, {"round": 1}),
            ("tolerated", "self.size, ", ", ", LIES, {"tolerated": 2}),
            ("state", "self.tolerated, ", "]", LIES, {"state": "a" * 64}),
        )
    ),
    Mutant(MASKS, "canonical([*fields, cards])", "canonical(fields)", DIGEST, "cards"),
    Mutant(MASKS, 'TAG + b"mask\\0" + attempt', 'TAG + b"mask\\0"', LIES, {"state": "a" * 64}),
    Mutant(MASKS, "+ low.digest + high.digest", "",
           "test_two_nodes_derive_the_same_key_as_the_formula_names_and_another_one_for_other_cards"),
    Mutant(MASKS, UNMASKED, "in ():", LEFT_OUT),
    Mutant(MASKS, UNMASKED, "in ():", "test_a_server_that_lists_other_nodes_to_some_gets_random_numbers"),
    Mutant(MASKS, UNMASKED, "in ():", UNIFORM, 4),
    Mutant(CARDS, "X25519PrivateKey.generate()", "X25519PrivateKey.from_private_bytes(name.encode() * 5 + b'..')",
           "test_a_stale_card_of_another_node_only_spoils_the_sum",
           also=((MASKS, "+ low.digest + high.digest", ""),
                 (MASKS, "canonical([*fields, cards])", "canonical(fields)"))),
)  # fmt: skip
"""What makes the numbers random."""

OF_NOISE = (
    Mutant(ANSWERING, "    charge(attempt)\n", "", RETRY),
    Mutant(ANSWERING, "    charge(attempt)\n", f"    {DRAWN}\n    charge(attempt)\n",
           "test_the_charge_is_written_before_noise_is_drawn_and_anything_can_leave"),
    Mutant(ANSWERING, DRAWN, f"(0 * {DRAWN})", RETRY),
    Mutant(ANSWERING, DRAWN, "np.rint(AGAIN(epochs.name, attempt.size) * (deviation / 2**24)).astype(np.int64)", LATE,
           also=((ANSWERING, "\n\n\ndef answer(", SAME_NOISE + "\n\n\ndef answer("),)),
    Mutant(NOISE, "math.sqrt(nodes - tolerated)", "math.sqrt(nodes)",
           "test_what_colluding_nodes_cannot_subtract_is_the_promised_noise"),
    Mutant(RING, "np.nan_to_num(np.asarray(total, np.float64))", "total",
           "test_a_record_that_is_not_finite_or_huge_is_answered_like_any_other"),
)  # fmt: skip
"""The noise, its charge, and that nothing fails because of data."""

OF_THE_SERVER = (
    Mutant(COLLECTING, "if missing:", NEVER, LEFT_OUT),
    Mutant(COLLECTING, "if strangers:", NEVER,
           "test_an_answer_of_another_form_or_from_a_stranger_is_no_part_of_a_sum"),
    Mutant(COLLECTING, "if answer.attempt != attempt.digest:", NEVER, LIES, {"round": 1}),
    Mutant(COLLECTING, "if answer.masked.shape != (attempt.size,) or answer.masked.dtype != np.uint64:", NEVER,
           "test_an_answer_of_another_form_or_from_a_stranger_is_no_part_of_a_sum"),
    Mutant(COLLECTING, "if not ring.plausible(units, records, deviation):", NEVER, LIES, {"round": 1}),
)  # fmt: skip
"""What the server checks."""

MUTANTS = (*OF_NODES, *OF_MASKS, *OF_NOISE, *OF_THE_SERVER)


def executed(monkeypatch, changes):
    """Execute the room with changes, and on top of it the tests: give their names, and how to make a federation."""
    rebuild(monkeypatch, ROOM, changes)
    protocol = execute(monkeypatch, "protocol_of_mutants", HERE / "conftest.py")
    files = [execute(monkeypatch, f"{name}_of_mutants", HERE / f"{name}.py") for name in FILES]
    return {name: value for file in files for name, value in vars(file).items()}, protocol.federation_of


def fixtures_of(signers, federation_of):
    federation = federation_of(signers)
    return {"federation": federation, "cards": federation.introduce()}


def test_all_these_tests_pass_on_a_copy_without_a_change(monkeypatch, signers):
    tests, federation_of = executed(monkeypatch, ())
    for (name, _), case in {(mutant.test, repr(mutant.case)): mutant.case for mutant in MUTANTS}.items():
        run(tests[name], fixtures_of(signers, federation_of), case)


@pytest.mark.parametrize("mutant", MUTANTS, ids=Mutant.name)
def test_where_a_check_is_taken_out_its_test_goes_red(monkeypatch, signers, mutant):
    tests, federation_of = executed(monkeypatch, mutant.changes)
    assert notices(tests[mutant.test], fixtures_of(signers, federation_of), mutant.case)


def test_every_refusal_of_a_node_has_a_mutant(monkeypatch):
    tests, _ = executed(monkeypatch, ())
    assert {mutant.case for mutant in MUTANTS if mutant.test == REFUSES} == set(tests["REFUSED"])
