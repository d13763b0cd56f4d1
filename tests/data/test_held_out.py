"""Rows that are held out to stop by are not trained on, and the guarantee says that nothing covers them."""

import numpy as np
import pytest

import gradveil
from gradveil.data import sources
from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.runs.counted import HELD_OUT
from gradveil.runs.shorthand import divided


def _data(changed=0.0, **options):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 3)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(int)
    plain = gradveil.Dataset.of(x, y, test=(x[:10], y[:10]), classes=("no", "yes"), validation=0.25)
    places = np.flatnonzero((x[:, None] == plain.validation.x).all(axis=2).any(axis=1))
    x[places] += changed
    return gradveil.Dataset.of(x, y, test=(x[:10], y[:10]), classes=("no", "yes"), validation=0.25, **options)


def test_a_fraction_is_held_out_by_place_and_every_row_stays_in_one_split():
    data, moved = _data(), _data(changed=5.0)
    assert (len(data.train), len(data.validation)) == (60, 20)
    rows = np.concatenate([data.train.x, data.validation.x])
    assert len(np.unique(rows, axis=0)) == 80
    np.testing.assert_array_equal(data.train.x, moved.train.x)
    np.testing.assert_allclose(data.validation.x + 5.0, moved.validation.x, rtol=1e-6)


def test_rows_held_out_change_no_parameter_and_decide_when_to_stop():
    options = {"rounds": 3, "noise_source": "seeded", "clients": 3, "target_accuracy": 1.0}
    runs = [gradveil.train(gradveil.plan(data, **options), data=data) for data in (_data(), _data(changed=50.0))]
    assert runs[0].result.rounds == runs[1].result.rounds == 3
    assert runs[0].result.params_sha256 == runs[1].result.params_sha256
    seen = [[line.stop_accuracy for line in run.history] for run in runs]
    assert seen[0] != seen[1]
    assert HELD_OUT in runs[0].guarantee("server").caveats


def test_without_a_target_nothing_is_said_of_rows_that_decide_nothing():
    data = _data()
    model = gradveil.train(gradveil.plan(data, rounds=1, noise_source="seeded", clients=3), data=data)
    assert HELD_OUT not in model.guarantee("server").caveats


def test_a_table_and_a_built_in_dataset_hold_out_a_fraction_and_a_plan_says_which(tmp_path):
    data = gradveil.dataset("synthetic", validation=0.1)
    whole = gradveil.dataset("synthetic")
    assert len(data.validation) == np.ceil(0.1 * len(whole.train))
    assert len(data.train) + len(data.validation) == len(whole.train)
    plan = gradveil.plan("synthetic", validation=0.1)
    assert plan.loading["validation"] == 0.1


@pytest.mark.parametrize(("fraction", "said"), [(0, "between 0 and 1"), (1.5, "between 0 and 1"), (0.9999, "leaves 0")])
def test_a_fraction_that_leaves_nothing_is_refused(fraction, said):
    with pytest.raises(BadInput, match=said):
        gradveil.dataset("synthetic", validation=fraction)


def test_a_client_keeps_a_row():
    x = np.arange(80, dtype=np.float32).reshape(20, 4)
    names = ["a"] * 19 + ["b"]
    with pytest.raises(BadInput, match=r"leaves the client '.' no row to train on"):
        gradveil.Dataset.of(x, [0, 1] * 10, test=(x, [0, 1] * 10), clients=names, validation=0.9)


SCHEMA = """
public = true

[target]
kind = "class"
name = "sick"
classes = ["no", "yes"]

[[columns]]
kind = "number"
name = "age"
low = 0.0
high = 100.0
"""


def _table(path, ages, labels):
    path.write_text("age,sick\n" + "".join(f"{age},{label}\n" for age, label in zip(ages, labels, strict=True)))
    return path


@pytest.fixture
def files(tmp_path):
    ages = np.arange(20, 80)
    labels = np.where(ages > 50, "yes", "no")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    _table(tmp_path / "all.csv", ages, labels)
    _table(tmp_path / "kept.csv", [81, 82, 83, 84], ["yes", "no", "yes", "yes"])
    return tmp_path


def _stopping(folder, **changes):
    options = {"rounds": 3, "noise_source": "seeded", "clients": 3, "target_accuracy": 1.0}
    schema, kept = folder / "schema.toml", folder / "kept.csv"
    return gradveil.plan(folder / "all.csv", schema=schema, validation=kept, **options, **changes)


def _multiset(rows):
    return sorted(map(tuple, np.round(rows * 50 + 50).astype(int).tolist()))


def test_rows_of_a_validation_file_are_in_no_client_and_all_rows_of_the_table_stay_where_they_were(files):
    """Oracle: ages are all different, so each record is found by its own value in what clients hold."""
    plan = _stopping(files)
    data = sources.load(plan.dataset, **plan.loading)
    held = sorted(age for (age,) in _multiset(Population.of(plan, data).x))
    assert [age for (age,) in _multiset(data.validation.x)] == [81, 82, 83, 84]
    assert sorted([*held, *(age for (age,) in _multiset(data.test.x))]) == list(range(20, 80))


def test_a_validation_file_changes_no_parameter_decides_when_to_stop_and_is_a_caveat(files):
    first = gradveil.train(_stopping(files))
    _table(files / "kept.csv", [21, 22, 83], ["yes", "yes", "no"])
    second = gradveil.train(_stopping(files))
    assert first.result.rounds == second.result.rounds == 3
    assert first.result.params_sha256 == second.result.params_sha256
    assert [line.stop_accuracy for line in first.history] != [line.stop_accuracy for line in second.history]
    stated = first.evaluate(np.array([[0.62], [0.64], [0.66], [0.68]]), ["yes", "no", "yes", "yes"])
    assert first.history[-1].stop_accuracy == stated.accuracy
    assert HELD_OUT in first.guarantee("server").caveats


def test_the_command_line_reads_a_number_as_a_fraction_and_anything_else_as_a_file(files):
    assert divided({"validation": "0.25"})[0] == {"validation": 0.25}
    assert divided({"validation": str(files / "kept.csv")})[0] == {"validation_file": str(files / "kept.csv")}


def test_validation_rows_that_cannot_serve_are_refused(files):
    _table(files / "blank.csv", [30, 31], ["", ""])
    options = {"schema": files / "schema.toml"}
    for given, said in (
        ({"validation": files / "all.csv"} | options, "is the file that is trained on"),
        ({"validation": files / "none.csv"} | options, "does not exist"),
        ({"validation": files / "blank.csv"} | options, "has no row with a value of 'sick'"),
        ({"validation": files / "kept.csv", "target": "sick"}, "are encoded by a schema"),
        ({"validation": 0.1, "validation_file": str(files / "kept.csv")} | options, "give one"),
    ):
        with pytest.raises(BadInput, match=said):
            gradveil.plan(files / "all.csv", **given)
    with pytest.raises(BadInput, match="validation_file: is only for tables of your own"):
        gradveil.plan("synthetic", validation=files / "kept.csv")


def test_a_run_is_not_tested_on_the_file_that_it_trains_on(files):
    plan = gradveil.plan(files / "all.csv", schema=files / "schema.toml", test=files / "all.csv", rounds=1, clients=3)
    with pytest.raises(BadInput, match=r"test = .*all.csv': is the file that is trained on"):
        gradveil.train(plan)
