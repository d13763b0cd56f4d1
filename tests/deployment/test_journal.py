"""Attempts are counted once each, whatever is killed when, and however often the run is taken up."""

from dataclasses import replace

import numpy as np
import pytest

from gradveil.data.sources import load
from gradveil.deployment import conductor
from gradveil.deployment.conductor import Federation
from gradveil.deployment.journal import Journal
from gradveil.errors import BadInput
from gradveil.federation.engine import TooFew
from gradveil.methods import FED_SDP_CLIENT
from gradveil.runs import runner, store
from gradveil.runs.budget import Budget


@pytest.fixture
def plan(plan):
    """The tiny plan, on data that whoever takes the run up finds by its name."""
    return replace(plan, dataset="synthetic", rounds=3)


@pytest.fixture
def folder(tmp_path, plan):
    """A run folder of the tiny plan."""
    conductor.lay_out(plan, load("synthetic"), tmp_path / "run", Federation(nodes=("north", "east", "west")))
    return tmp_path / "run"


def taken_up(folder, federation, plan, tamper=None):
    """Take the run up over nodes in memory; `tamper` is what they do to west's answers."""
    over, grid = federation(replace(plan, minimum_cohort=6), dataset=load("synthetic"))
    run = conductor.open_run(grid, folder)
    run.engine, over.before = over, Journal(folder / conductor.JOURNAL).note
    if tamper is not None:
        grid.tamper["west"] = tamper
    return run


def silent(message, reply):
    return None


def test_attempts_at_the_first_round_are_counted_once_over_many_resumes(folder, federation, plan):
    for tries in (1, 2, 3):
        run = taken_up(folder, federation, plan, silent)
        run.may_retry = lambda state: False
        with pytest.raises(TooFew):
            list(runner.proceed(run))
        assert len(Journal(folder / conductor.JOURNAL).entries()) == tries
    run = taken_up(folder, federation, plan)
    list(runner.proceed(run))
    assert run.state.participations.sum() == 6 * (3 + 3)  # three failed attempts and three rounds
    assert len(run.budget.ledger(3, 1).releases) == 6


def test_a_torn_line_is_cut_and_the_journal_goes_on(tmp_path, plan, tiny):
    journal = Journal(tmp_path / "attempts.jsonl")
    journal.note(0, np.array([1, 2]))
    with journal.path.open("a") as file:
        file.write('{"round": 1, "cli')
    run_state = conductor.runner.server.init(plan, (12,), 3, conductor.runner.Keys.of(0, secret=False))
    state, tried = journal.recall(Budget(plan, tiny(), 1), run_state)
    assert (state.participations.sum(), tried) == (2, 1)
    journal.note(0, np.array([3]))
    assert [(t, clients.tolist()) for t, clients in journal.entries()] == [(0, [1, 2]), (0, [3])]


def test_epsilon_counts_only_the_noise_of_those_who_must_answer(plan, tiny):
    some = replace(plan, method=FED_SDP_CLIENT, cohort=6, minimum_cohort=3)
    fewer, all_of_them = conductor.budget_of(some, tiny()), Budget(some, tiny(), 1)
    for threat in ("central", "client-central"):
        epsilons = [
            next(g.epsilon for g in b.all_guarantees(2, 2) if g.threat_model == threat) for b in (fewer, all_of_them)
        ]
        assert epsilons[0] > epsilons[1] > 0


def test_whoever_finds_the_folder_held_does_nothing(folder, federation, plan):
    conductor.write_status(folder, "running", "by another")
    with store.locked(folder):
        conductor.conduct(None, folder)
    assert store.read_json(folder / conductor.STATUS)["sentence"] == "by another"


def test_a_journal_that_lost_an_attempt_is_refused_and_so_is_a_damaged_one(folder, federation, plan):
    run = taken_up(folder, federation, plan)
    list(runner.proceed(run))
    path = folder / conductor.JOURNAL
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:-1]))
    with pytest.raises(BadInput, match="has 0 attempts at round 2, but 1 were made"):
        taken_up(folder, federation, plan)
    path.write_text("".join([*lines, "{}\n"]))
    with pytest.raises(BadInput, match="is damaged, so what was released is not known"):
        taken_up(folder, federation, plan)
    path.write_text("".join(lines))
    taken_up(folder, federation, plan)
