"""Going on with a run: what was done is counted as it was done, and nothing is trained under another name."""

import json
import math
import shutil
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import gradveil
from gradveil.cli.main import main
from gradveil.runs import store

SHARP = ["--method", "fed-cdp", "--sigma", "0.5", "--sampling", "fixed-pass", "--cohort", "4"]
DECAY = ["--decay", "linear", "--sigma", "8", "--sigma-end", "2"]


def epsilon(result, threat="server"):
    return next(g["epsilon"] for g in result["guarantees"] if g["threat_model"] == threat)


def gaussian_epsilon(multipliers, delta):
    """Give epsilon of Gaussian releases composed: mu^2 = sum 1 / z^2, and delta(epsilon) as Balle and Wang state it."""
    mu = math.sqrt(sum(1 / z**2 for z in multipliers))

    def excess(e):
        return norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta

    return brentq(excess, 0, 200)


def test_an_edited_plan_is_refused_and_its_noise_is_not_believed(finished, refused):
    out = finished(*SHARP)
    text = (out / "plan.toml").read_text()
    (out / "plan.toml").write_text(text.replace("sigma = 0.5", "sigma = 50.0").replace("rounds = 4", "rounds = 5"))
    assert text != (out / "plan.toml").read_text()
    (out / "result.json").unlink()
    for verb in (["run", "--resume", "--out", out], ["report", out], ["attack", out]):
        assert "plan" in refused(*verb)
    assert not (out / "result.json").exists()
    assert len(store.read_metrics(out)) == 4


@pytest.mark.parametrize("line", ["rounds = 4", "seed = 0", "delta = 1e-05", 'threat_model = "server"'])
def test_any_edited_line_of_the_plan_is_refused(finished, refused, line):
    out = finished(*SHARP)
    text = (out / "plan.toml").read_text()
    assert line in text
    changed = {"rounds = 4": "rounds = 9", "seed = 0": "seed = 1", "delta = 1e-05": "delta = 0.01"}
    (out / "plan.toml").write_text(text.replace(line, changed.get(line, 'threat_model = "central"')))
    assert "plan" in refused("run", "--resume", "--out", out)


def test_a_plan_edited_before_its_first_round_is_refused(finished, refused):
    out = finished(*SHARP)
    for name in ("checkpoints/latest.npz", "metrics.jsonl", "params.npz", "result.json"):
        (out / name).unlink()
    text = (out / "plan.toml").read_text()
    (out / "plan.toml").write_text(text.replace("sigma = 0.5", "sigma = 50.0"))
    assert "began with" in refused("run", "--resume", "--out", out)


def test_a_missing_checkpoint_is_refused_and_nothing_is_cut(finished, refused):
    out = finished(*SHARP)
    (out / "checkpoints" / "latest.npz").unlink()
    before = (out / "metrics.jsonl").read_bytes()
    for verb in (["run", "--resume", "--out", out], ["report", out]):
        assert "missing" in refused(*verb)
    assert (out / "metrics.jsonl").read_bytes() == before
    (out / "metrics.jsonl").unlink()  # the result alone says that something was trained
    assert "missing" in refused("run", "--resume", "--out", out)


def test_a_checkpoint_of_another_run_or_another_round_is_refused(finished, refused, ask, tmp_path):
    out, other = finished(*SHARP, "--watch", "2"), finished(*SHARP, "--seed", "1", name="other")
    mine = (out / "checkpoints" / "latest.npz").read_bytes()
    shutil.copy(other / "checkpoints" / "latest.npz", out / "checkpoints" / "latest.npz")
    assert "does not lead to the checkpoint" in refused("run", "--resume", "--out", out)
    shutil.copy(out / "checkpoints" / "round-000002.npz", out / "checkpoints" / "latest.npz")
    assert "must not be trained again" in refused("run", "--resume", "--out", out)
    (out / "checkpoints" / "latest.npz").write_bytes(mine)
    assert ask("run", "--resume", "--out", out)["rounds"] == 4


def test_parameters_changed_inside_a_checkpoint_are_refused(finished, refused):
    out = finished(*SHARP)
    path = out / "checkpoints" / "latest.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for wrong in (arrays["params_0"] + 1, arrays["params_0"] * np.float32("nan"), arrays["params_0"][:1]):
        np.savez(path, **(arrays | {"params_0": wrong}))
        refused("run", "--resume", "--out", out)
    np.savez(path, **arrays)
    assert main(["run", "--resume", "--out", str(out), "--json"]) == 0


def changed(lines, how):
    if how == "shorter":
        return lines[:2]
    if how == "edited":
        return [lines[0].replace('"accuracy": 0.', '"accuracy": 0.9'), *lines[1:]]
    if how == "swapped":
        return [lines[1], lines[0], *lines[2:]]
    return [*lines[:1], *lines[2:]]


