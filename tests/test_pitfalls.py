"""docs/pitfalls.md: every function that it names is refuted, the sound one is not, and its commands are understood."""

import re
import shlex
from pathlib import Path

import pytest
import typer
from examples import pitfalls

from gradveil.auditing.outside import Outside, audit_outside
from gradveil.cli.main import app
from gradveil.names import METHODS

PAGE = (Path(__file__).parents[1] / "docs" / "pitfalls.md").read_text()
NAMED = set(re.findall(r"examples\.pitfalls:(\w+)", PAGE))
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]


def verdict(name):
    outside = Outside(name=name, mechanism=getattr(pitfalls, name), noise_multiplier=pitfalls.Z, releases=400)
    return audit_outside(outside).verdict


@pytest.mark.parametrize("name", sorted(NAMED - {"sound"}))
def test_a_pitfall_is_refuted(name):
    assert verdict(name) == "refuted"


def test_the_sound_mechanism_is_consistent():
    assert verdict("sound") == "consistent"


def test_every_mechanism_of_the_example_is_on_the_page():
    made = {name for name, value in vars(pitfalls).items() if callable(value) and hasattr(value, "__code__")}
    assert made - {"clipped", "noise"} == NAMED


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_of_the_page_has_options_that_exist(command):
    _, verb, *words = shlex.split(command)
    known = {name for p in typer.main.get_command(app).get_command(None, verb).params for name in p.opts}
    assert {word for word in words if word.startswith("--")} <= known
    assert words[0].startswith("--") or words[0] in METHODS


def test_every_pitfall_has_a_severity_and_says_what_is_done():
    sections = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]
    assert len(sections) == len(re.findall(r"^\| \[", PAGE, re.MULTILINE)) >= 12
    for section in sections:
        assert re.search(r"\*\*(Fatal|Serious|Silent)\.\*\*", section), section[:40]
        assert "*gradveil*" in section, section[:40]
        assert "gradveil audit" in section or "**Silent.**" in section, section[:40]
