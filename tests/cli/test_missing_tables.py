"""Tables whose data is not there, and what the page of all tables takes from earlier runs."""

import json
from dataclasses import replace

import pytest

from gradveil.cli import table
from gradveil.cli.main import main
from gradveil.data.sources import load
from gradveil.errors import BadInput
from gradveil.reproduction import scale
from gradveil.reproduction.table_catalog import TABLES


@pytest.fixture
def only_cancer(monkeypatch):
    """A desk scale that is done in seconds, on a machine that has no dataset but one."""

    def found(name, **options):
        if name != "cancer":
            raise BadInput(f"{name} is not at hand")
        return load(name)

    small = replace(scale.SCALES["smoke"], name="desk", stands_in=False)
    monkeypatch.setitem(scale.SCALES, "desk", small)
    monkeypatch.setattr(table, "load", found)


def test_what_has_its_data_is_filled_and_the_rest_named_in_one_sentence(capsys, tmp_path, only_cancer):
    code = main(["table", "privacy-fixed-rounds", "--scale", "desk", "--out", str(tmp_path), "--json"])
    said = capsys.readouterr()
    assert code == 2
    assert len(said.err.splitlines()) == 1
    for name in ("mnist", "cifar10", "lfw", "adult"):
        assert f"{name} is not at hand" in said.err
    cells = json.loads(said.out)["privacy-fixed-rounds"]
    by_data = {c["column"][0]: c for c in cells if c["row"] == ["fed-cdp", "accuracy"]}
    assert by_data["cancer"]["ours"] is not None
    assert {c["reason"] for name, c in by_data.items() if name != "cancer"} == {"data"}
    # Arithmetic needs no data.
    assert all(c["ours"] is not None for c in cells if c["row"][1] == "epsilon")


def test_the_page_shows_runs_of_the_papers_scale_that_are_on_the_shelf_and_runs_none(
    monkeypatch, tmp_path, only_cancer
):
    class Shelved:
        def __init__(self, workshop, chosen, seeds):
            assert chosen.name == "paper"

        def shelved(self, table):
            return [table.name]

    class Given:
        scale, workshop = scale.SCALES["desk"], None

    monkeypatch.setattr(table, "Driver", Shelved)
    ((name, _, filled, _),) = table._at_paper_scale(Given(), 1)
    assert (name, filled) == ("noise-scale at paper scale", ["noise-scale"])
    assert "noise-scale" in TABLES
