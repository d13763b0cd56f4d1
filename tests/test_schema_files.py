"""The JSON Schemas under docs/schemas are those of the records, and real output is valid by them."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gradveil.reports import card
from gradveil.schema import schema_text

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"
WRITTEN = runpy.run_path(str(FOLDER / "write.py"))
SCHEMAS = WRITTEN["SCHEMAS"]


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_file_is_what_the_dataclass_gives(name):
    assert (FOLDER / f"{name}.schema.json").read_text() == schema_text(SCHEMAS[name])


def test_the_schema_of_the_privacy_card_is_the_one_in_the_package():
    assert json.loads((FOLDER / "privacy-card.schema.json").read_text()) == card.schema()


def test_there_is_no_file_that_is_not_written_and_the_readme_names_each():
    names = {path.name for path in FOLDER.glob("*.json")}
    assert names == {f"{name}.schema.json" for name in (*SCHEMAS, *WRITTEN["SHIPPED"])}
    assert {name for name in names if f"| {name} |" in (FOLDER / "README.md").read_text()} == names


def test_the_table_on_standard_output_is_valid_and_a_cell_without_a_verdict_is_not(tmp_path):
    command = ["table", "datasets", "--scale", "smoke", "--minutes", "0", "--out", tmp_path, "--json"]
    done = subprocess.run([sys.executable, "-m", "gradveil", *map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["datasets"]
    validator = Draft202012Validator(json.loads((FOLDER / "cell.schema.json").read_text()))
    assert {c["verdict"] for c in cells} >= {"agrees", "not comparable"}  # the suite of tables has all three
    assert [error.message for c in cells for error in validator.iter_errors(c)] == []
    assert [e.message for e in validator.iter_errors(cells[0] | {"verdict": "perhaps"})] != []
