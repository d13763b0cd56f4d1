"""Rounds that somebody asks for: those that no plan reaches, and checkpoints under the name of another round."""

import shutil

import pytest

import gradveil
from gradveil.runs import store

PRIVATE = ["--method", "fed-cdp", "--rounds", "3", "--watch", "1,2"]
LIGHT = ["--attack", "idlg", "--surface", "2", "--victims", "1"]


def test_going_on_refuses_to_watch_a_round_beyond_the_plan(finished, ask, refused):
    folder = finished(*PRIVATE)
    before = (folder / "watch.json").read_bytes()
    assert "watch = 99: must be at most rounds = 3" in refused("run", "--resume", "--watch", "99", "--out", folder)
    longer = ["run", "--resume", "--rounds", "5", "--out", folder]
    assert "watch = 6: must be at most rounds = 5" in refused(*longer, "--watch", "6")
    assert (folder / "watch.json").read_bytes() == before
    assert store.read_plan(folder).rounds == 3
    ask(*longer, "--watch", "5")
    assert (folder / "checkpoints" / "round-000005.npz").exists()


def test_a_checkpoint_under_the_name_of_another_round_is_not_attacked(finished, ask, refused):
    folder = finished(*PRIVATE)
    assert ask("attack", folder, "--round", "1", *LIGHT)["round"] == 1
    kept = folder / "checkpoints"
    shutil.copy(kept / "round-000002.npz", kept / "round-000001.npz")
    said = refused("attack", folder, "--round", "1", *LIGHT)
    assert "round-000001.npz" in said
    assert "round 2" in said
    with pytest.raises(gradveil.BadInput, match="round 2"):
        gradveil.attack(folder, 2, "idlg", 1, rounds=(1,))
    assert ask("attack", folder, "--round", "2", *LIGHT)["round"] == 2
