"""The page of results is what the committed records give, and says what is left."""

from pathlib import Path

import pytest

from gradveil.cli.main import main
from gradveil.methods import FED_CDP
from gradveil.reproduction.cell import Cell, Measurement, fill
from gradveil.reproduction.jobs import TrainingJob
from gradveil.reproduction.results_page import Section, results
from gradveil.reproduction.scale import SCALES
from gradveil.reproduction.summary import causes, steps_left, tally, verdicts

ROOT = Path(__file__).parents[2]


def cell(column, published="0.9", reason=None, job=None, row=("fed-cdp", "accuracy")):
    return Cell(row=row, column=(column,), published=published, job=job, measure="accuracy", reason=reason)


@pytest.mark.slow
def test_the_page_in_the_documents_is_what_the_records_give(tmp_path, capsys):
    assert main(["table", "all", "--docs", str(tmp_path), "--records", str(ROOT / "results" / "records")]) == 0
    written = (tmp_path / "results.md").read_text()
    assert written == (ROOT / "docs" / "results.md").read_text()
    assert "results.md" in capsys.readouterr().out


def test_without_records_there_is_no_page_but_a_sentence(tmp_path, capsys):
    assert main(["table", "datasets", "--docs", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_cells_are_counted_by_what_can_be_compared_at_all():
    cells = [
        fill(cell("mnist"), Measurement(0.9, 0.01, 3)),
        fill(cell("lfw"), Measurement(0.5, 0.01, 3)),
        fill(cell("adult"), None, "time"),
        fill(cell("cancer", published=None), Measurement(0.5, 0.01, 3)),
        fill(cell("cifar10", reason="machine"), Measurement(0.5, 0.01, 3)),
    ]
    counted = tally("t", cells)
    assert (counted.comparable, counted.agree, counted.differ, counted.left) == (3, 1, 1, 1)


def test_what_is_left_to_train_is_told_once_a_plan_in_steps_of_its_clients():
    plan = SCALES["paper"].plan("cancer", FED_CDP)
    cells = [fill(cell(name, job=TrainingJob(plan)), None, "time") for name in ("a", "b")]
    done = fill(cell("c", job=TrainingJob(SCALES["paper"].plan("adult", FED_CDP))), Measurement(0.9, 0.01, 3))
    assert steps_left([("t", [*cells, done])]) == {"cancer": (1, plan.rounds * plan.cohort * plan.local_steps)}


def test_columns_without_a_figure_are_left_out_and_a_table_without_any_is_a_sentence():
    cells = [fill(cell("mnist"), Measurement(0.5, 0.01, 3)), fill(cell("lfw"), None, "time")]
    page = results([Section("some", "title", cells, ()), Section("none", "title", cells[1:], ())], {})
    table = page.partition("## some")[2].partition("## none")[0]
    assert "| mnist |" in table
    assert "lfw" not in table
    assert "left out: columns without any record, 1 cells" in table
    assert "none of its 1 cells has a record" in page


@pytest.mark.parametrize(("row", "column", "cause"), [("fed-cdp", "cancer", "noise of"), ("x", "y", "not known")])
def test_differences_are_counted_by_their_cause(row, column, cause):
    differing = fill(cell(column, row=(row, "accuracy")), Measurement(0.5, 0.01, 3))
    ((told, n),) = causes([("privacy-fixed-rounds", [differing])])
    assert told.startswith(cause)
    assert n == 1


def test_conclusions_are_listed_by_their_verdict():
    claim = Cell(
        row=("c",), column=("verdict",), published="holds", job=None, measure="claim", interpretation="it wins"
    )
    assert verdicts([fill(claim, Measurement("fails"))]) == {"holds": [], "fails": ["c: it wins"], "undecided": []}