@pytest.mark.parametrize("how", ["shorter", "edited", "swapped", "left out"])
def test_metrics_that_were_shortened_or_edited_are_refused(finished, refused, how):
    out = finished(*SHARP)
    lines = (out / "metrics.jsonl").read_text().splitlines(keepends=True)
    assert changed(lines, how) != lines
    (out / "metrics.jsonl").write_text("".join(changed(lines, how)))
    for verb in (["run", "--resume", "--out", out], ["report", out], ["attack", out]):
        assert "metrics.jsonl" in refused(*verb)
    with pytest.raises(gradveil.BadInput, match=r"metrics\.jsonl"):
        gradveil.load(out)


def test_the_last_line_comes_back_from_the_checkpoint_whole_or_torn(finished, ask):
    for kept in (0, 30):
        out = finished(*SHARP, name=str(kept))
        whole = (out / "metrics.jsonl").read_text()
        lines = whole.splitlines(keepends=True)
        (out / "metrics.jsonl").write_text("".join(lines[:-1]) + lines[-1][:kept])
        ask("run", "--resume", "--out", out)
        assert (out / "metrics.jsonl").read_text() == whole


def test_a_missing_result_is_made_again_from_what_was_done(finished, ask):
    out = finished(*SHARP)
    before = json.loads((out / "result.json").read_text())
    (out / "result.json").unlink()
    again = ask("run", "--resume", "--out", out)
    for name in ("params_sha256", "guarantees", "rounds", "plan_sha256", "metrics_head"):
        assert again[name] == before[name]


def test_more_rounds_train_on_and_early_rounds_count_with_the_noise_they_had(finished, ask):
    method = ["--method", "fed-cdp", "--sampling", "fixed-pass", "--cohort", "4", *DECAY]
    out, straight = finished(*method), finished(*method, "--rounds", "8", name="straight")
    answer = ask("run", "--resume", "--rounds", "8", "--out", out)
    first, second = (np.linspace(8, 2, n, endpoint=False) for n in (4, 8))  # sigma_t = 8 + (2 - 8) t / T
    done = [*first, *second[4:]]
    assert answer["rounds"] == 8
    assert [line.sigma for line in store.read_metrics(out)] == pytest.approx(done)
    # One bound for all layers, noise on the sum, and two batches of 4 out of 40: a record is in one batch of a round.
    true = gaussian_epsilon(done, 1e-5)
    assert true * (1 - 1e-6) <= epsilon(answer) <= 1.03 * true
    assert epsilon(answer) != pytest.approx(epsilon(json.loads((straight / "result.json").read_text())), rel=0.01)
    assert any("from 4 after 4 rounds" in caveat for caveat in answer["guarantees"][0]["caveats"])
    assert store.read_plan(out).rounds == 8
    again = ask("run", "--resume", "--out", out)
    assert (again["params_sha256"], epsilon(again)) == (answer["params_sha256"], epsilon(answer))
    assert len(gradveil.load(out).result.earlier_rounds) == 1


def test_with_constant_noise_training_on_is_training_longer(finished, ask):
    out, straight = finished(*SHARP), finished(*SHARP, "--rounds", "7", name="straight")
    ask("run", "--resume", "--rounds", "5", "--out", out)
    longer = ask("run", "--resume", "--rounds", "7", "--out", out)
    whole = json.loads((straight / "result.json").read_text())
    assert longer["params_sha256"] == whole["params_sha256"]
    assert epsilon(longer) == epsilon(whole)


def test_a_plan_edited_after_it_was_extended_is_refused(finished, ask, refused):
    out = finished(*SHARP)
    ask("run", "--resume", "--rounds", "6", "--out", out)
    before = (out / "plan.toml").read_text()
    (out / "plan.toml").write_text(before.replace("rounds = 6", "rounds = 60"))
    assert "plan.toml" in refused("run", "--resume", "--out", out)
    (out / "plan.toml").write_text(before)
    (out / "plans.json").unlink()
    assert "began with" in refused("run", "--resume", "--out", out)


def test_an_extension_killed_half_way_is_as_if_it_had_not_been_asked_for(finished, ask):
    out, other = finished(*SHARP), finished(*SHARP, name="other")
    ask("run", "--resume", "--rounds", "6", "--out", other)
    shutil.copy(other / "plans.json", out / "plans.json")  # it is written first; plan.toml is still the old one
    assert ask("run", "--resume", "--out", out)["rounds"] == 4
    answer = ask("run", "--resume", "--rounds", "6", "--out", out)
    whole = json.loads((other / "result.json").read_text())
    assert (answer["params_sha256"], epsilon(answer)) == (whole["params_sha256"], epsilon(whole))


def test_rounds_that_were_done_cannot_be_taken_back(finished, refused):
    out = finished(*SHARP)
    before = (out / "result.json").read_bytes()
    assert "rounds = 3: must be at least 4, the rounds" in refused("run", "--resume", "--rounds", "3", "--out", out)
    assert "rounds" in refused("run", "--resume", "--rounds", "0", "--out", out)
    assert (out / "result.json").read_bytes() == before


