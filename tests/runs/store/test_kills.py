"""Kills: whatever moment a run is killed at, it goes on to the same bits, and nothing that could be seen is redrawn."""

import json
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest

import gradveil
from gradveil.federation.plan import NoiseSource
from gradveil.federation.server import State
from gradveil.runs import runner, store
from gradveil.runs.runner import Options

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir"}
watcher = {"folder": None, "places": None, "count": 0}


def _watch(event, arguments):
    """Copy the folder before anything is opened, renamed or removed in it: what a kill at that moment would leave."""
    folder, places = watcher["folder"], watcher["places"]
    if folder is None or event not in EVENTS or not str(arguments[0]).startswith(f"{folder}/"):
        return
    watcher["folder"] = None  # copying opens files too
    shutil.copytree(folder, places / f"{watcher['count']:03d}")
    watcher["count"] += 1
    watcher["folder"] = folder


sys.addaudithook(_watch)


@pytest.fixture
def moments(tmp_path):
    """Train a plan and give a copy of its folder at every moment at which a file is touched, each state once."""

    def make(plan, folder, resume=False):
        places = tmp_path / f"moments-{folder.name}"
        places.mkdir()
        watcher.update(folder=str(folder), places=places, count=0)
        try:
            model = gradveil.train(plan, folder, resume=resume)
        finally:
            watcher["folder"] = None
        return model, list({content(place): place for place in sorted(places.iterdir())}.values())

    return make


def content(folder):
    """Give all that a folder holds; where two moments left the same, going on from one is going on from the other."""
    files = sorted(path for path in folder.rglob("*"))
    return tuple((str(path.relative_to(folder)), path.read_bytes() if path.is_file() else b"") for path in files)


def plan_of(**changes):
    small = {"clients": 4, "cohort": 2, "client_size": 40, "batch": 4, "local_steps": 2, "rounds": 2}
    return gradveil.plan("synthetic", "quantile", **(small | changes))


def states(folder):
    return [line.state_sha256 for line in store.read_metrics(folder)]


def test_a_seeded_run_killed_at_any_moment_ends_in_the_same_bits(moments, tmp_path):
    plan = plan_of()
    model, killed = moments(plan, tmp_path / "run")
    assert len(killed) > 12
    for folder in killed:
        again = gradveil.train(plan, folder, resume=True)
        assert again.result.params_sha256 == model.result.params_sha256, folder.name
        assert states(folder) == states(tmp_path / "run"), folder.name
        assert again.result.guarantees == model.result.guarantees, folder.name
        assert not [path for path in folder.rglob(".*.partial")], folder.name


@pytest.mark.slow
def test_a_run_killed_while_it_is_extended_ends_in_the_same_bits(moments, tmp_path):
    gradveil.train(plan_of(), tmp_path / "run")
    model, killed = moments(plan_of(rounds=3), tmp_path / "run", resume=True)
    assert len(killed) > 10
    for folder in killed:
        again = gradveil.train(plan_of(rounds=3), folder, resume=True)
        assert again.result.params_sha256 == model.result.params_sha256, folder.name
        assert again.result.guarantees == model.result.guarantees, folder.name


def visible(folder):
    """Give the state after each round of which the folder shows anything, computed from the files alone."""
    seen = {}
    for line in (folder / "metrics.jsonl").read_text().split("\n")[:-1] if (folder / "metrics.jsonl").exists() else []:
        seen[json.loads(line)["round"]] = json.loads(line)["state_sha256"]
    for path in (folder / "checkpoints").glob("*.npz"):
        with np.load(path) as file:
            done, params = int(file["round"]), [file[n] for n in file.files if n.startswith("params_")]
            clip_state = [file[n] for n in file.files if n.startswith("clip_state_")]
            state = State(done, params, clip_state, file["participations"])
        if done:
            assert seen.setdefault(done - 1, store.state_digest(state)) == store.state_digest(state)
    return seen


@pytest.mark.slow
def test_under_secret_noise_nothing_that_could_be_seen_is_drawn_again(moments, tmp_path):
    plan, data = plan_of(noise_source=NoiseSource.SECRET), gradveil.dataset("synthetic")
    runner.prepare(plan, data, tmp_path / "run", Options(watch=frozenset({0, 1, 2})))
    _, killed = moments(plan, tmp_path / "run", resume=True)
    shown = [visible(folder) for folder in killed]
    assert {len(seen) for seen in shown} == {0, 1, 2}
    for folder, seen in zip(killed, shown, strict=True):
        gradveil.train(plan, folder, resume=True)
        assert {t: state for t, state in enumerate(states(folder)) if t in seen} == seen, folder.name
        assert len(list((folder / "checkpoints").glob("round-*.npz"))) == 3, folder.name
    drawn = {states(folder)[-1] for folder in killed}
    assert len(drawn) > 1, "rounds of which nothing was seen must have been drawn anew, or this test sees nothing"


KILLER = """
import os, signal, sys
def watch(event, arguments, left=[int(sys.argv[1])]):
    wanted = event == sys.argv[2] and str(arguments[1 if event == "os.rename" else 0]).endswith(sys.argv[3])
    if wanted and (event != "open" or arguments[1] is None or "a" in str(arguments[1])):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
from gradveil.cli.main import main
sys.exit(main(sys.argv[4:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("times", "event", "name", "kept"),
    [
        (2, "open", "metrics.jsonl", (1, 2)),
        (3, "os.rename", "latest.npz", (1, 1)),
        (1, "os.rename", "plan.toml", (4, 4)),
    ],
    ids=["between checkpoint and line", "before a checkpoint", "while it is extended"],
)
def test_a_process_killed_at_a_chosen_moment_goes_on_to_the_same_parameters(
    finished, ask, tmp_path, times, event, name, kept
):
    method = ["--method", "fed-cdp", "--sigma", "2", "--decay", "linear", "--sigma-end", "1"]
    extended = name == "plan.toml"
    whole = finished(*method)
    if extended:
        ask("run", "--resume", "--rounds", "6", "--out", whole)
    out = finished(*method, name="killed") if extended else tmp_path / "killed"
    plan = whole / "plan.toml"
    begun = ["run", "--resume", "--rounds", "6"] if extended else ["run", str(plan)]
    arguments = [str(times), event, name, *begun, "--out", str(out), "--json"]
    killed = subprocess.run([sys.executable, "-c", KILLER, *arguments], capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    with np.load(out / "checkpoints" / "latest.npz") as file:
        assert (len(store.read_metrics(out)), int(file["round"])) == kept
    answer = ask(*(["run", "--resume"] + (["--rounds", "6"] if extended else [])), "--out", out)
    expected = json.loads((whole / "result.json").read_text())
    for key in ("params_sha256", "rounds", "guarantees"):
        assert answer[key] == expected[key]
