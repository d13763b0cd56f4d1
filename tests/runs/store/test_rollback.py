"""A folder set back to an earlier round: what was released is never drawn again."""

import hashlib
import json
import shutil
from dataclasses import replace

import numpy as np
import pytest

import gradveil
from gradveil.runs import runner, store
from gradveil.runs.runner import Options

ROLLED = ("checkpoints/latest.npz", "metrics.jsonl")


def resealed(path, **changes):
    """Change a sealed file and seal it anew, written here from the description of a seal."""
    content = json.loads(path.read_text()) | changes
    content.pop("seal", None)
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    path.write_text(json.dumps(content | {"seal": hashlib.sha256(text.encode()).hexdigest()}))


@pytest.fixture
def own(tmp_path, ask):
    """A run of three rounds on a table of one's own, under secret noise."""
    x = np.random.default_rng(0).normal(size=(200, 2))
    rows = [f"{a:.3f},{b:.3f},{'yes' if a > 0 else 'no'}" for a, b in x]
    (tmp_path / "own.csv").write_text("\n".join(["a,b,label", *rows]))
    folder = tmp_path / "three"
    ask(
        "run", "--dataset", tmp_path / "own.csv", "--target", "label", "--rounds", "3", "--clients", "4", "--cohort",
        "2", "--noise-source", "secret", "--out", folder,
    )  # fmt: skip
    return folder


def test_a_run_set_back_behind_its_result_is_refused_and_nothing_is_drawn_again(own, ask, refused, tmp_path):
    five = tmp_path / "five"
    shutil.copytree(own, five)
    ask("run", "--resume", "--rounds", "5", "--out", five)
    for name in ROLLED:
        shutil.copy(own / name, five / name)
    before = {path: path.read_bytes() for path in five.rglob("*") if path.is_file()}
    for verb in (["run", "--resume", "--out", five], ["report", five], ["attack", five]):
        said = refused(*verb)
        assert "result.json" in said
        assert "5 rounds" in said
        assert "drawn again" in said
    with pytest.raises(gradveil.BadInput, match="drawn again"):
        gradveil.load(five)
    assert {path: path.read_bytes() for path in before} == before


def test_a_result_of_other_rounds_than_those_of_the_chain_is_refused(finished, refused):
    folder = finished("--method", "fed-cdp")
    for rounds in (0, 1, 3):
        resealed(folder / "result.json", rounds=rounds)
        assert "result.json" in refused("run", "--resume", "--out", folder)
    resealed(folder / "result.json", rounds=4, metrics_head="0" * 64)
    assert "result.json" in refused("run", "--resume", "--out", folder)


def test_a_result_of_an_earlier_stretch_does_not_keep_a_run_from_going_on(finished, ask, refused, tmp_path):
    folder = finished("--method", "fed-cdp", "--sigma", "2", "--rounds", "3")
    first = (folder / "result.json").read_bytes()
    plan = replace(store.read_plan(folder), rounds=5)
    run = runner.prepare(plan, gradveil.dataset("synthetic"), folder, Options(resume=True))
    training = runner.proceed(run)
    next(training)
    training.close()
    (folder / "result.json").write_bytes(first)
    assert "run --resume" in refused("report", folder)  # it is not about what was done last, and nothing was set back
    assert ask("run", "--resume", "--out", folder)["rounds"] == 5
    ask("report", folder, "--out", tmp_path / "page.html")


def test_a_stretch_that_ends_after_the_last_round_is_refused(finished, ask, refused):
    folder = finished("--method", "fed-cdp", "--rounds", "3")
    ask("run", "--resume", "--rounds", "5", "--out", folder)
    resealed(folder / "plans.json", earlier=[{"until": 3, "rounds": 3}, {"until": 6, "rounds": 5}])
    for verb in (["run", "--resume", "--out", folder], ["report", folder]):
        assert "plans.json" in refused(*verb)


WRONG = {
    "plans.json": [{"earlier": wrong} for wrong in (None, 5, [{}], ["a"], [{"until": "3", "rounds": 4}])],
    "watch.json": [{"rounds": wrong} for wrong in (None, [[1]], "ab", -5, 1.5, [-1], [True])],
    "data.json": [{"plan": 5}, {"shape": 5}, {"classes": None}, {"sha256": 5}, {"examples": {}}],
    "environment.json": [{"packages": 5}, {"packages": {}}],
    "result.json": [
        {"guarantees": 5}, {"guarantees": [{}]}, {"guarantees": None}, {"params_sha256": None},
        {"epsilon_over_rounds": [1]}, {"epsilon_over_rounds": {"sound": [1]}}, {"accuracy": "x"}, {"metrics_head": 5},
        {"rounds": "4"}, {"rounds": -1}, {"as_the_paper_accounts": 5},
    ],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", WRONG)
def test_a_sealed_file_of_the_wrong_shape_is_refused_in_a_sentence(finished, ask, refused, name):
    folder = finished("--method", "fed-cdp", "--watch", "1")
    ask("run", "--resume", "--rounds", "5", "--out", folder)
    whole = (folder / name).read_bytes()
    for changes in (None, *WRONG[name]):
        (folder / name).write_bytes(b"{}" if changes is None else whole)
        resealed(folder / name, **(changes or {}))
        if name != "environment.json":  # which nobody but a report reads
            assert name in refused("run", "--resume", "--out", folder), changes
        if name != "watch.json":  # which nobody but training reads
            assert name in refused("report", folder), changes
        if name in ("plans.json", "data.json", "result.json"):
            assert name in refused("attack", folder, "--attack", "analytic", "--surface", "2", "--victims", "1"), (
                changes
            )
            with pytest.raises(gradveil.BadInput, match=name):
                gradveil.load(folder)
    (folder / name).write_bytes(whole)
    ask("run", "--resume", "--out", folder)
