"""The list of runs reads each run once, and none of what its attacks have to show."""

import shutil

import pytest

from gradveil.reports.exhibits import Exhibit
from gradveil.web import summaries
from gradveil.web.run_processes import Runs
from gradveil.web.status import thinned
from gradveil.web.summaries import Summaries


@pytest.fixture
def reads(monkeypatch):
    """The folders that were really read, in order."""
    folders, real = [], summaries.gather

    def counted(folder, exhibits):
        folders.append(folder.name)
        return real(folder, exhibits=exhibits)

    monkeypatch.setattr(summaries, "gather", counted)
    monkeypatch.setattr(Exhibit, "load", lambda path: pytest.fail(f"{path} was read"))
    return folders


@pytest.fixture
def root(trained, tmp_path):
    for name in ("one", "two"):
        shutil.copytree(trained / name, tmp_path / name)
    return tmp_path


def test_a_list_reads_only_runs_that_changed(root, reads):
    runs = Runs(root)
    first = runs.listed()
    assert runs.listed() == first
    assert sorted(reads) == ["one", "two"]
    (root / "two" / "result.json").unlink()
    told = {status["name"]: status["state"] for status in runs.listed()}
    assert told == {"one": "finished", "two": "stopped"}
    assert sorted(reads) == ["one", "two", "two"]


def test_what_is_kept_is_bounded(root, reads):
    few = Summaries(most=1)
    for name in ("one", "two", "two", "one"):
        few.of(root / name)
    assert reads == ["one", "two", "one"]


def test_a_list_says_epsilon_in_a_word_with_whom_it_holds_against_and_a_date(root):
    (status,) = [status for status in Runs(root).listed() if status["name"] == "one"]
    assert float(status["short_epsilon"]) == pytest.approx(status["order_epsilon"], rel=0.01)
    assert status["short_against"] == "server, one example"
    assert status["date"][:2] == "20"
    assert status["spending"][-1] == (2, status["order_epsilon"])
    assert [round for round, _ in status["noise"]] == [1, 2]


def test_a_long_curve_is_thinned_and_keeps_its_ends():
    points = [(t, t / 7) for t in range(1, 4001)]
    few = thinned(points)
    assert (len(few), few[0], few[-1]) == (200, points[0], points[-1])
    assert thinned(points[:5]) == points[:5]
