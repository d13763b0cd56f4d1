"""Tables and sentences fit the terminal: COLUMNS decides, no word is broken, and no cell is lost."""

import json

import pytest

from gradveil.cli import output
from gradveil.cli.guarantee_output import show_guarantees
from gradveil.cli.main import main
from gradveil.runs.epsilon_records import GuaranteeRecord

ROWS = [["fed-cdp", "one-long-word", "3.03"], ["non-private", "another", "none"]]


@pytest.fixture
def columns(monkeypatch):
    return lambda count: monkeypatch.setenv("COLUMNS", str(count))


def test_a_table_is_as_wide_as_columns_allow(capsys, columns):
    columns(80)
    output.table("title", ["method", "word", "epsilon"], ROWS)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[3:]] == ROWS
    assert max(map(len, lines)) <= 80


def test_a_table_that_is_too_wide_becomes_a_list_without_a_lost_or_broken_cell(capsys, columns):
    columns(40)
    names = [f"column-{i}" for i in range(6)]
    output.table(None, names, [[f"unbreakable-{i}" for i in range(6)]])
    lines = capsys.readouterr().out.splitlines()
    assert lines == ["unbreakable-0", *(f"  column-{i}: unbreakable-{i}" for i in range(1, 6))]


def test_a_file_has_room_for_any_table(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    names = [f"column-{i}" for i in range(9)]
    output.table(None, names, [[f"unbreakable-{i}" for i in range(9)]])
    assert capsys.readouterr().out.splitlines()[-1].split() == [f"unbreakable-{i}" for i in range(9)]


@pytest.mark.parametrize("count", [40, 60, 80, 200])
def test_a_sentence_is_wrapped_between_words(capsys, columns, count):
    columns(count)
    text = "word " * 60 + "/a/path/that/is/longer/than/the/narrowest/terminal/of/all"
    output.say(text)
    out = capsys.readouterr().out
    assert out.split() == text.split()
    assert all(len(line) <= count or " " not in line for line in out.splitlines())


def test_text_with_brackets_is_printed_as_it_is(capsys):
    output.table(None, ["name"], [["runs/[bold]x[/bold]"]])
    assert "runs/[bold]x[/bold]" in capsys.readouterr().out


def held(threat, unit, epsilon, *caveats):
    return GuaranteeRecord(
        epsilon=epsilon,
        finite=epsilon is not None,
        delta=1e-5,
        unit=unit,
        threat_model=threat,
        adjacency="add-remove",
        sampling="poisson",
        accountant="pld",
        noise_source="secret",
        caveats=caveats,
    )


def test_adversaries_with_the_same_epsilon_share_a_row_and_a_reason_is_said_once(capsys, columns):
    columns(80)
    some = [held("central", "example", 3.031), held("server", "example", 3.034), held("type2-known", "example", 4.54)]
    none = [held("client-central", "client", None, "Why."), held("client-server", "client", None, "Why.")]
    show_guarantees("Guarantees", some + none)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[3:6]] == [
        "central, server",
        "type2-known",
        "client-central, client-server",
    ]
    assert [line.split()[-1] for line in lines[3:6]] == ["3.03", "4.54", "none"]
    assert lines[6:] == ["No finite epsilon against client-central, client-server: Why."]


VERBS = [
    ["list", "methods"],
    ["list", "attacks"],
    ["list", "threats"],
    ["list", "decays"],
    ["list", "datasets"],
    ["list", "tables"],
    ["data", "list"],
    ["table", "attack-comparison", "--scale", "smoke", "--minutes", "0"],
    ["account", "--sigma", "6", "--q", "0.1", "--steps", "4"],
    ["plan", "--target-epsilon", "2", "--q", "0.1", "--rounds", "20"],
]


@pytest.mark.parametrize("arguments", VERBS, ids=" ".join)
def test_every_table_fits_eighty_columns(capsys, columns, monkeypatch, tmp_path, arguments):
    columns(80)
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 3
    assert max(map(len, lines)) <= 80


HELP = [
    "run",
    "attack",
    "audit",
    "account",
    "plan",
    "predict",
    "export",
    "report",
    "serve",
    "table",
    "data fetch",
    "list",
    "federate key",
    "federate keys",
    "federate node",
    "federate roster",
    "federate server",
    "bench",
]


@pytest.mark.parametrize("verb", HELP)
def test_help_names_every_option_with_a_sentence_and_fits_eighty_columns(capsys, columns, verb):
    columns(80)
    assert main([*verb.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    assert " T. " not in out


SMALL = [
    "--dataset",
    "synthetic",
    "--clients",
    "4",
    "--cohort",
    "4",
    "--client-size",
    "40",
    "--batch",
    "4",
    "--local-steps",
    "3",
    "--rounds",
    "2",
]


@pytest.mark.parametrize("method", ["fed-cdp", "non-private", "fed-sdp", "quantile"])
def test_a_run_says_what_it_guarantees_in_eighty_columns_and_twenty_five_lines(
    capsys, columns, monkeypatch, tmp_path, method
):
    columns(80)
    monkeypatch.chdir(tmp_path)
    assert main(["run", *SMALL, "--method", method, "--out", "r"]) == 0
    said, complained = capsys.readouterr()
    assert complained == ""
    lines = said.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 25
    result = json.loads((tmp_path / "r" / "result.json").read_text())
    right = round(result["accuracy"] * result["test_examples"])
    assert f"{right} of {result['test_examples']} test examples right" in " ".join(said.split())
