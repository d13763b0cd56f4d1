"""Numbers, words, files and sizes that cannot work: one sentence, exit code 2, and nothing left on disk."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from gradveil.cli.main import main

SMALL = ["run", "--dataset", "synthetic", "--clients", "4", "--cohort", "4", "--client-size", "40", "--batch", "4",
         "--local-steps", "1", "--rounds", "1"]  # fmt: skip
HUGE = "100000000000000000000"


def refused(capsys, *arguments):
    """Run a command that must be refused; its one sentence is returned."""
    code = main([str(word) for word in arguments])
    answer = capsys.readouterr()
    assert code == 2, (code, answer)
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1, answer.err
    return answer.err


RUN = {
    "rounds": ["--rounds", HUGE],
    "clients": ["--clients", HUGE],
    "local_steps": ["--local-steps", HUGE],
    "local_steps = 1000000000": ["--local-steps", "1000000000"],
    "rounds x local_steps = 1000000000 x 1": ["--rounds", "1000000000"],
    "batch": ["--batch", HUGE],
    "client_size": ["--client-size", HUGE],
    "seed": ["--seed", HUGE],
    "sigma": ["--sigma", "1e-320"],
    "learning_rate": ["--lr", "1e-320"],
    "c = 1e+300": ["--clip", "1e300"],
    "delta": ["--delta", "1e-320"],
    "alpha": ["--partition", "dirichlet:1e-320"],
    "sampling = ''": ["--sampling", ""],
    "draw = ''": ["--draw", ""],
    "watch = 999999: must be at most rounds = 1": ["--watch", "999999"],
    "sensitivity = 'l2-max': method 'non-private' draws no noise": [
        "--sensitivity", "l2-max", "--method", "non-private",
    ],
    "draw = 'mean': method 'non-private' draws no noise": ["--draw", "mean", "--method", "non-private"],
    "sigma_end": ["--decay", "constant", "--sigma-end", "2"],
    "threat_model": ["--threat-model", "x"],
    "one round already spends": ["--max-epsilon", "0.0001"],
}  # fmt: skip


@pytest.mark.parametrize("said", RUN)
def test_a_run_that_cannot_be_trained_is_refused_by_its_key_and_leaves_nothing(capsys, tmp_path, said):
    sentence = refused(capsys, *SMALL, *RUN[said], "--out", tmp_path / "run")
    assert said.split(" = 1000000000")[0] in sentence
    assert list(tmp_path.iterdir()) == []


ACCOUNT = ["account", "--sigma", "6", "--q", "0.1", "--local-steps", "2"]
QUESTIONS = {
    "steps = 4, rounds = 2: give": [*ACCOUNT, "--steps", "4", "--rounds", "2"],
    "participations = 0": [*ACCOUNT, "--rounds", "2", "--participations", "0"],
    "layers": [*ACCOUNT, "--rounds", "2", "--layers", HUGE],
    "copies": [*ACCOUNT, "--rounds", "2", "--copies", HUGE],
    "batch": [*ACCOUNT, "--rounds", "2", "--batch", HUGE],
    "rounds": [*ACCOUNT, "--rounds", HUGE],
    "rounds = 10000000": [*ACCOUNT, "--rounds", "10000000"],
    "rounds x local_steps": [*ACCOUNT, "--rounds", "100000", "--local-steps", "1000"],
    "delta = 1e-320": [*ACCOUNT, "--rounds", "2", "--delta", "1e-320"],
    "q = 1e-320": [*ACCOUNT, "--rounds", "2", "--q", "1e-320"],
    "sigma = 1e-320": [*ACCOUNT, "--rounds", "2", "--sigma", "1e-320"],
    "sampling = ''": [*ACCOUNT, "--rounds", "2", "--sampling", ""],
    "sigma_end = nan": [*ACCOUNT, "--rounds", "2", "--decay", "linear", "--sigma-end", "nan"],
    "sigma_end = 2.0: needs --decay": ["plan", "--target-epsilon", "4", "--q", "0.1", "--sigma-end", "2"],
    "clip = -1": ["plan", "--target-epsilon", "4", "--q", "0.1", "--clip", "-1"],
    "clip = nan": ["plan", "--target-epsilon", "4", "--q", "0.1", "--clip", "nan"],
    "s_dyn = nan": ["plan", "--target-epsilon", "4", "--q", "0.1", "--s-dyn", "nan"],
}


@pytest.mark.parametrize("said", QUESTIONS)
def test_a_question_that_no_accountant_can_answer_is_refused_by_its_key(capsys, said):
    assert said in refused(capsys, *QUESTIONS[said])


FRESH = ["attack", "--dataset", "digits", "--network", "mlp", "--attack", "analytic"]
ATTACKS = {
    "batch = 0": ["--batch", "0"],
    "local_steps = 0": ["--local-steps", "0"],
    "victims = 1000000: only 10 clients": ["--victims", "1000000"],
    "victims = 0": ["--victims", "0"],
    "readings": ["--readings", HUGE],
    "seed": ["--seed", HUGE],
    "restarts": ["--restarts", HUGE, "--attack", "map"],
    "iterations = 0": ["--iterations", "0", "--attack", "map"],
}


@pytest.mark.parametrize("said", ATTACKS)
def test_an_attack_that_cannot_be_made_is_refused_by_its_key(capsys, tmp_path, said):
    assert said in refused(capsys, *FRESH, *ATTACKS[said], "--out", tmp_path / "found")
    assert list(tmp_path.iterdir()) == []


def own_csv(folder):
    rows = [f"{i},{i * i % 7},{'yes' if i % 2 else 'no'}" for i in range(60)]
    (folder / "own.csv").write_text("\n".join(["a,b,label", *rows]))
    return folder / "own.csv"


def test_train_all_belongs_to_mnist_alone(capsys, tmp_path):
    sentence = refused(capsys, "run", "--dataset", own_csv(tmp_path), "--target", "label", "--train-all")
    assert "train_all: only mnist has a validation split" in sentence


@pytest.mark.parametrize("text", [b"", b"\n# only a remark\n"])
def test_an_empty_plan_file_is_no_plan(capsys, tmp_path, text):
    (tmp_path / "plan.toml").write_bytes(text)
    assert "is empty" in refused(capsys, "run", tmp_path / "plan.toml", "--out", tmp_path / "run")


@pytest.mark.parametrize("text", [b"a = " + b"[" * 5000, b"a = " + b"{b = " * 3000])
def test_a_plan_file_that_is_nested_too_deep_is_one_sentence(capsys, tmp_path, text):
    (tmp_path / "plan.toml").write_bytes(text)
    assert "nested too deep" in refused(capsys, "run", tmp_path / "plan.toml", "--out", tmp_path / "run")


@pytest.mark.parametrize("kind", ["pipe", "folder", "device"])
def test_only_a_file_is_a_plan_file(capsys, tmp_path, kind):
    path = {"pipe": tmp_path / "pipe", "folder": tmp_path, "device": "/dev/zero"}[kind]
    if kind == "pipe":
        os.mkfifo(path)
    assert "is not a file" in refused(capsys, "run", path)


def limited(limit, *arguments):
    """Run the command line in a process of its own, under a limit that a shell sets."""
    words = [sys.executable, "-m", "gradveil", *map(str, arguments)]
    shell = ["sh", "-c", f'{limit}; exec "$@"', "sh", *words]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(shell, capture_output=True, text=True, timeout=120, env=environment)


TOO_LARGE = {
    "a model of": 'model = {kind = "Mlp", hidden = [100000, 100000000]}\nclients = 2\ncohort = 1',
    "clients x client_size": 'dataset = "many.npz"\nclients = 10000000\nclient_size = 50000\ncohort = 2',
    "the updates of cohort": 'clients = 1000000\ncohort = 1000000\nmodel = {kind = "Mlp", hidden = [100000]}',
}


@pytest.mark.slow
@pytest.mark.parametrize("said", TOO_LARGE)
def test_a_plan_beyond_the_memory_is_refused_with_the_numbers_before_anything_is_made(tmp_path, said):
    """In a process that may not take 8 GB of addresses: whoever makes the arrays first dies of another sentence."""
    np.savez(tmp_path / "many.npz", x=np.zeros((100_000, 1), np.uint8), y=np.arange(100_000) % 2)
    base = 'rounds = 1\nbatch = 1\npartition = {kind = "Iid"}\nsampling = {kind = "FixedPass"}\n'
    named = TOO_LARGE[said].replace("many.npz", str(tmp_path / "many.npz"))
    synthetic = "" if "dataset" in named else 'dataset = "synthetic"\n'
    (tmp_path / "plan.toml").write_text(synthetic + base + named + "\n")
    answer = limited("ulimit -v 8388608", "run", tmp_path / "plan.toml", "--out", tmp_path / "run")
    assert answer.returncode == 2, answer.stderr
    assert said in answer.stderr
    assert "GiB in all, and this machine has" in answer.stderr
    assert not (tmp_path / "run").exists()


def test_a_plan_that_fits_is_counted_below_what_it_holds_and_above_its_shards():
    from gradveil import dataset, plan
    from gradveil.federation.footprint import memory, needed

    data = dataset("synthetic")
    made = plan("synthetic", "fed-cdp", clients=5, cohort=3, client_size=20, batch=4, rounds=2, local_steps=7)
    parts = needed(made, data)
    drawn = made.model.init(jax.random.key(0), data.shape, len(data.classes))
    count = sum(int(np.prod(leaf.shape)) for leaf in drawn)
    assert list(parts.values())[:5] == [12 * count, 2 * 4 * 3 * count, 4 * 4 * count, 2 * 4 * 5 * 20, 8 * 2 * 7]
    assert memory() > 2**28


def test_a_model_that_sums_its_gradients_unmade_needs_no_memory_for_them_and_reads_the_features():
    from gradveil import dataset, plan
    from gradveil.federation.footprint import needed
    from gradveil.models.features.description import Features, ScatteringBlock
    from gradveil.models.features.maps import RandomMap

    features = Features(scattering=ScatteringBlock(), map=RandomMap(k=50))
    made = plan("digits", "fed-sum", clients=4, client_size=20, rounds=4, features=features)
    held, moment = 50 + 50 * 50 + 51 * 10, 50 * 51 // 2
    assert list(needed(made, dataset("digits")).values())[:3] == [12 * held, 2 * 4 * 4 * moment, 0]


PLACES = {"a file": "file/run", "a name too long": "n" * 300, "a path too long": "d/" * 3000 + "run"}


@pytest.mark.parametrize("place", PLACES)
def test_a_run_folder_that_cannot_be_made_is_one_sentence(capsys, tmp_path, place):
    (tmp_path / "file").write_text("mine")
    refused(capsys, *SMALL, "--out", tmp_path / PLACES[place])
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("place", ["/dev/null/x", "/proc/nothing/x", "/dev/full/x", "n" * 300])
def test_a_report_that_cannot_be_written_is_one_sentence(capsys, tmp_path, place):
    assert main([*SMALL, "--out", str(tmp_path / "run"), "--json"]) == 0
    capsys.readouterr()
    refused(capsys, "report", tmp_path / "run", "--out", place)


def test_a_full_disk_is_one_sentence(capsys, tmp_path):
    """A limit on the size of files is what a full disk is to a process: the write fails with an OSError."""
    answer = limited("ulimit -f 4", *SMALL, "--out", tmp_path / "run")
    assert answer.returncode == 2, answer.stderr
    assert answer.stderr.splitlines()[-1].startswith("gradveil: ")
    assert "Traceback" not in answer.stderr


@pytest.mark.parametrize("word", ["a\x00b", "\udcff"])
def test_an_argument_that_no_file_name_or_plan_can_hold_is_refused(capsys, tmp_path, word):
    assert "must be text in UTF-8 without NUL" in refused(capsys, *SMALL, "--out", str(tmp_path / "x") + word)


def test_a_mistake_of_the_program_still_shows_itself(monkeypatch):
    from gradveil.cli import main as entry

    def wrong(error):
        def verb(*words, **options):
            raise error

        return verb

    for error in (TypeError("x"), KeyError("x"), ValueError("x"), RuntimeError("x"), RecursionError("x")):
        monkeypatch.setattr(entry, "app", wrong(error))
        with pytest.raises(type(error)):
            main(["list"])


def test_a_built_in_dataset_wins_over_a_folder_of_its_name_and_a_dot_makes_it_a_path(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "synthetic").mkdir()
    assert main([*SMALL, "--out", "run", "--json"]) == 0
    assert 'dataset = "synthetic"' in (tmp_path / "run" / "plan.toml").read_text()
    capsys.readouterr()
    sentence = refused(capsys, *SMALL, "--dataset", "./synthetic", "--out", "other")
    assert str(tmp_path / "synthetic") in sentence
