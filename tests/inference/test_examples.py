"""The scripts under examples/ run as they stand, and end where they say."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def carried_out(name):
    return runpy.run_path(str(EXAMPLES / f"{name}.py"))["main"]()


@pytest.mark.slow
def test_a_clip_and_an_attack_of_ones_own(capsys):
    accuracy, verdict = carried_out("own_clip_and_attack")
    assert accuracy > 0.5
    assert verdict != "leaks"
    assert "Your own parts were trusted, not proved: SoftClip" in capsys.readouterr().out


@pytest.mark.slow
def test_a_model_of_flax():
    pytest.importorskip("flax")
    assert carried_out("flax_model") > 0.5


@pytest.mark.slow
def test_a_model_of_torch():
    pytest.importorskip("torch2jax")
    assert carried_out("torch_model") > 0.5
