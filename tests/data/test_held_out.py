"""Rows that are held out to stop by are not trained on, and the guarantee says that nothing covers them."""

import numpy as np
import pytest

import gradveil
from gradveil.errors import BadInput
from gradveil.runs.counted import HELD_OUT


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
