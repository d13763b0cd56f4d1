"""The verb `attack` from the command line: on a fresh network, in a run, and in a run whose noise was secret."""

import json
import re
import stat
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from gradveil.attacks.zoo import ATTACKS, INFERENCES, MALICIOUS
from gradveil.cli.main import main
from gradveil.data.sources import load
from gradveil.federation import leaks, server
from gradveil.federation.engine import Population
from gradveil.federation.leaks import VIEWS, Tap
from gradveil.federation.rounds import cohort_of
from gradveil.federation.sum_leaks import SUM, read_sum
from gradveil.keys import Keys
from gradveil.leakage import scenes
from gradveil.runs import recording, store
from gradveil.surface import Surface

PLAN = """
dataset = "digits"
method = "quantile"
clients = 4
cohort = 3
client_size = 20
batch = 4
local_steps = 2
rounds = 2
learning_rate = 0.02
sampling = {kind = "FixedPass"}
model = {kind = "Mlp", hidden = [16], bias = true}
"""
FRESH = ["attack", "--dataset", "digits", "--network", "mlp"]
ANALYTIC = ["--attack", "analytic"]
CONTRACT = (
    "dataset method attack surface view network round rule seed victims success_rate mean_rmse prior_rmse gain gain_ci "
    "verdict mean_iterations mean_evaluations label_accuracy identification seconds per_victim candidates"
)


