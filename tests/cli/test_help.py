"""What help looks like: options in panels, paragraphs that flow, what is required is marked, a slip is recognized."""

import re
from itertools import pairwise

import pytest
import typer

from gradveil.cli.main import app, main
from gradveil.cli.verbs import HIDDEN, VERBS

FEW = 4
"""Options of a verb that need no panels."""


def commands():
    """Every verb that help shows, by its words."""
    group = typer.main.get_command(app)
    for name in VERBS:
        if name not in HIDDEN:
            verb = group.get_command(None, name)
            yield name, verb
            yield from ((f"{name} {below}", one) for below, one in getattr(verb, "commands", {}).items())


COMMANDS = dict(commands())


def options(command):
    return [p for p in command.params if p.param_type_name == "option" and not p.hidden and p.name != "help"]


@pytest.mark.parametrize("name", [name for name, one in COMMANDS.items() if len(options(one)) > FEW])
def test_many_options_are_grouped_in_panels(name):
    assert [p.opts[0] for p in options(COMMANDS[name]) if p.rich_help_panel is None] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_paragraphs_of_help_flow(name):
    paragraphs = (COMMANDS[name].help or "").split("\n\n")
    assert [text for text in paragraphs if "\n" in text.strip()] == []


def test_a_paragraph_fills_the_lines_of_a_terminal(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["bench", "--help"]) == 0
    about = [line.strip() for line in capsys.readouterr().out.split("╭")[0].splitlines() if line.strip()][2:]
    assert len(about) > 2
    assert [line for line, after in pairwise(about) if len(line) + 1 + len(after.split()[0]) <= 78] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_offers_no_shell_completion_and_says_required_only_by_its_mark(name, capsys):
    assert main([*name.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "completion" not in shown
    assert "Required." not in shown


@pytest.mark.parametrize(
    ("command", "option", "why"),
    [
        (["federate", "keys", "keys"], "--nodes", "Public keys"),
        (
            ["federate", "node", "--data", "digits", "--server", "a:1", "--key", "k", "--ca", "c"],
            "--policy",
            "`gradveil federate policy` writes one",
        ),
        (["federate", "server", "plan.toml", "--nodes", "a"], "--out", "Run folder"),
        (["account", "--q", "0.1"], "--sigma", "Noise scale"),
    ],
)
def test_an_option_that_is_required_is_asked_for_in_a_sentence_that_says_what_it_is(command, option, why, capsys):
    assert next(p for p in COMMANDS[" ".join(command[:2] if command[0] == "federate" else command[:1])].params
                if option in p.opts).required  # fmt: skip
    assert main(command) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert re.match(rf"gradveil: Missing option '{option}' \(", said)
    assert why in said


@pytest.mark.parametrize(
    ("typed", "meant"),
    [(["rnu"], "run"), (["acount"], "account"), (["data", "lst"], "list"), (["federate", "serer"], "server")],
)
def test_a_mistyped_verb_gets_a_suggestion(typed, meant, capsys):
    assert main(typed) == 2
    assert capsys.readouterr().err == f"gradveil: No such command '{typed[-1]}'. Did you mean '{meant}'?\n"


def test_what_resembles_no_verb_or_a_hidden_one_gets_no_suggestion(capsys):
    for word in ("zzz", "superlnk"):
        assert main([word]) == 2
        assert capsys.readouterr().err == f"gradveil: No such command '{word}'.\n"
