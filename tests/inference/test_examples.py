"""The scripts under examples/ run as they stand, and end where they say."""

import importlib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def carried_out(monkeypatch):
    """Import an example as its user would, from its folder, and run it."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return lambda name: importlib.import_module(name).main()


@pytest.mark.slow
def test_a_clip_and_an_attack_of_ones_own(carried_out, capsys):
    accuracy, verdict = carried_out("own_clip_and_attack")
    assert accuracy > 0.5
    assert verdict != "leaks"
    assert "Your own parts were trusted, not proved: SoftClip" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_of_flax(carried_out):
    pytest.importorskip("flax")
    assert carried_out("flax_model") > 0.5


@pytest.mark.slow
def test_a_model_of_torch(carried_out):
    pytest.importorskip("torch2jax")
    assert carried_out("torch_model") > 0.5
