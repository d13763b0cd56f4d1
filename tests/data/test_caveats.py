"""What was taken from private records is said first, wherever an epsilon is told."""

import json
import re

import jsonschema
import numpy as np
import pytest

from gradveil import api
from gradveil.accounting.caveats import NO_NOISE
from gradveil.accounting.guarantee import PARAMETERS_ONLY
from gradveil.accounting.threats import THREATS
from gradveil.cli.main import main
from gradveil.data.sources import load, where
from gradveil.deployment import conductor
from gradveil.reports import card
from gradveil.runs import store
from gradveil.runs.budget import Budget

SMALL = {"rounds": 2, "clients": 4, "cohort": 4, "client_size": 50, "batch": 5, "local_steps": 1}
FLAGS = [word for name, value in SMALL.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def _table(path, outlier=None):
    """Write 300 rows; the amount of one of them, which is a training row, may be made an outlier."""
    rng = np.random.default_rng(3)
    amounts = rng.normal(50, 10, 300)
    if outlier is not None:
        amounts[7] = outlier
    rows = [f"{a:.4f},{('ruby', 'opal')[i % 3 == 0]},{('no', 'yes')[i % 2]}" for i, a in enumerate(amounts)]
    path.write_text("\n".join(["amount,gem,outcome", *rows]) + "\n")
    return str(path)


def test_one_outlier_moves_the_encoding_of_the_other_rows(tmp_path):
    plain = load(_table(tmp_path / "a.csv"), target="outcome").train.x[:, 0]
    moved = load(_table(tmp_path / "b.csv", outlier=5000), target="outcome").train.x[:, 0]
    assert len(plain) == 225
    assert np.sum(np.abs(plain - moved) > 0.1) > 200


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A private run on a user's own table: its folder, its JSON and what it prints to a person."""
    root = tmp_path_factory.mktemp("own")
    place = _table(root / "own.csv")
    command = ["run", "--dataset", place, "--target", "outcome", "--method", "fed-cdp", *FLAGS]
    assert main([*command, "--out", str(root / "run")]) == 0
    return root / "run"


def _says_it(sentence):
    words = ("encoding", "scaling", "categories", "private", "no epsilon")
    return all(word in sentence for word in words)


def test_every_guarantee_of_a_run_on_an_own_table_says_it_first(run):
    held = store.read_json(run / "result.json")["guarantees"]
    assert {g["threat_model"] for g in held} == set(THREATS) - {"alone"}
    assert all(_says_it(g["caveats"][0]) for g in held)
    assert not any(_says_it(caveat) for g in held for caveat in g["caveats"][1:])


def test_the_card_says_it_before_the_epsilon_and_first_of_what_is_not_covered(run):
    made = json.loads((run / card.JSON).read_text())
    jsonschema.validate(made, card.schema())
    assert _says_it(made["not_covered"][0])
    assert len(set(made["not_covered"])) == len(made["not_covered"])
    assert _says_it(made["claim"].split("epsilon 0.")[0])
    text = (run / card.MARKDOWN).read_text()
    assert text.index("The encoding") < text.index("at delta")


def test_the_page_says_it_before_the_epsilon_and_first_of_the_caveats(run):
    text = (run / "report.html").read_text()
    guarantee = text[text.index("What is guaranteed") :]
    assert guarantee.index("The encoding") < guarantee.index("at delta")
    assert _says_it(re.search(r"Caveats:</p><ul><li>(.*?)</li>", guarantee).group(1))
    assert "except for what was taken from the records without noise" in text


def test_the_terminal_says_it_above_the_table(run, capsys):
    command = ["run", "--dataset", str(run.parent / "own.csv"), "--target", "outcome", *FLAGS, "--dry-run"]
    assert main(command) == 0
    out = capsys.readouterr().out
    caveat, table = out.index("Caveat: "), out.index("Guarantees of")
    assert caveat < table
    assert _says_it(" ".join(out[caveat:table].split()))


def test_a_guarantee_that_is_not_finite_still_says_why(run, capsys, tmp_path):
    place = str(run.parent / "own.csv")
    command = ["run", "--dataset", place, "--target", "outcome", "--method", "non-private", *FLAGS]
    assert main([*command, "--out", str(tmp_path / "bare")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"No finite epsilon against any adversary: {NO_NOISE}" in said
    assert f"no finite epsilon. {NO_NOISE}" in (tmp_path / "bare" / "report.html").read_text()
    assert main([*command, "--max-epsilon", "3", "--out", str(tmp_path / "never")]) == 2
    assert NO_NOISE in capsys.readouterr().err


def test_a_federation_over_own_tables_says_it_first(tmp_path):
    place = _table(tmp_path / "own.csv")
    plan = api.plan(place, "fed-cdp", target="outcome", **SMALL)
    held = conductor.budget_of(plan, load(place, target="outcome")).all_guarantees(2, 2)
    assert all(_says_it(g.caveats[0]) for g in held)


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_public_constants_need_no_such_sentence(name):
    data = load(name)
    assert data.caveats == ()
    held = Budget(api.plan(name, "fed-cdp", **SMALL), data, 1).all_guarantees(2, 2)
    assert not any("taken from the private" in caveat for g in held for caveat in g.caveats)


def test_own_pixels_are_not_scaled_by_their_records_but_their_classes_are(tmp_path):
    np.savez(tmp_path / "d.npz", x=np.zeros((40, 4, 4), np.uint8), y=np.arange(40) % 2)
    (caveat,) = load(str(tmp_path / "d.npz")).caveats
    assert "classes" in caveat
    assert "scaling" not in caveat


@pytest.mark.parametrize(
    "name", ["cancer", "digits", "synthetic", *(pytest.param(n, marks=pytest.mark.data) for n in ("adult", "lfw"))]
)
def test_a_built_in_dataset_has_a_caveat_exactly_if_its_training_rows_scale_it(name):
    if where(name) is None:
        pytest.skip(f"{name} is neither in GRADVEIL_DATA nor in the cache")
    data = load(name, allow_download=False)
    rows = data.train.x.reshape(len(data.train), -1).astype(float)
    # Whoever is scaled by its own rows has the mean 0 and the deviation 1 in every column.
    by_rows = np.allclose(rows.mean(axis=0), 0, atol=1e-4) and np.allclose(rows.std(axis=0), 1, atol=1e-4)
    assert bool(data.caveats) == by_rows == (name == "cancer")


def test_the_scaling_of_the_cancer_rows_is_said_first():
    data = load("cancer")
    held = Budget(api.plan("cancer", "fed-cdp", **SMALL), data, 1).all_guarantees(2, 2)
    assert all("scaled" in g.caveats[0] and "taken from the private" in g.caveats[0] for g in held)
    assert all(PARAMETERS_ONLY in g.caveats[1:] for g in held)
