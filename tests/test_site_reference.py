"""The site's reference has everything that the code has: verbs and options, keys, records, public names and so on."""

import dataclasses
import doctest
import json
import re
from importlib import import_module
from pathlib import Path

import pytest
from tools.site import files, named, pages, python_api, records, root_files, verbs
from tools.site.part_keys import PARTS
from tools.site.plan_keys import PLAN

import gradveil
from gradveil import names
from gradveil.cli import main as entry
from gradveil.cli.main import main
from gradveil.cli.run_steps import plans_from
from gradveil.data.table_schema import COLUMNS, TARGETS, Schema
from gradveil.deployment.policy import Policy
from gradveil.federation.plan import Plan
from gradveil.privacy.adaptive import CLIPS
from gradveil.runs.shorthand import Tweaks

ROOT = Path(__file__).parents[1]


def section(page, title):
    """Give what stands below a heading, up to the next."""
    return re.split(r"^#+ ", page.split(f"# {title}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


@pytest.fixture(scope="module")
def verb_page():
    return verbs.page()


@pytest.mark.parametrize("name", verbs.commands())
def test_a_verb_has_the_options_that_its_help_shows(name, verb_page, capsys):
    assert main([*name.split(), "--help"]) == 0
    shown = set(re.findall(r"^│ \*?\s{0,4}(--[a-z-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help"}
    told = set(re.findall(r"`(--[a-z-]+)`", section(verb_page, f"gradveil {name}")))
    assert shown <= told, shown - told


def test_a_default_is_shown_as_a_word_or_as_the_value(verb_page):
    account = section(verb_page, "gradveil account")
    assert re.search(r"\| `--delta` `FLOAT` \| `1e-05` \|", account)
    assert re.search(r"\| `--threat-model` `TEXT` \| all \|", account)
    assert re.search(r"\| `--sigma` `FLOAT` \| required \|", account)


def test_the_exit_codes_are_those_that_the_entry_point_and_the_readme_name():
    told = {int(code) for code in re.findall(r"\b(\d+)\b", entry.entry.__doc__.split("\n")[0])}
    readme = (ROOT / "README.md").read_text().split("Exit codes:")[1][:260]
    assert set(verbs.EXIT_CODES) == told == {int(code) for code in re.findall(r"\b(0|1|2|130) ", readme)}


@pytest.mark.parametrize(("cls", "title"), [(Plan, "plan.toml"), (Policy, "policy.toml"), (Schema, "schema.toml")])
def test_every_key_of_a_file_has_a_row(cls, title):
    below = section(files.page(), title)
    for field in dataclasses.fields(cls):
        assert f"| `{field.name}` |" in below, field.name


def test_every_key_of_a_plan_a_policy_and_a_part_has_a_sentence_and_none_is_told_that_is_not_there():
    assert list(PLAN) == [field.name for field in dataclasses.fields(Plan)]
    assert set(files.policy_meanings()) == {field.name for field in dataclasses.fields(Policy)}
    parts = {part.__name__: part for part in (*files.parts(Plan), Schema, *files.parts(Schema))}
    keyed = {name: [field.name for field in dataclasses.fields(part)] for name, part in parts.items()}
    assert {name: list(told) for name, told in PARTS.items()} == {name: keys for name, keys in keyed.items() if keys}


@pytest.mark.parametrize("title", ["schema.toml", "Method", "Flat", "DateColumn", "SecureSum"])
def test_the_sentences_stand_in_the_table(title):
    below = section(files.page(), title)
    head, _, *rows = [line for line in below.splitlines() if line.startswith("|")]
    assert head == "| key | value | default | meaning |"
    assert all(re.search(r"\| [A-Z`][^|]+\. \|$", row) for row in rows), rows


def test_a_key_of_a_plan_that_a_preset_gives_is_not_called_required():
    below = section(files.page(), "plan.toml")
    assert "| required |" not in below
    for key in ("clients", "learning_rate", "model", "sampling"):
        assert re.search(rf"^\| `{key}` \| [^|]+ \| preset \|", below, re.MULTILINE), key
    assert re.search(r"^\| `dataset` \| text \| `'digits'` \|", below, re.MULTILINE)
    assert re.search(r"^\| `client_rates` \| a list: number \| none \| Probability", below, re.MULTILINE)


def test_a_plan_file_without_the_keys_of_a_preset_is_read(tmp_path):
    (tmp_path / "plan.toml").write_text('rounds = 2\nmodel = { kind = "Mlp", hidden = [8] }\n')
    (plan,) = plans_from(tmp_path / "plan.toml", {}, Tweaks(), None)
    assert (plan.dataset, plan.method.name, plan.clients, plan.rounds) == ("digits", "fed-cdp", 10, 2)


def test_every_part_that_a_file_can_name_has_its_keys():
    page = files.page()
    for part in (*CLIPS, *COLUMNS, *TARGETS):
        below = section(page, part.__name__)
        assert all(f"| `{field.name}` |" in below for field in dataclasses.fields(part)), part


def test_every_key_of_every_schema_has_a_row():
    page = records.page()
    for path in (ROOT / "docs" / "schemas").glob("*.json"):
        schema = json.loads(path.read_text())
        for key in schema["properties"]:
            assert f"| `{key}` |" in section(page, schema["title"]), (path.name, key)


def test_the_page_of_schemas_says_what_a_card_holds_below_its_first_keys():
    page = records.page()
    run = section(page, "gradveil privacy card: run")
    assert re.search(r"^\| `noise_source` \| \"seeded\" or \"secret\" \| yes \|", run, re.MULTILINE)
    assert re.search(r"^\| `accuracy` \| number or null \| yes \|", run, re.MULTILINE)
    assert re.search(r"^\| `data_sha256` \| digest or null \| yes \|", run, re.MULTILINE)
    assert "| `epsilon` | number or null | yes |" in section(page, "gradveil privacy card: guarantees")


def test_every_public_name_is_described():
    page = python_api.page()
    for name in set(gradveil.__all__) - {"__version__", "methods", "parts"}:
        assert len(section(page, f"gradveil.{name}").split()) > 5, name
    for name in gradveil.parts.__all__:
        assert f"parts.{name}\n" in page or f"gradveil.{name}\n" in page, name


def test_a_signature_says_what_can_be_given_by_position_and_what_by_name_alone():
    told = section(python_api.page(), "gradveil.audit")
    assert "levels: tuple[str, ...] = ('replay', 'mechanism'),\n    *,\n    confidence: float = 0.95," in told


def test_every_method_and_every_adversary_is_named():
    page = named.page()
    assert all(page.count(f"| `{method}` |") == 2 for method in names.METHODS)
    assert all(f"| `{threat}` |" in page for threat in names.THREATS)
    assert all(f"| `{attack}` |" in page for attack in names.ATTACKS)


def test_pages_are_written_once_and_left_alone_if_they_did_not_change(tmp_path):
    pages.write(tmp_path)
    assert {path.stem for path in tmp_path.iterdir()} == set(pages.PAGES)
    (tmp_path / "verbs.md").write_text("old")
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    pages.write(tmp_path)
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    assert [name for name in before if before[name] != after[name]] == ["verbs.md"]


@pytest.mark.parametrize("name", ["markdown", "records", "root_files", "epsilon_table", "leak_frames"])
def test_the_examples_of_a_tool_hold(name):
    ran = doctest.testmod(import_module(f"tools.site.{name}"))
    assert (ran.attempted > 0, ran.failed) == (True, 0)


def test_links_of_the_root_lead_to_pages():
    assert "](docs/" not in root_files.contributing()
    assert "](../architecture.md)" in root_files.contributing()
