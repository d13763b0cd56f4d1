"""Data with features in place of examples: one row at a time, once, and the same wherever a plan meets its data."""

from dataclasses import replace

import numpy as np
import pytest

import gradveil
from gradveil.data.dataset import Dataset, Split
from gradveil.federation.plan_data import data_for
from gradveil.leakage import scenes
from gradveil.methods import FED_SUM
from gradveil.models.features.description import Features, ScatteringBlock, TableBlock
from gradveil.models.features.extract import extract
from gradveil.models.features.maps import RandomMap
from gradveil.runs import presets, runner, store
from gradveil.runs.runner import Options

FEATURES = Features(scattering=ScatteringBlock(scales=1, angles=2, keep=2), map=RandomMap(k=12))


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("GRADVEIL_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def digits():
    return gradveil.dataset("digits")


def plan_for(dataset, **changes):
    settings = {"clients": 4, "client_size": 30, "rounds": 3, "features": FEATURES} | changes
    return presets.resolve(dataset.name, dataset, FED_SUM, settings)


def test_examples_are_replaced_by_their_features_and_labels_stay(digits):
    seen = data_for(plan_for(digits), digits)
    for before, after in ((digits.train, seen.train), (digits.test, seen.test)):
        np.testing.assert_array_equal(after.x, extract(FEATURES, before.x))
        np.testing.assert_array_equal(after.y, before.y)
    assert seen.shape == (12,)
    assert FEATURES.origin in seen.notes
    assert seen.classes == digits.classes


def test_features_are_not_taken_of_features(digits):
    plan = plan_for(digits)
    seen = data_for(plan, digits)
    assert data_for(plan, seen) is seen
    assert data_for(replace(plan, features=None), digits) is digits


def test_a_row_of_a_table_keeps_its_columns_unless_a_map_mixes_them():
    table = gradveil.dataset("synthetic")
    small = Split(table.train.x[:50], table.train.y[:50])
    named = Dataset("rows", small, None, small, table.classes, features=(gradveil.data.dataset.Feature("a", 0, 20),))
    for features, columns in ((Features(table=TableBlock()), named.features), (
        Features(table=TableBlock(), map=RandomMap(k=5)), ())):  # fmt: skip
        plan = plan_for(table, client_size=10, features=features)
        assert data_for(plan, named).features == columns


@pytest.mark.parametrize("engine", ["serial", "vectorized"])
def test_a_run_trains_on_features_is_resumed_on_them_and_read_by_attacks(digits, tmp_path, engine):
    plan, folder = plan_for(digits), tmp_path / "run"
    begun = runner.prepare(plan, digits, folder, Options(engine=engine, watch=frozenset({2})))
    training = runner.proceed(begun)
    next(training)
    training.close()
    again = runner.prepare(plan, digits, folder, Options(engine=engine, resume=True))
    assert len(list(runner.proceed(again))) == 2
    assert again.dataset.shape == (12,)
    assert again.state.params[-1].shape == (13, 10)
    scene = scenes.of_run(
        folder, store.read_plan(folder), digits, scenes.Tap.at(plan, plan.method.surface, "released"), (2,)
    )
    assert scene.dataset.shape == (12,)


def test_other_features_are_other_data_to_a_run_folder(digits, tmp_path):
    plan, folder = plan_for(digits), tmp_path / "run"
    runner.prepare(plan, digits, folder, Options())
    other = replace(plan, features=replace(FEATURES, seed=1))
    with pytest.raises(gradveil.BadInput):
        runner.prepare(other, digits, folder, Options(resume=True))


def test_a_plan_file_keeps_its_features(digits, tmp_path):
    plan = plan_for(digits)
    runner.prepare(plan, digits, tmp_path / "run", Options())
    assert store.read_plan(tmp_path / "run") == plan
