from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import gradveil
from gradveil import names
from gradveil.accounting.threats import THREATS
from gradveil.attacks.zoo import ATTACKS
from gradveil.methods import METHODS


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
    with pytest.raises(gradveil.BadInput, match="kind"):
        gradveil.load(tmp_path / "run")


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
