"""Every table by the command line at smoke scale: laid out, filled, written, resumed after a kill, and refused well."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from gradveil.reproduction.cell import REASONS
from gradveil.reproduction.scale import SCALES
from gradveil.reproduction.table_names import TABLES, lay_out

SCHEMAS = Path(__file__).parents[2] / "docs" / "schemas"
pytestmark = pytest.mark.tables
KILLED = "privacy-fixed-rounds"
VERDICTS = {"agrees", "differs", "not comparable"}


def gradveil(*arguments, env=None):
    command = [sys.executable, "-m", "gradveil", "table", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **(env or {})})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.fixture(scope="module")
def everything(folder):
    done = gradveil("all", "--scale", "smoke", "--out", folder, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", TABLES)
def test_every_cell_is_there_and_has_a_verdict(everything, name):
    cells, laid = everything[name], lay_out(name, SCALES["smoke"])
    assert [(tuple(c["row"]), tuple(c["column"])) for c in cells] == [(c.row, c.column) for c in laid.cells]
    for cell in cells:
        assert cell["verdict"] in VERDICTS
        assert (cell["reason"] in REASONS) == (cell["verdict"] == "not comparable")
        left_out = cell["measure"] == "which of 10" or cell["reason"] == "not run"
        assert left_out or cell["ours"] is not None


def test_nothing_that_was_trained_or_attacked_small_is_compared(everything):
    compared = [c for cells in everything.values() for c in cells if c["verdict"] != "not comparable"]
    assert compared
    assert {c["measure"] for c in compared} == {"value", "claim"}  # arithmetic, sizes and settings, claims about them
    claims = {c["row"][0] for c in compared if c["measure"] == "claim"}
    assert claims == {"same epsilon", "smaller epsilon than Fed-SDP"}


def test_every_cell_is_valid_by_the_published_schema(everything):
    schema = json.loads((SCHEMAS / "cell.schema.json").read_text())
    validator = Draft202012Validator(schema)
    assert [error.message for cells in everything.values() for c in cells for error in validator.iter_errors(c)] == []


@pytest.mark.parametrize("name", TABLES)
def test_each_table_is_written_in_all_formats(folder, everything, name):
    files = {ending: (folder / "smoke" / f"{name}.{ending}").read_text() for ending in ("md", "csv", "json", "tex")}
    assert json.loads(files["json"]) == {name: everything[name]}
    assert len(list(csv.DictReader(io.StringIO(files["csv"])))) == len(everything[name])
    assert "\\begin{tabular}" in files["tex"]
    assert files["md"].count("|") > len(everything[name])


def test_the_page_of_all_results_names_every_table_and_every_cell_that_differs(folder, everything):
    page = (folder / "smoke" / "results.md").read_text()
    assert all(f"## {name}" in page for name in TABLES)
    closing = page.split("## Cells that do not reproduce")[1]
    differing = sum(c["verdict"] == "differs" for cells in everything.values() for c in cells)
    assert closing.count("\n- ") == differing > 0


def records(folder):
    return {path.name: path.stat().st_mtime_ns for path in (folder / "records").iterdir()}


def test_a_second_call_computes_nothing_again(folder, everything):
    before = records(folder)
    again = gradveil("all", "--scale", "smoke", "--out", folder, "--json")
    assert json.loads(again.stdout) == everything
    assert records(folder) == before


def test_every_table_fits_eighty_columns(folder, everything):
    shown = gradveil("all", "--scale", "smoke", "--out", folder, env={"COLUMNS": "80"})
    lines = shown.stdout.splitlines()
    assert len(lines) > 10 * len(TABLES)
    assert max(map(len, lines)) <= 80


def test_a_killed_table_goes_on_and_gives_the_same(tmp_path, everything):
    command = [sys.executable, "-m", "gradveil", "table", KILLED, "--scale", "smoke", "--out", tmp_path]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 300
    while len(list((tmp_path / "records").glob("*.json"))) < 5 and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = records(tmp_path)
    assert process.returncode == -signal.SIGKILL, "the table must be killed while it is filled"
    done = gradveil(KILLED, "--scale", "smoke", "--out", tmp_path, "--json")
    assert json.loads(done.stdout)[KILLED] == everything[KILLED]
    assert kept.items() < records(tmp_path).items()


def test_without_data_stand_ins_are_used_and_never_compared(tmp_path):
    nowhere = {"GRADVEIL_DATA": str(tmp_path / "none"), "GRADVEIL_CACHE": str(tmp_path / "cache")}
    done = gradveil("datasets", "--scale", "smoke", "--out", tmp_path / "out", "--json", env=nowhere)
    assert done.returncode == 0, done.stderr
    cells = json.loads(done.stdout)["datasets"]
    from_data = [c for c in cells if c["row"][0] in ("training", "classes") and c["column"][0] in ("mnist", "lfw")]
    assert {c["reason"] for c in from_data} == {"stand-in"}
    shown = gradveil("datasets", "--scale", "smoke", "--out", tmp_path / "out", env=nowhere).stdout.split()
    assert "synthetic examples of the same shape were used instead" in " ".join(shown)
    settings = [c for c in cells if c["row"][0] in ("batch", "rounds")]
    assert {c["verdict"] for c in settings} == {"agrees"}


def test_without_stand_ins_what_has_its_data_is_filled_and_the_rest_named_in_one_sentence(tmp_path):
    nowhere = {"GRADVEIL_DATA": str(tmp_path / "none"), "GRADVEIL_CACHE": str(tmp_path / "cache")}
    proxies = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
    unreachable = {**dict.fromkeys(proxies, "http://127.0.0.1:9"), "no_proxy": "", "NO_PROXY": ""}
    # npm and pip would answer from what they downloaded before, without any network.
    forgotten = {"npm_config_cache": str(tmp_path / "npm"), "PIP_NO_CACHE_DIR": "1"}
    env = {**nowhere, **unreachable, **forgotten, "SCIKIT_LEARN_DATA": str(tmp_path / "none")}
    folders = ("--out", tmp_path / "out", "--records", tmp_path / "none")
    done = gradveil("datasets", "--scale", "desk", *folders, "--json", env=env)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    for name in ("mnist", "cifar10", "lfw", "adult"):
        assert f"the dataset {name} was not found" in done.stderr
    cells = {(*c["row"], *c["column"]): c for c in json.loads(done.stdout)["datasets"]}
    assert cells["accuracy", "cancer"]["verdict"] == "agrees"  # trained whole, three times
    assert cells["training", "cancer"]["verdict"] == "agrees"
    for name in ("mnist", "cifar10", "lfw", "adult"):
        assert {cells[row, name]["reason"] for row in ("training", "accuracy")} == {"data"}
        assert cells["batch", name]["verdict"] == "agrees"  # a setting needs no data


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nonsense",), "table = 'nonsense': must be one of"),
        (("datasets", "--scale", "huge"), "scale = 'huge': must be one of"),
        (("datasets", "--seeds", "0"), "seeds = 0: must be at least 1"),
        (("datasets", "--out", "{file}/below"), "cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path, arguments, says):
    file = tmp_path / "file"
    file.touch()
    done = gradveil(*(a.format(file=file) for a in arguments))
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout
