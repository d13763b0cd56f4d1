"""From a table to a schema, a run without caveats, and a table of its clients, by the command line."""

import json

import pytest

from gradveil.cli.main import main
from gradveil.data.schema_text import read_schema
from gradveil.data.table_schema import NumberColumn
from gradveil.runs import store

HEADER = "age,ward,hospital,sick"
SMALL = ["--rounds", "2", "--local-steps", "1", "--seed", "1"]


def _table(path, rows=120, broken=""):
    lines = [
        f"{20 + i % 50},{'abc'[i % 3]},{'north' if i % 4 else 'south'},{'no' if i % 5 < 2 else 'yes'}"
        for i in range(rows)
    ]
    path.write_text("\n".join([HEADER, *lines, *([broken] if broken else [])]) + "\n")
    return str(path)


@pytest.fixture
def drafted(tmp_path, capsys):
    """A table, and the schema that its owner made public."""
    place = _table(tmp_path / "t.csv")
    assert main(["data", "schema", place, "--target", "sick"]) == 0
    text = capsys.readouterr().out
    (tmp_path / "schema.toml").write_text(text.replace("public = false", "public = true").replace("69.0", "120"))
    return place, str(tmp_path / "schema.toml")


def test_data_show_tells_how_each_column_is_read_and_what_it_costs(tmp_path, capsys):
    place = _table(tmp_path / "t.csv")
    assert main(["data", "show", place, "--target", "sick", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["rows"], answer["features"], answer["classes"]) == (120, 6, {"no": 48, "yes": 72})
    assert [(c["name"], c["kind"], c["features"]) for c in answer["columns"]] == [
        ("age", "number", 1),
        ("ward", "category", 3),
        ("hospital", "category", 2),
    ]
    assert main(["data", "show", place, "--target", "sick"]) == 0
    said = capsys.readouterr().out
    assert "20 to 69" in said
    assert "2 classes (no 48, yes 72)" in said


def test_data_show_takes_the_last_column_for_the_target_as_data_schema_does(tmp_path, capsys):
    place = _table(tmp_path / "t.csv")
    assert main(["data", "show", place, "--json"]) == 0
    answer = capsys.readouterr()
    shown = json.loads(answer.out)
    assert (shown["target"], shown["features"], shown["classes"]) == ("sick", 6, {"no": 48, "yes": 72})
    assert "target: the last column, sick; name another one with --target" in answer.err


def test_whole_numbers_that_are_drafted_as_classes_carry_a_hint(tmp_path, capsys):
    place = _table(tmp_path / "t.csv")
    assert main(["data", "schema", place, "--target", "age"]) == 0
    text = capsys.readouterr().out
    assert '# "age" has 50 classes that are numbers: if it is a quantity, write kind = "number", low and high' in text
    (tmp_path / "s.toml").write_text(text)
    assert len(read_schema(tmp_path / "s.toml").target.classes) == 50
    assert main(["data", "show", place, "--target", "age"]) == 0
    assert 'with kind = "number"' in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_run_by_a_public_schema_has_no_caveat_about_the_data_and_keeps_the_schema(drafted, tmp_path, capsys):
    place, schema = drafted
    command = ["run", "--dataset", place, "--target", "sick", "--schema", schema, *SMALL, "--json"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert not [c for g in answer["guarantees"] for c in g["caveats"] if "private records themselves" in c]
    kept = store.read_plan(tmp_path / "run").schema
    assert kept == read_schema(tmp_path / "schema.toml")
    assert NumberColumn("age", 20, 120) in kept.columns


def test_a_run_names_its_clients_with_examples_rounds_and_epsilon(tmp_path, capsys):
    command = [
        "run",
        "--dataset",
        _table(tmp_path / "t.csv"),
        "--target",
        "sick",
        "--client-column",
        "hospital",
        *SMALL,
    ]
    assert main([*command, "--out", str(tmp_path / "run"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [c["name"] for c in answer["clients"]] == ["north", "south"]
    assert sum(c["examples"] for c in answer["clients"]) == 90
    assert {c["participations"] for c in answer["clients"]} == {2}
    epsilon = next(g["epsilon"] for g in answer["guarantees"] if g["threat_model"] == "server")
    assert max(c["epsilon"] for c in answer["clients"]) == epsilon
    assert any("how many examples each has" in c for c in answer["guarantees"][0]["caveats"])


def test_rows_of_another_file_are_tested_on(drafted, tmp_path, capsys):
    place, schema = drafted
    other = _table(tmp_path / "test.csv", rows=30)
    command = ["run", "--dataset", place, "--schema", schema, "--test", other, *SMALL, "--dry-run", "--json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out)["plan"]["test"] == str(tmp_path / "test.csv")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["run", "--dataset", "{table}", "--schema", "{folder}/no.toml"], "no.toml': cannot be read (No such file"),
        (["run", "--dataset", "digits", "--schema", "{schema}"], "digits is a built-in dataset"),
        (["run", "--dataset", "{broken}", "--schema", "{schema}"], "line 122 of {broken} has 'd' in the column 'ward'"),
        (["run", "--dataset", "{table}", "--schema", "{schema}", "--target", "age"], "the schema predicts 'sick'"),
        (["run", "--dataset", "{table}", "--target", "sick", "--test", "{table}"], "are encoded by a schema"),
        (["run", "--dataset", "{table}", "--target", "sick", "--client-column", "city"], "client_column = 'city'"),
        (["run", "--dataset", "digits", "--client-column", "city"], "client_column: is only for tables"),
        (
            ["run", "--dataset", "{table}", "--target", "sick", "--client-column", "hospital", "--clients", "3"],
            "clients: is given by the data",
        ),
        (["data", "show", "{folder}/none.csv"], "none.csv does not exist"),
        (["data", "show", "{folder}"], "{folder} is no table: a .csv, .parquet, .arrow or .feather file is expected"),
        (["run", "--dataset", "{folder}", "--schema", "{schema}"], "schema: is only for tables; {folder} is none"),
        (
            ["run", "--dataset", "{table}", "--schema", "{schema}", "--client-column", "sick"],
            "client_column = 'sick': is the column to predict",
        ),
        (
            ["run", "--dataset", "{table}", "--target", "sick", "--client-column", "sick"],
            "client_column = 'sick': is the column to predict",
        ),
        (["data", "show", "{table}", "--target", "city"], "has no column 'city'"),
        (["data", "schema", "{schema}"], "is neither a .csv"),
    ],
)
def test_what_cannot_be_done_is_one_sentence_and_exit_code_2(drafted, tmp_path, capsys, options, said):
    place, schema = drafted
    names = {"table": place, "schema": schema, "folder": tmp_path}
    names["broken"] = _table(tmp_path / "broken.csv", broken="30,d,north,no")
    assert main([option.format(**names) for option in options]) == 2
    assert said.format(**names) in " ".join(capsys.readouterr().err.split())
