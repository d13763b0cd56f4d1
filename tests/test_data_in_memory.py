"""A run on data in memory is attacked and audited with the data given again, and with no other."""

import numpy as np
import pytest

import gradveil
from gradveil.errors import BadInput
from gradveil.models.networks import Mlp


def _data(shift=0.0, name="data"):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)).astype(np.float32) + np.float32(shift)
    y = (x.sum(axis=1) > 0).astype(int)
    return gradveil.Dataset.of(x, y, test=(x[:10], y[:10]), classes=("no", "yes"), name=name)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory") / "run"
    plan = gradveil.plan(_data(), "fed-cdp", rounds=2, clients=3, noise_source="seeded", model=Mlp((4,), bias=True))
    gradveil.train(plan, folder, data=_data())
    return folder, plan


def test_an_attack_on_a_run_and_on_a_plan_takes_the_data(run):
    folder, plan = run
    for target in (folder, plan):
        record = gradveil.attack(target, 2, "membership" if target is folder else "analytic", 1, data=_data())
        assert record.surface == 2


@pytest.mark.slow
def test_an_audit_takes_the_data(run):
    folder, plan = run
    assert gradveil.audit(plan, levels=("mechanism",), releases=1000, data=_data()).verdict != "refuted"
    assert gradveil.audit(folder, levels=("mechanism",), releases=1000, data=_data()).verdict != "refuted"


@pytest.mark.parametrize("verb", [gradveil.attack, gradveil.audit])
def test_other_data_and_none_are_refused(run, verb):
    folder, plan = run
    with pytest.raises(BadInput, match="its run was trained on other data named 'memory:data'"):
        verb(folder, data=_data(shift=0.1))
    with pytest.raises(BadInput, match="the plan is for 'memory:data'"):
        verb(plan, data=_data(name="other"))
    with pytest.raises(BadInput, match="is in the memory of a program; give it with data="):
        verb(plan)
