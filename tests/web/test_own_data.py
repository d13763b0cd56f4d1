"""Which files of the user a page may train on: those below the folder that the server was given, and no others."""

import json
import os

import numpy as np
import pytest
from starlette.testclient import TestClient

from gradveil.errors import BadInput
from gradveil.web.app import make
from gradveil.web.guard import FORM_HEADER, Rules
from gradveil.web.own_data import OwnData
from gradveil.web.run_processes import Runs

HOST = "127.0.0.1:8765"


@pytest.fixture
def folder(tmp_path):
    """A folder of data with a table, and a file and a link beside it that lead out."""
    root = tmp_path / "data"
    root.mkdir()
    rng = np.random.default_rng(0)
    rows = [f"{a:.3f},{b:.3f},{'yes' if a + b > 0 else 'no'}" for a, b in rng.normal(size=(300, 2))]
    for place in (root, tmp_path):
        (place / "table.csv").write_text("\n".join(["a,b,outcome", *rows]))
    (root / "out.csv").symlink_to(tmp_path / "table.csv")
    (root / "notes.txt").write_text("no data")
    return root


def test_built_in_names_stay_and_files_of_the_folder_become_paths(folder):
    data = OwnData(folder)
    assert data.dataset("digits") == "digits"
    assert data.dataset("table.csv") == str(folder / "table.csv")
    assert data.dataset(str(folder / "table.csv")) == str(folder / "table.csv")


@pytest.mark.parametrize(
    "name", ["../table.csv", "/etc/passwd", "out.csv", "none.csv", "x" * 5000, "a\0b", "", ".", "..", 3, None, {}]
)
def test_what_is_not_below_the_folder_is_refused_whether_it_exists_or_not(folder, name):
    for data in (OwnData(folder), OwnData()):
        with pytest.raises(BadInput, match="a page can only start runs on built-in datasets"):
            data.dataset(name)


def test_only_what_can_be_trained_on_is_listed(folder):
    (folder / "below").mkdir()
    (folder / "below" / "x.npz").write_bytes(b"")
    os.rename(folder / "notes.txt", os.fsencode(folder) + b"/odd\xff.csv")
    listed = OwnData(folder).listed()
    assert {"table.csv", "below/x.npz"} <= set(listed)
    assert all(name.isprintable() for name in listed)
    assert OwnData().listed() == []


def test_the_form_forecasts_a_plan_on_a_file_of_the_folder_and_on_no_other(folder, tmp_path):
    rules = Rules(frozenset({HOST}))
    asked = TestClient(make(Runs(tmp_path, OwnData(folder)), rules), base_url=f"http://{HOST}")
    asked.get(f"/?token={rules.token}", follow_redirects=False)
    page = asked.get("/new").text
    assert "<option>table.csv</option>" in page
    assert 'id="own"' in page

    def forecast(**form):
        return asked.post("/api/epsilon", json=form, headers={FORM_HEADER: rules.form})

    told = forecast(own="table.csv", target="outcome").json()
    assert told["settings"]["clients"] == "2"
    assert told["settings"]["target"] == "outcome"
    assert told["epsilon"] > 0
    for form in ({"own": "../table.csv"}, {"own": "out.csv"}, {"plan": 'dataset = "/etc/passwd"'}):
        answer = forecast(**form)
        assert answer.status_code == 400
        assert "only start runs on built-in datasets" in answer.json()["error"]
    held_out = {"own": "table.csv", "plan": f"test = {json.dumps(str(tmp_path / 'table.csv'))}"}
    assert "test = " in forecast(**held_out).json()["error"]
    assert "schema = " in forecast(own="table.csv", schema="../table.csv").json()["error"]