def strict(text):
    """Read JSON that has no NaN and no infinity."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))


def ask(capsys, *arguments):
    code = main([*map(str, arguments), "--json"])
    answer = capsys.readouterr()
    assert code == 0, answer.err
    return strict(answer.out)


def refused(capsys, *arguments):
    """Run a command that must be refused; its one sentence is returned."""
    code = main([*map(str, arguments)])
    answer = capsys.readouterr()
    assert code == 2, (code, answer)
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1
    assert "Traceback" not in answer.err
    return answer.err


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Three runs of one plan: seeded and watched, secret and watched, secret and unwatched."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "plan.toml").write_text(PLAN)
    for name, options in {
        "seeded": ["--watch", "0,1"],
        "secret": ["--noise-source", "secret", "--watch", "1"],
        "unwatched": ["--noise-source", "secret"],
    }.items():
        assert main(["run", str(folder / "plan.toml"), *options, "--out", str(folder / name), "--json"]) == 0
    return folder


def test_the_exact_attack_recovers_whole_batches(capsys, tmp_path):
    answer = ask(capsys, *FRESH, "--attack", "exact", "--batch", 4, "--victims", 2, "--out", tmp_path)
    assert (answer["attack"], answer["batch"], answer["victims"]) == ("exact", 4, 2)
    assert answer["mean_rmse"] < 1e-3 < 0.1 < answer["prior_rmse"]
    assert answer["success_rate"] == answer["label_accuracy"] == answer["identification"] == 1
    assert max(one["loss"] for one in answer["per_victim"]) == 0


TRAP = ["--server", "malicious", "--attack", "imprint", "--batch", 8, "--victims", 2]


@pytest.mark.slow
def test_a_malicious_server_takes_a_batch_apart_and_the_noise_of_fed_cdp_stops_it(capsys, tmp_path):
    bare = ask(capsys, *FRESH, *TRAP, "--out", tmp_path)
    assert (bare["attack"], bare["batch"]) == ("imprint", 8)
    assert bare["identification"] >= 0.5
    noised = ask(capsys, *FRESH, *TRAP, "--method", "fed-cdp", "--sigma", 1, "--out", tmp_path)
    assert noised["identification"] == 0
    assert noised["gain"] <= 1e-6


def test_the_analytic_attack_recovers_and_answers_with_the_contract_keys(capsys, tmp_path):
    answer = ask(capsys, *FRESH, *ANALYTIC, "--victims", 3, "--surface", 2, "--out", tmp_path)
    assert set(CONTRACT.split()) <= answer.keys()
    found = {key: answer[key] for key in ("dataset", "method", "attack", "surface", "view", "network", "round", "rule")}
    assert found == {
        "dataset": "digits",
        "method": "non-private",
        "attack": "analytic",
        "surface": 2,
        "view": "released",
        "network": "Mlp",
        "round": 0,
        "rule": "default",
    }
    assert (answer["seed"], answer["victims"], len(answer["per_victim"])) == (0, 3, 3)
    assert len({one["client"] for one in answer["per_victim"]}) == 3
    assert answer["mean_rmse"] < 1e-3 < 0.1 < answer["prior_rmse"]
    assert answer["success_rate"] == answer["label_accuracy"] == answer["identification"] == 1
    assert answer["gain"] == pytest.approx(answer["prior_rmse"] - answer["mean_rmse"])
    assert answer["gain_ci"][0] < answer["gain"] < answer["gain_ci"][1]


def test_the_record_and_a_gallery_are_written_where_the_answer_says(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for options, folder in (["--out", "here"], Path("here")), ([], Path("runs") / "attacks"):
        answer = ask(capsys, *FRESH, *ANALYTIC, "--victims", 2, *options)
        record, gallery = Path(answer.pop("record")), Path(answer.pop("gallery"))
        assert {record.parent, gallery.parent} == {folder}
        assert strict(record.read_text()).keys() == answer.keys() | {"seal"}
        assert store.read_sealed(record) == answer
        assert gallery.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
        shown = record.with_suffix(".npz")
        assert {p.name for p in folder.iterdir()} == {record.name, gallery.name, shown.name}
        assert stat.S_IMODE(shown.stat().st_mode) == 0o600


def test_another_setting_is_another_record_and_the_same_setting_the_same(capsys, tmp_path):
    for rule in ("default", "loss", "default"):
        answer = ask(capsys, *FRESH, *ANALYTIC, "--victims", 2, "--rule", rule, "--out", tmp_path)
        assert strict(Path(answer["record"]).read_text())["rule"] == answer["rule"] == rule
    assert len(list(tmp_path.glob("*.json"))) == len(list(tmp_path.glob("*.png"))) == 2


def test_without_json_a_table_and_both_files_are_named(capsys, tmp_path):
    assert main([*FRESH, *ANALYTIC, "--victims", "2", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "analytic against non-private on digits: surface 2 (released)" in " ".join(said.split())
    for path in (*tmp_path.glob("*.json"), *tmp_path.glob("*.png")):
        assert path.name in "".join(said.split())


def timeless(value):
    """An answer without the seconds it took."""
    if isinstance(value, dict):
        return {key: timeless(part) for key, part in value.items() if key != "seconds"}
    return [timeless(part) for part in value] if isinstance(value, list) else value


def test_the_same_seed_gives_the_same_answer_and_another_seed_another(capsys, tmp_path):
    first, again, other = (
        timeless(ask(capsys, *FRESH, "--victims", 2, "--iterations", 2, "--seed", seed, "--out", tmp_path))
        for seed in (3, 3, 4)
    )
    assert first == again
    assert first["attack"] == "cpl"
    assert first["seed"] == 3
    assert all(one["iterations"] <= 2 for one in first["per_victim"])
    assert first["mean_rmse"] != other["mean_rmse"]


def test_list_attacks_names_all_of_them(capsys):
    listed = ask(capsys, "list", "attacks")["attacks"]
    assert [one["name"] for one in listed] == [*ATTACKS, *INFERENCES, *MALICIOUS]
    assert {one["name"] for one in listed if "--server malicious" in one["meaning"]} == set(MALICIOUS)
    assert {"dlg", "idlg", "cpl", "gradinv", "analytic", "map"} <= set(ATTACKS)
    assert main(["list", "attacks"]) == 0
    table = capsys.readouterr().out
    assert all(re.search(rf"\b{name}\b", table) for name in (*ATTACKS, *INFERENCES, *MALICIOUS))


BAD = {
    "unknown attack": (["--attack", "analitic"], "attack = 'analitic': must be one of", "did you mean analytic?"),
    "surface": (["--surface", "5"], "surface = '5'", "0, 1, 2"),
    "view": (
        ["--surface", "2", "--view", "arriving"],
        "view = 'arriving'",
        "must be released or in_memory at surface 2",
    ),
    "view of a server": (
        ["--surface", "0", "--view", "in_memory"],
        "view",
        "must be released, arriving, aggregate or model at surface 0",
    ),
    "model": (["--surface", "0", "--view", "model", "--attack", "membership"], "view = 'model'", "needs a run folder"),
    "cohort": (["--cohort", "3"], "--cohort", "only for --view aggregate"),
    "labels of members": (["--attack", "membership", "--told-labels"], "--told-labels", "has no use for labels"),
    "rule": (["--rule", "x"], "rule = 'x'", "default, paper, loss"),
    "round": (["--round", "1"], "--round", "only for a run folder"),
    "victims": (["--victims", "0"], "victims = 0", "at least 1"),
    "iterations": ([*ANALYTIC, "--iterations", "5"], "iterations", "'analytic' takes no such number"),
    "no iteration": (["--attack", "cpl", "--iterations", "0"], "iterations = 0", "at least 1"),
    "readings": (["--readings", "0"], "readings = 0", "at least 1"),
    "network": (["--network", "big"], "network = 'big'", "attack, trained, mlp"),
    "method": (["--method", "fed-dcp"], "method = 'fed-dcp'", "did you mean"),
    "sigma of nothing": (["--sigma", "2"], "sigma", "draws no noise"),
    "not dense": (["--attack", "exact", "--network", "attack"], "attack = exact", "dense on its input"),
    "server": (["--server", "evil"], "server = 'evil'", "honest, malicious"),
    "honest imprint": (["--attack", "imprint"], "attack = imprint", "needs --server malicious"),
    "malicious cpl": (["--server", "malicious", "--attack", "cpl"], "attack = 'cpl'", "imprint, fishing"),
    "bins": (
        ["--server", "malicious", "--attack", "imprint", "--network", "trained"],
        "attack = imprint",
        "such as --network mlp",
    ),
    "no bias": ([*ANALYTIC, "--network", "trained"], "attack = analytic", "first layer is dense and has a bias"),
    "prior": (["--attack", "map", "--prior", "vae"], "prior = 'vae'", "gaussian, decoder"),
    "prior of cpl": (["--attack", "cpl", "--prior", "decoder"], "prior = decoder", "map and unrolled do"),
    "seed": (["--seed", "-1"], "seed = -1", "must lie between"),
    "no such option": (["--no-such-option"], "--no-such-option", ""),
}


@pytest.mark.parametrize(("arguments", "key", "why"), BAD.values(), ids=BAD)
def test_bad_input_is_one_sentence_and_exit_code_2_and_leaves_nothing(capsys, tmp_path, arguments, key, why):
    sentence = refused(capsys, *FRESH, *arguments, "--out", tmp_path / "out")
    assert key in sentence
    assert why in sentence
    assert not (tmp_path / "out").exists()


def test_neither_a_run_nor_a_dataset_is_refused(capsys, tmp_path):
    assert "--dataset" in refused(capsys, "attack", "--out", tmp_path / "out")
    assert "mnits" in refused(capsys, "attack", "--dataset", "mnits", "--out", tmp_path / "out")


def attack(capsys, run, *arguments):
    return ask(capsys, "attack", run, *ANALYTIC, "--victims", 2, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("surface", [0, 1, 2])
def test_a_run_is_attacked_at_every_surface_after_any_round_that_it_kept(capsys, runs, surface):
    for options, done in (["--round", 0], 0), (["--round", 1], 1), ([], 2):
        answer = attack(capsys, runs / "seeded", "--surface", surface, *options)
        facts = ("method", "surface", "round", "setting", "readings", "batch", "local_steps", "victims")
        steps = 1 if surface == 2 else 2
        expected = ["quantile", surface, done, "as trained", 1, 4, steps, 2]
        assert [answer[fact] for fact in facts] == expected
        assert set(CONTRACT.split()) <= answer.keys()
        assert Path(answer["record"]).parent == runs / "seeded" / "attacks"
        assert Path(answer["record"]).exists()


@pytest.mark.slow
def test_several_rounds_are_fused_into_one_attack(capsys, runs):
    alone, both = (attack(capsys, runs / "seeded", "--round", rounds) for rounds in ("0", "0,1"))
    assert (both["round"], alone["readings"], both["readings"]) == (0, 1, 2)
    assert both["candidates"][0]["mu"] == pytest.approx(alone["candidates"][0]["mu"] * np.sqrt(2))


@pytest.mark.slow
@pytest.mark.parametrize("run", ["seeded", "secret"])
def test_in_memory_a_trained_network_still_gives_the_record_away(capsys, runs, run):
    answer = attack(capsys, runs / run, "--surface", 2, "--view", "in_memory", "--round", 1)
    assert (answer["view"], answer["batch"]) == ("in_memory", 1)
    assert answer["mean_rmse"] < 1e-3 < 0.1 < answer["prior_rmse"]
    whole = attack(capsys, runs / run, "--surface", 2, "--view", "in_memory", "--round", 1, "--batch", 4)
    assert (whole["view"], whole["batch"]) == ("in_memory", 4)
    assert whole["mean_rmse"] > 0.01


UNFIT = {
    "round": (["--round", "7"], "round = 7", "only of 0, 1, 2"),
    "one of two": (["--round", "1,7"], "round = 7", "--watch"),
    "sigma": (["--sigma", "1"], "--sigma", "has its plan"),
    "dataset": (["--dataset", "digits"], "--dataset", "has its plan"),
    "method": (["--method", "fed-cdp"], "--method", "has its plan"),
    "local steps": (["--local-steps", "1"], "--local-steps", "has its plan"),
    "readings": (["--readings", "2"], "--readings", "--round"),
    "network": (["--network", "mlp"], "network = 'mlp'", "the network it trained"),
    "view": (["--view", "arriving"], "view = 'arriving'", "at surface 2"),
    "batch": (["--batch", "3"], "batch = 3", "batches of 4"),
    "single": (["--batch", "1"], "batch = 1", "batches of 4"),
    "victims": (["--victims", "-1"], "victims = -1", "at least 1"),
}


@pytest.mark.parametrize(("arguments", "key", "why"), UNFIT.values(), ids=UNFIT)
def test_what_a_run_has_settled_or_not_kept_is_refused(capsys, runs, tmp_path, arguments, key, why):
    sentence = refused(capsys, "attack", runs / "seeded", *ANALYTIC, *arguments, "--out", tmp_path / "out")
    assert key in sentence
    assert why in sentence
    assert not (tmp_path / "out").exists()


def test_a_folder_that_holds_no_run_is_refused(capsys, tmp_path):
    assert "is not a run folder" in refused(capsys, "attack", tmp_path)
    assert "is not a run folder" in refused(capsys, "attack", tmp_path / "nothing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "key"), [(["--round", ","], "round"), (["--seed", "-1"], "seed"), (["--round", "x"], "round = 'x'")]
)
def test_numbers_that_make_no_sense_for_a_run_are_refused(capsys, runs, arguments, key):
    assert key in refused(capsys, "attack", runs / "seeded", *ANALYTIC, *arguments)


def opened(run):
    plan, data = store.read_plan(run), load("digits")
    start = server.init(plan, data.shape, len(data.classes), Keys.of(plan.seed, secret=False))
    return plan, data, start


def checkpoint(run, name, start):
    return store.restore(run / "checkpoints" / f"{name}.npz", start)


@pytest.mark.parametrize(
    ("name", "t", "before", "after"),
    [
        ("seeded", 0, "round-000000", "round-000001"),
        ("seeded", 1, "round-000001", "latest"),
        ("secret", 1, "round-000001", "latest"),
    ],
)
@pytest.mark.parametrize("tap", [Tap(Surface.UPDATE), Tap(Surface.SERVER, "arriving")], ids=["sent", "arriving"])
def test_the_updates_that_are_read_moved_the_model_from_one_checkpoint_to_the_next(runs, name, t, before, after, tap):
    run = runs / name
    plan, data, start = opened(run)
    old, new = (checkpoint(run, which, start) for which in (before, after))
    scene = scenes.of_run(run, plan, data, tap, (t,))
    assert len(scene.pool) == plan.cohort
    assert (old.participations[scene.pool] + 1 == new.participations[scene.pool]).all()
    reads = [scene.read(int(client), 0) for client in scene.pool]
    for layer in range(4):
        mean = np.mean([read.gradient[layer] for read in reads], axis=0)
        moved = np.asarray(new.params[layer]) - np.asarray(old.params[layer])
        assert np.abs(moved).max() > 0.01
        np.testing.assert_allclose(-plan.learning_rate * plan.local_steps * mean, moved, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(reads[0].params[layer], old.params[layer])
    np.testing.assert_array_equal(reads[0].clip_state, old.clip_state)


def test_a_run_with_secret_noise_can_be_attacked_where_it_was_watched_and_nowhere_else(capsys, runs):
    for surface in (0, 1, 2):
        answer = attack(capsys, runs / "secret", "--surface", surface, "--round", 1)
        assert (answer["round"], answer["surface"], answer["victims"]) == (1, surface, 2)
    assert attack(capsys, runs / "secret")["round"] == 1
    sentence = refused(capsys, "attack", runs / "secret", *ANALYTIC, "--round", "0")
    assert "the noise of this run is secret" in sentence
    assert "only rounds 1 were recorded" in sentence


def test_what_was_recorded_is_for_its_owner_alone(runs):
    (file,) = (runs / "secret" / "leaks").iterdir()
    assert file.name == "round-000001.npz"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not (runs / "seeded" / "leaks").exists()


def test_a_run_with_secret_noise_that_was_not_watched_is_refused_in_a_clear_sentence(capsys, runs):
    for options in (["--round", "1"], []):
        sentence = refused(capsys, "attack", runs / "unwatched", *ANALYTIC, *options)
        assert "the noise of this run is secret" in sentence
        assert "none was recorded" in sentence
        assert "--watch" in sentence


def test_recorded_readings_are_what_a_replay_gives(runs, tmp_path):
    plan, data, start = opened(runs / "seeded")
    roots, state = Keys.of(plan.seed, secret=False), checkpoint(runs / "seeded", "round-000001", start)
    assert float(state.clip_state) != float(start.clip_state)
    population = Population.of(plan, data)
    recording.record(tmp_path, plan, population, state, roots)
    whole = [Tap(surface, view) for surface, views in VIEWS.items() for view in views[:2]]
    for tap in (*whole, Tap(Surface.EXAMPLE, "in_memory", single=True)):
        records = recording.load(tmp_path, plan, tap, None, start)
        assert records.rounds == (1,)
        np.testing.assert_array_equal(records.clients, cohort_of(plan, 1, roots))
        for client in map(int, records.clients):
            recorded, again = records.read(client, 0), leaks.read(plan, population, state, roots, client, tap)
            for part in ("params", "gradient", "std"):
                for one, other in zip(getattr(recorded, part), getattr(again, part), strict=True):
                    np.testing.assert_array_equal(one, other)
            np.testing.assert_array_equal(recorded.clip_state, again.clip_state)
            np.testing.assert_array_equal(recorded.rows, again.rows)
    cohort = cohort_of(plan, 1, roots)
    recorded = recording.load(tmp_path, plan, SUM, None, start).read(0, 0)
    again = read_sum(plan, population, state, leaks.round_key(state, roots), cohort)
    for one, other in zip(recorded.gradient, again.gradient, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(recorded.rows, again.rows)


def test_a_whole_batch_of_a_recorded_run_is_a_whole_batch(runs):
    plan, data, _ = opened(runs / "secret")
    scene = scenes.of_run(runs / "secret", plan, data, Tap(Surface.EXAMPLE, "in_memory"), (1,))
    assert len(scene.read(int(scene.pool[0]), 0).rows) == plan.batch


def test_whoever_is_read_in_several_rounds_took_part_in_all_of_them(runs):
    plan, data, _ = opened(runs / "seeded")
    roots = Keys.of(plan.seed, secret=False)
    scene = scenes.of_run(runs / "seeded", plan, data, Tap(Surface.UPDATE), (0, 1))
    both = set(cohort_of(plan, 0, roots)) & set(cohort_of(plan, 1, roots))
    assert 0 < len(both) < plan.cohort
    assert set(scene.pool) == both


@pytest.mark.slow
def test_members_are_sought_in_the_sum_of_fed_sum_and_the_record_is_valid_by_its_schema(capsys, tmp_path):
    sums = ["attack", "--dataset", "digits", "--method", "fed-sum", "--surface", "0", "--view", "aggregate"]
    found = ask(capsys, *sums, "--cohort", "2", "--victims", "2", "--attack", "membership", "--out", tmp_path)
    assert (found["cohort"], found["batch"], found["network"], found["round"]) == (2, 6, "SoftmaxRegression", 2)
    told = found["membership"]
    assert told["members"] == told["others"] + told["calibration"] > 2000
    assert told["mu"] == pytest.approx(1 / 17 / 2**0.5)
    assert [rate["fpr"] for rate in told["rates"]] == [0.001, 0.01]
    assert all(rate["bound"] > rate["tpr_ci"][0] for rate in told["rates"])
    assert found["gallery"] is None
    schema = json.loads((Path(__file__).parents[2] / "docs/schemas/attack-record.schema.json").read_text())
    stored = json.loads(Path(found["record"]).read_text())
    assert not list(Draft202012Validator(schema).iter_errors({k: v for k, v in stored.items() if k != "seal"}))
