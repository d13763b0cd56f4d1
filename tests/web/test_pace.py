"""The time that a live page says is left: rounds to come, as long as those by the clock since the run was seen."""

from dataclasses import replace
from pathlib import Path

import pytest

from gradveil.web.pace import Paces
from gradveil.web.run_processes import Runs
from gradveil.web.status import status

RUN = Path("one")


def test_the_round_that_was_under_way_does_not_count_and_those_after_it_do():
    paces = Paces()
    assert paces.seen(RUN, running=True, done=0, ended=0.0) is None
    assert paces.seen(RUN, running=True, done=1, ended=60.0) is None  # it compiled
    assert paces.seen(RUN, running=True, done=1, ended=60.0) is None
    assert paces.seen(RUN, running=True, done=3, ended=70.0) == 5.0
    assert paces.seen(RUN, running=True, done=4, ended=72.0) == 4.0


def test_a_resumed_run_is_measured_anew():
    paces = Paces()
    for done, ended in [(0, 0.0), (1, 10.0), (2, 12.0)]:
        paces.seen(RUN, running=True, done=done, ended=ended)
    assert paces.seen(RUN, running=False, done=2, ended=12.0) is None
    assert paces.seen(RUN, running=True, done=2, ended=12.0) is None
    assert paces.seen(RUN, running=True, done=3, ended=5000.0) is None
    assert paces.seen(RUN, running=True, done=4, ended=5003.0) == 3.0


def test_runs_do_not_share_a_pace_and_few_are_kept():
    paces = Paces(most=1)
    for done, ended in [(0, 0.0), (1, 10.0), (2, 12.0)]:
        paces.seen(RUN, running=True, done=done, ended=ended)
    assert paces.seen(Path("two"), running=True, done=7, ended=99.0) is None
    assert paces.seen(RUN, running=True, done=3, ended=14.0) is None  # it was given up for the other


@pytest.mark.parametrize(
    ("rounds_left", "left"),
    [(None, 8 * 3.0), (20, 8 * 3.0), (5, 5 * 3.0), (0, None)],
)
def test_the_time_left_is_by_the_clock_and_a_budget_may_end_it_sooner(trained, rounds_left, left):
    run = Runs(trained).evidence("one")
    lines = [replace(line, seconds=1.0, rounds_left=rounds_left) for line in run.lines]
    longer = replace(run, plan=replace(run.plan, rounds=10), lines=lines)
    assert status(longer, "one", True, None, pace=3.0)["seconds_left"] == left
    assert status(longer, "one", True, None, pace=None)["seconds_left"] is None
    assert status(longer, "one", False, None, pace=3.0)["seconds_left"] is None
