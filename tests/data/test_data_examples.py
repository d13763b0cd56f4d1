"""The example scripts about data run as they stand, and end where they say."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def carried_out(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()


@pytest.mark.slow
def test_a_csv_with_a_schema_is_trained_on_and_new_rows_are_read(capsys):
    accuracy, epsilon = carried_out("csv_with_schema")
    assert accuracy > 0.75
    assert 0 < epsilon <= 4
    said = capsys.readouterr().out
    assert "readmitted: yes\nreadmitted: no" in said
    assert "private records themselves" not in said


@pytest.mark.slow
def test_hospitals_of_different_size_all_train():
    accuracy, held = carried_out("hospitals")
    assert accuracy > 0.75
    assert sum(held.values()) == 975
    assert held["city"] > 20 * held["island"]
