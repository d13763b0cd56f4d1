import json
import re
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradveil
from gradveil import names, pipeline
from gradveil.accounting.threats import THREATS
from gradveil.attacks.zoo import ATTACKS, MAP
from gradveil.cli.main import main
from gradveil.methods import METHODS
from gradveil.runs import store
from gradveil.runs.progress import Attacking, RoundDone
from gradveil.runs.runner import Options


@dataclass(frozen=True)
class Linear:
    """A model of one's own: any hashable pair of pure functions will do."""

    scale: float = 0.1

    def init(self, key, shape, classes):
        return {"w": self.scale * jax.random.normal(key, (int(np.prod(shape)), classes)), "b": jnp.zeros(classes)}

    def apply(self, params, x):
        return x.reshape(-1) @ params["w"] + params["b"]


def test_a_model_of_ones_own_trains_resumes_and_predicts(tmp_path):
    digits = gradveil.dataset("digits")
    plan = gradveil.plan("digits", "non-private", model=Linear(), rounds=30)
    model = gradveil.train(plan, tmp_path / "run")
    assert np.mean(model.predict(digits.test.x) == digits.test.y) > 0.8
    again = gradveil.train(plan, tmp_path / "run", resume=True)
    assert again.result.params_sha256 == model.result.params_sha256
    loaded = gradveil.load(tmp_path / "run")
    assert loaded.plan == plan
    assert np.array_equal(loaded.predict(digits.test.x), model.predict(digits.test.x))


def test_another_plan_is_refused_in_a_folder_that_holds_one(tmp_path):
    gradveil.train(gradveil.plan("synthetic", "non-private", rounds=1), tmp_path / "run")
    with pytest.raises(gradveil.BadInput, match="another plan"):
        gradveil.train(gradveil.plan("synthetic", "non-private", rounds=1, seed=2), tmp_path / "run", resume=True)


def test_an_unknown_method_is_refused_with_the_names():
    with pytest.raises(gradveil.BadInput, match="fed-cdp"):
        gradveil.plan("digits", "fed-dcp")


def test_every_name_that_can_be_listed_is_the_name_of_a_value():
    assert list(names.METHODS) == list(METHODS)
    assert list(names.ATTACKS) == list(ATTACKS)
    assert list(names.THREATS) == list(THREATS)


