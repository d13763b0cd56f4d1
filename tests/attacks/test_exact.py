"""The exact attack against planted batches: rows are found again to the last digits, unless there is noise."""

from dataclasses import replace

import numpy as np
import pytest
from planted_batches import CLASSES, INPUTS, by_hand, errors, leak_of, network, noised, planted, public, rows
from scipy.stats import norm

from gradveil.attacks.attack import mount
from gradveil.attacks.exact import Exact
from gradveil.attacks.leak import Leak, Reading
from gradveil.errors import BadInput
from gradveil.models.networks import Cnn


@pytest.mark.parametrize(
    ("bias", "levels"), [(False, True), (True, False), (False, False)], ids=["levels", "bias", "network"]
)
@pytest.mark.parametrize("batch", [1, 6])
def test_every_row_and_label_of_a_batch_is_found_exactly(batch, bias, levels):
    leak, x, y = planted(batch, bias=bias, levels=levels)
    (found,) = mount(Exact(), [leak], seed=0)
    assert errors(found, x).max() < 1e-3
    assert sorted(found.labels) == sorted(y)
    assert found.loss[-1] == 0


def test_local_steps_are_no_more_than_a_larger_batch():
    params, x = network(bias=False), rows(6, 3)
    y, at = np.random.default_rng(3).integers(0, CLASSES, 6), [a.astype(np.float64) for a in params]
    for lot in (slice(0, 3), slice(3, 6)):
        gradient = [a.sum(axis=0) / 3 for a in by_hand(at, x[lot], y[lot])]
        at = [a - 0.3 * g for a, g in zip(at, gradient, strict=True)]
    update = [(before - after) / (0.3 * 2) for before, after in zip(params, at, strict=True)]
    (found,) = mount(Exact(), [leak_of(params, update, 3, steps=2)], seed=0)
    assert errors(found, x).max() < 1e-3


def test_more_examples_than_inputs_leave_the_public_mean():
    leak, _, _ = planted(INPUTS)
    (found,) = mount(Exact(), [leak], seed=0)
    assert found.loss[-1] == 1
    np.testing.assert_allclose(found.x[-1], np.repeat(public(True).x.mean(axis=0)[None], INPUTS, axis=0), rtol=1e-6)


def test_rows_that_were_not_found_are_said_to_be_missing():
    leak, x, _ = planted(6, units=8)  # too few units: no row of D is sparse enough to be told from the others
    (found,) = mount(replace(Exact(), tries=4096), [leak], seed=0)
    assert found.loss[-1] > 0
    assert np.mean(errors(found, x) > 1e-3) >= found.loss[-1]


def test_a_model_without_a_dense_first_layer_is_refused_in_one_sentence():
    leak, _, _ = planted(1)
    kernel = (np.zeros((9, 2), np.float32), np.zeros((8, CLASSES), np.float32))
    stage = replace(leak.stage, model=Cnn(), shape=(10, 10, 1), columns=())
    with pytest.raises(BadInput, match="attack = exact: needs a model whose first layer is dense on its input"):
        Exact().refuse(Leak(stage, (Reading(kernel, (), kernel, kernel),), leak.public))


def test_clipping_alone_stops_nothing_and_the_noise_of_a_finite_epsilon_stops_all():
    def found_rows(sigma, victims=4, batch=4):
        leaks, truths = zip(*noised(sigma, 1.0, batch, victims), strict=True)
        results = mount(replace(Exact(), tries=4096), leaks, seed=0)
        return np.mean([errors(one, x) < 0.1 for one, x in zip(results, truths, strict=True)])

    assert found_rows(0.0) == 1
    # One reading is mu-GDP with mu = 1 / sigma. A row within 0.1 in all 18 numbers is guessed without the gradient
    # with a chance of at most (0.2 phi(0))^18 < 1e-18, so that no attack on sigma = 1 passes Phi(Phi^-1(1e-18) + 1).
    assert norm.cdf(norm.ppf(1e-18) + 1) < 1e-14
    assert found_rows(1.0) == 0
