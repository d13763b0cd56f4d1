"""Generated inputs: no traceback, no exit code but 0, 1 and 2, one sentence for a refusal, and an answer in time.

`make fuzz` tries a thousand; GRADVEIL_FUZZ sets another number.
"""

import os

import pytest
from fuzz_case import case, commanded, judged
from fuzz_world import build

INPUTS = int(os.environ.get("GRADVEIL_FUZZ", "1000"))
BLOCK = 25


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Two finished runs and the files that inputs point at; whatever names no place is written beside them."""
    folder, before = tmp_path_factory.mktemp("fuzz"), os.getcwd()
    os.chdir(folder)
    yield build(folder)
    os.chdir(before)


@pytest.mark.fuzz
@pytest.mark.parametrize("first", range(0, INPUTS, BLOCK))
def test_no_generated_input_ends_in_a_traceback_a_wrong_exit_code_or_never(world, first):
    numbers = range(first, min(first + BLOCK, INPUTS))
    made = ((number, case(number, world)) for number in numbers)
    complaints = [f"input {number}, {one.told[:300]}: {said}" for number, one in made if (said := judged(one))]
    assert not complaints, "\n".join(complaints)


@pytest.mark.fuzz
def test_an_input_is_the_same_every_time_it_is_made(world):
    assert [case(n, world).told for n in range(40)] == [case(n, world).told for n in range(40)]
    assert case(3, world, seed=1).told != case(3, world, seed=2).told


def test_a_crash_an_unknown_exit_code_and_two_sentences_are_complaints(monkeypatch):
    import fuzz_case

    def crash(words):
        raise TypeError("a mistake of the program")

    for main, complaint in (
        (crash, "TypeError"),
        (lambda words: 3, "exit code 3"),
        (lambda words: (print("one\ntwo", file=__import__("sys").stderr), 2)[1], "2 lines"),
        (lambda words: 2, "0 lines"),
        (lambda words: 0, None),
    ):
        monkeypatch.setattr(fuzz_case, "main", main)
        said = commanded(["list"], None)
        assert said is None if complaint is None else complaint in said


def test_an_input_that_never_ends_is_a_complaint(monkeypatch, tmp_path):
    import fuzz_case

    def for_ever():
        while True:
            pass

    monkeypatch.setattr(fuzz_case, "SECONDS", 0.2)
    assert "took more than" in judged(fuzz_case.Case("for ever", for_ever, tmp_path / "none"))
