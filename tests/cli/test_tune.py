"""`gradveil tune` writes a plan that `gradveil run` takes, and says what its settings rest on."""

import json

import pytest

from gradveil.cli.main import main


def test_a_tuning_writes_a_plan_whose_run_says_where_its_settings_come_from(capsys, tmp_path):
    out = tmp_path / "plan.toml"
    tuned = ["tune", "--dataset", "cancer", "--on", "private", "--threat-model", "central-visible", "--trials", "1"]
    assert main([*tuned, "--target-epsilon", "2", "--seed", "1", "--out", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["trials"] == []  # their number is secret
    held = {g["threat_model"]: g for g in answer["guarantees"]}
    assert held["central-visible"]["epsilon"] <= 2.0 < held["server"]["epsilon"]
    assert "a secret number drawn with mean 1" in " ".join(held["central-visible"]["caveats"])
    assert main(["run", str(out), "--dry-run"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert f"Settings: {answer['found']}." in said
    assert "hidden = true" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--on", "public:nowhere"], "nowhere"),
        (["--on", "elsewhere"], "on = 'elsewhere': must be synthetic, public:NAME or private"),
        (["--trials", "0"], "trials = 0: must be at least 1"),
        (["--trials", "31"], "trials = 31: must be at most 30"),
        (["--method", "fed-cdp", "--on", "private"], "trials on the same records are counted only where"),
        (["--method", "fed-alpha-cdp"], "target_epsilon = 1.0: no amount of noise"),
    ],
    ids=["unknown", "elsewhere", "none", "too many", "not sums", "unsound"],
)
def test_a_tuning_that_cannot_be_done_is_refused_in_a_sentence(capsys, tmp_path, options, said):
    out = tmp_path / "plan.toml"
    assert main(["tune", "--dataset", "cancer", *options, "--out", str(out)]) == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_a_plan_of_another_origin_is_not_overwritten(capsys, tmp_path):
    out = tmp_path / "plan.toml"
    out.write_text("rounds = 3\n")
    assert main(["tune", "--dataset", "cancer", "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert out.read_text() == "rounds = 3\n"
