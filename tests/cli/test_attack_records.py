"""What an attack leaves on disk: every setting under a name of its own, and no true record of one's own data."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from gradveil.cli.main import main

pytestmark = pytest.mark.slow
FRESH = ["attack", "--dataset", "digits", "--network", "mlp", "--attack", "map", "--iterations", "1", "--victims", "1"]


def attacked(folder, *options):
    assert main([*map(str, options), "--out", str(folder), "--json"]) == 0


def test_no_two_settings_share_a_record_and_each_record_says_all_of_them(tmp_path):
    variants = [[], ["--iterations", "2"], ["--clip", "flat:3"], ["--lr", "0.5"], ["--seed", "1"], ["--restarts", "2"]]
    for options in variants:
        attacked(tmp_path, *FRESH, *options)
    records = [json.loads(path.read_text()) for path in tmp_path.glob("*.json")]
    assert len(records) == len(variants)
    told = [json.dumps(record["settings"], sort_keys=True) for record in records]
    assert len(set(told)) == len(variants)
    assert {record["settings"]["plan"]["learning_rate"] for record in records} == {1.0, 0.5}
    assert any("iterations=2" in record["settings"]["attack"] for record in records)
    attacked(tmp_path, *FRESH)
    assert len(list(tmp_path.glob("*.json"))) == len(variants)


@pytest.fixture
def own(tmp_path):
    random = np.random.default_rng(0)
    x = random.normal(size=(80, 3)).astype(np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=(x[:, 0] > 0).astype(np.int32))
    return tmp_path / "own.npz", x


def holds(path, rows):
    """Whether a file of arrays holds one of the rows."""
    with np.load(path) as file:
        arrays = [file[name] for name in file.files if file[name].dtype.kind == "f"]
    tails = [a.reshape(-1, rows.shape[1]) for a in arrays if a.size and a.shape[-1] == rows.shape[1]]
    return any(np.isclose(tail[:, None], rows[None], atol=1e-6).all(axis=2).any() for tail in tails)


def test_of_ones_own_data_no_true_record_is_written_unless_asked_for(tmp_path, own):
    path, rows = own
    options = ["attack", "--dataset", path, "--attack", "map", "--iterations", "1", "--victims", "1"]
    attacked(tmp_path / "usual", *options)
    assert [p.suffix for p in (tmp_path / "usual").iterdir()] == [".json"]
    attacked(tmp_path / "kept", *options, "--keep-truth")
    (kept,) = (tmp_path / "kept").glob("*.npz")
    assert holds(kept, rows)
    assert kept.stat().st_mode & 0o077 == 0


def test_a_run_on_ones_own_data_that_attacks_itself_keeps_no_true_record(tmp_path, own, capsys):
    path, _ = own
    run = tmp_path / "run"
    words = ["run", "--dataset", str(path), "--rounds", "1", "--attack", "--out", str(run), "--json"]
    assert main(words) == 0
    assert list((run / "attacks").glob("*.json"))
    assert not list((run / "attacks").glob("*.npz"))
    capsys.readouterr()
    assert main(["report", str(run), "--show-truth"]) == 2
    assert "attack it with --keep-truth" in capsys.readouterr().err


@pytest.fixture(scope="module")
def attacked_run(tmp_path_factory):
    """A run that attacked itself, made once; it is copied before it is damaged."""
    run = tmp_path_factory.mktemp("attacked") / "run"
    words = ["run", "--dataset", "synthetic", "--clients", "2", "--cohort", "2", "--client-size", "20", "--batch", "2"]
    assert main([*words, "--local-steps", "1", "--rounds", "1", "--attack", "--out", str(run), "--json"]) == 0
    return run


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_a_damaged_record_is_refused_by_the_report(attacked_run, tmp_path, capsys, ending):
    run = Path(shutil.copytree(attacked_run, tmp_path / "run"))
    victim = next((run / "attacks").glob(f"*{ending}"))
    whole = victim.read_bytes()
    changed = json.dumps(json.loads(whole) | {"gain": 0.5}).encode() if ending == ".json" else b"{}"
    for content in (changed, whole[:100], b"", b"[]"):
        victim.write_bytes(content)
        capsys.readouterr()
        assert main(["report", str(run)]) == 2
        assert str(victim) in capsys.readouterr().err
