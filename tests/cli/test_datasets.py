import json
import os

import numpy as np
import pytest

from gradveil.cli.main import main
from gradveil.data.sources import where

EXAMPLES = {"mnist": 10_000, "lfw": 756, "adult": 12_211, "cancer": 143, "digits": 450}


def available(name):
    return where(name) is not None


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_paper_preset_of_each_dataset_trains_a_round(capsys, tmp_path, name):
    if not available(name):
        pytest.skip(f"{name} is not in GRADVEIL_DATA ({os.environ.get('GRADVEIL_DATA', 'not set')}) nor in the cache")
    given = ["run", "--dataset", name, "--method", "fed-alpha-cdp", "--rounds", "1", "--cohort", "2"]
    assert main([*given, "--local-steps", "3", "--out", str(tmp_path / "run"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["test_examples"] == EXAMPLES[name]
    assert answer["majority_baseline"] < 0.8
    assert answer["copies"] >= 1


def test_an_npz_file_trains_and_is_loaded_again(capsys, tmp_path):
    import gradveil

    random = np.random.default_rng(0)
    y = random.integers(0, 2, 400)
    x = (random.normal(size=(400, 5)) + 3 * y[:, None]).astype(np.float32)
    np.savez(tmp_path / "own.npz", x=x, y=y)
    given = ["run", "--dataset", str(tmp_path / "own.npz"), "--method", "non-private", "--out", str(tmp_path / "run")]
    assert main([*given, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.9
    model = gradveil.load(tmp_path / "run")
    assert np.mean(np.array(model.classes)[model.predict(x)] == y.astype(str)) > 0.9
    with pytest.raises(gradveil.BadInput, match="shape"):
        model.predict(x[:, :3])