SMALL = {"clients": 4, "cohort": 4, "client_size": 40, "batch": 4, "local_steps": 2, "rounds": 2}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run that was trained, attacked and reported from Python."""
    folder = tmp_path_factory.mktemp("api") / "run"
    return gradveil.train(gradveil.plan("synthetic", "fed-cdp", **SMALL), folder, attack=True, report=True), folder


@pytest.mark.slow
def test_python_trains_attacks_and_reports_as_the_command_line_does(whole, tmp_path, capsys):
    model, folder = whole
    flags = [part for key, value in SMALL.items() for part in (f"--{key.replace('_', '-')}", str(value))]
    command = ["run", "--dataset", "synthetic", "--method", "fed-cdp", *flags, "--attack", "--json"]
    assert main([*command, "--out", str(tmp_path / "run")]) == 0
    told = json.loads(capsys.readouterr().out)
    clock = {"seconds", "run_dir", "report", "beside", "attacks", "metrics_head"}  # the chain holds the seconds
    for key in told.keys() - clock:
        assert json.loads(json.dumps(model.result.plain()[key])) == told[key], key
    assert [one.settings_sha256 for one in model.attacks] == [one["settings_sha256"] for one in told["attacks"]]
    assert [one.mean_rmse for one in model.attacks] == [one["mean_rmse"] for one in told["attacks"]]
    assert model.page == folder / "report.html"
    assert sorted(p.name for p in folder.iterdir()) == sorted(p.name for p in (tmp_path / "run").iterdir())


@pytest.mark.slow
def test_a_trained_run_and_an_untrained_plan_are_attacked_from_python(whole, tmp_path, capsys):
    model, folder = whole
    record = gradveil.attack(folder, 0, replace(MAP, iterations=2), 2, rounds=(0,))
    options = ["--surface", "0", "--attack", "map", "--iterations", "2", "--victims", "2", "--round", "0"]
    assert main(["attack", str(folder), *options, "--out", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    for key, value in record.plain().items():
        if key not in ("seconds", "per_victim"):
            assert json.loads(json.dumps(value)) == told[key], key
    assert [one.rmse for one in record.per_victim] == [one["rmse"] for one in told["per_victim"]]
    assert len({one.client for one in record.per_victim}) == 2
    fresh = gradveil.attack(model.plan, gradveil.Surface.UPDATE, replace(MAP, iterations=2), 2)
    assert (fresh.surface, fresh.setting, fresh.victims) == (1, "fresh network", 2)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"attack": "cpi"}, "attack = 'cpi'"),
        ({"surface": 3}, "surface = 3"),
        ({"victims": 0}, "victims = 0"),
        ({"rule": "mine"}, "rule = 'mine'"),
        ({"rounds": (9,)}, "round = 9"),
        ({"view": "in_memory", "surface": 0}, "view"),
    ],
)
def test_an_attack_that_cannot_be_made_is_refused_by_its_name(whole, wrong, said):
    with pytest.raises(gradveil.BadInput, match=re.escape(said)):
        gradveil.attack(whole[1], **wrong)


def test_a_report_is_written_from_python(whole, tmp_path):
    page = gradveil.report(whole[1], out=tmp_path / "page.html")
    assert page == tmp_path / "page.html"
    assert page.read_text() == (whole[1] / "report.html").read_text()
    both = gradveil.report(whole[1], whole[1], out=tmp_path / "both.html").read_text()
    assert "Side by side" in both
    with pytest.raises(gradveil.BadInput, match="runs: name at least one"):
        gradveil.report()
    with pytest.raises(gradveil.BadInput, match="report: name the folder"):
        gradveil.train(whole[0].plan, report=True)


@pytest.mark.slow
def test_who_waits_is_told_each_step_in_its_order(tmp_path):
    plan, told = gradveil.plan("synthetic", "fed-cdp", **SMALL), []
    data = pipeline.loaded(plan, told.append)
    done = pipeline.run(plan, data, tmp_path / "run", Options(), attack=True, progress=told.append)
    kinds = [type(event).__name__ for event in told]
    assert list(dict.fromkeys(kinds)) == [
        "Loading", "Preparing", "Training", "RoundDone", "Accounting", "Attacking", "Reporting"
    ]  # fmt: skip
    lines = [event.line for event in told if isinstance(event, RoundDone)]
    assert lines == store.read_metrics(tmp_path / "run")
    victims = done.attacks[0].victims
    for surface in gradveil.Surface:
        steps = [e.victims_done for e in told if isinstance(e, Attacking) and e.surface is surface]
        assert steps == list(range(victims + 1))


def test_what_one_job_is_refused_for_keeps_all_from_being_trained(tmp_path):
    plan = gradveil.plan("synthetic", "fed-cdp", **SMALL)
    data = pipeline.loaded(plan)
    poor = replace(plan, max_epsilon=1e-4)
    planned = [pipeline.PlannedRun(plan, data, tmp_path / "one"), pipeline.PlannedRun(poor, data, tmp_path / "two")]
    told = []
    with pytest.raises(gradveil.BadInput, match="one round already spends"):
        pipeline.run_all(planned, progress=told.append)
    assert {type(event).__name__ for event in told} == {"Preparing"}


@pytest.mark.slow
def test_a_run_with_secret_noise_is_recorded_if_it_is_to_be_attacked(tmp_path):
    plan = gradveil.plan("synthetic", "fed-cdp", **SMALL, noise_source="secret")
    model = gradveil.train(plan, tmp_path / "run", attack=True)
    assert [one.surface for one in model.attacks] == [0, 1, 2]