def test_a_plan_with_other_rounds_trains_on_from_python_and_no_other_plan_does(tmp_path):
    plan = gradveil.plan("synthetic", "fed-cdp", rounds=2, learning_rate=1)
    gradveil.train(plan, tmp_path / "run")
    model = gradveil.train(gradveil.plan("synthetic", "fed-cdp", rounds=3, learning_rate=1), tmp_path / "run", True)
    assert model.result.rounds == 3
    for change in ({"seed": 1}, {"delta": 1e-6}, {"batch": 3}):
        with pytest.raises(gradveil.BadInput, match="another plan"):
            gradveil.train(gradveil.plan("synthetic", "fed-cdp", rounds=4, **change), tmp_path / "run", resume=True)
    assert main(["run", "--resume", "--json", "--out", str(tmp_path / "run")]) == 0  # where learning_rate is 1.0


REFUSED = {
    "--dataset": "digits", "--target": "y", "--method": "fed-sdp", "--clients": "9", "--cohort": "3",
    "--client-size": "30", "--local-steps": "3", "--batch": "2", "--lr": "0.5", "--clip": "2", "--sigma": "0",
    "--decay": "linear", "--sigma-end": "1", "--draw": "each", "--sensitivity": "l2-max", "--sampling": "poisson",
    "--cohort-sampling": "poisson", "--partition": "iid", "--noise-source": "secret", "--seed": "0", "--delta": "1e-6",
    "--max-epsilon": "2", "--accountant": "pld", "--threat-model": "server", "--target-accuracy": "0.9",
    "--dry-run": None, "--train-all": None,
}  # fmt: skip


def test_every_option_that_resume_cannot_honour_is_refused_by_its_name(finished, refused):
    out = finished(*SHARP)
    before = sorted((path.name, path.stat().st_mtime_ns) for path in out.rglob("*"))
    for option, value in REFUSED.items():
        given = [option] if value is None else [option, value]
        assert f"gradveil: {option}: " in refused("run", "--resume", "--out", out, *given)
    assert "PLAN.toml" in refused("run", out / "plan.toml", "--resume", "--out", out)
    assert sorted((path.name, path.stat().st_mtime_ns) for path in out.rglob("*")) == before


@pytest.mark.slow
def test_options_that_resume_takes_are_honoured(finished, ask, refused):
    out = finished(*SHARP)
    answer = ask(
        "run", "--resume", "--rounds", "6", "--watch", "5", "--engine", "serial", "--attack", "--out", out
    )  # fmt: skip
    assert (answer["rounds"], len(answer["attacks"])) == (6, 3)
    assert (out / "checkpoints" / "round-000005.npz").exists()
    assert "watch = 2" in refused("run", "--resume", "--watch", "2", "--out", out)


def test_a_secret_first_round_that_was_not_recorded_is_refused_before_training(finished, refused):
    out = finished(*SHARP, "--noise-source", "secret")
    assert "--attack" in refused("run", "--resume", "--rounds", "6", "--attack", "--out", out)
    assert len(store.read_metrics(out)) == 4


def test_a_run_that_reached_its_target_takes_no_more_rounds(finished, refused):
    out = finished(*SHARP, "--target-accuracy", "0.01")
    assert "target_accuracy" in refused("run", "--resume", "--rounds", "8", "--out", out)


def test_a_folder_of_version_0_1_is_refused_in_a_sentence(finished, refused):
    out = finished(*SHARP)
    (out / "data.json").write_text(json.dumps({"name": "synthetic", "own": False, "sha256": "0" * 64}))
    for verb in (["run", "--resume", "--out", out], ["report", out], ["attack", out]):
        assert "0.1" in refused(*verb)
    with pytest.raises(gradveil.BadInput, match=r"0\.1"):
        gradveil.load(out)


def test_parameters_that_are_not_those_of_the_result_are_not_loaded(finished):
    out = finished(*SHARP)
    path = out / "params.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    gradveil.load(out)
    for wrong in (arrays["layer_0"] + 1, arrays["layer_0"] * np.float32("nan"), arrays["layer_0"].astype(float)):
        np.savez(path, **(arrays | {"layer_0": wrong}))
        with pytest.raises(gradveil.BadInput, match=r"params\.npz"):
            gradveil.load(out)


def test_a_run_that_has_done_no_round_can_be_given_other_rounds_more_than_once(finished, ask):
    whole = finished(*SHARP, "--rounds", "6", name="whole")
    out = finished(*SHARP)
    for name in ("checkpoints/latest.npz", "metrics.jsonl", "params.npz", "result.json"):
        (out / name).unlink()
    for checkpoint in out.glob("checkpoints/*"):
        checkpoint.unlink()
    plan = store.read_plan(out)
    data = gradveil.dataset(plan.dataset)
    for rounds in (5, 6):
        store.accept(out, replace(plan, rounds=rounds), data)
    answer = ask("run", "--resume", "--out", out)
    expected = json.loads((whole / "result.json").read_text())["params_sha256"]
    assert (answer["rounds"], answer["params_sha256"]) == (6, expected)
