"""Tuning into a file: the library and the command line find the same plan, also after a kill within a trial."""

import json
import signal
import subprocess
import sys

import pytest

import gradveil
from gradveil.cli.main import main
from gradveil.federation.plan import Plan
from gradveil.runs import store

GIVEN = {"on": "private", "target_epsilon": 2.0, "seed": 1, "clients": 4}
OPTIONS = ["--dataset", "cancer", "--on", "private", "--target-epsilon", "2", "--seed", "1", "--clients", "4"]


def scores(folder):
    (record,) = folder.glob("*.trials.json")
    return [(trial["candidate"], trial["score"]) for trial in json.loads(record.read_text())["done"]]


def test_the_library_and_the_command_line_write_the_same_plan(tmp_path, capsys):
    plan = gradveil.tune("cancer", trials=1, out=tmp_path / "library.toml", **GIVEN)
    assert isinstance(plan, Plan)
    assert "1 of 30 settings tried on these records" in plan.tuned.found
    assert main(["tune", *OPTIONS, "--trials", "1", "--out", str(tmp_path / "command.toml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["found"] == plan.tuned.found
    assert (tmp_path / "command.toml").read_text() == (tmp_path / "library.toml").read_text()


def test_the_library_keeps_trials_on_private_records_and_refuses_what_it_cannot_tune(tmp_path):
    with pytest.raises(gradveil.BadInput, match="out: trials on private records are kept in a file"):
        gradveil.tune("cancer", on="private")
    with pytest.raises(gradveil.BadInput, match="on = 'elsewhere': must be synthetic"):
        gradveil.tune("cancer", on="elsewhere")
    with pytest.raises(gradveil.BadInput, match="lern: unknown setting of a plan"):
        gradveil.tune("cancer", lern=0.1)


KILLER = """
import os, signal, sys
def watch(event, arguments, left=[4]):
    if event == "os.rename" and "trial-1" in str(arguments[1]) and str(arguments[1]).endswith("latest.npz"):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
from gradveil.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_tuning_killed_within_a_trial_goes_on_from_its_checkpoint_to_the_same_plan(tmp_path):
    options = ["tune", *OPTIONS, "--trials", "3", "--json", "--out"]
    assert main([*options, str(tmp_path / "whole" / "plan.toml")]) == 0
    again = tmp_path / "again"
    command = [sys.executable, "-c", KILLER, *options, str(again / "plan.toml")]
    killed = subprocess.run(command, capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert not (again / "plan.toml").exists()
    assert len(scores(again)) == 1
    assert len(store.read_metrics(again / "plan.trials" / "trial-1")) == 2
    assert main([*options, str(again / "plan.toml")]) == 0
    assert (again / "plan.toml").read_text() == (tmp_path / "whole" / "plan.toml").read_text()
    assert scores(again) == scores(tmp_path / "whole")
    assert not (again / "plan.trials").exists()
