"""Servers that send weights of their own making: what bins and hooks bring of planted batches, what stops them."""

from dataclasses import replace

import numpy as np
import pytest
from planted_batches import CLASSES, INPUTS, by_hand, errors, leak_of, network, noised, planted, rows
from scipy.stats import norm

from gradveil.attacks.attack import mount
from gradveil.attacks.exact import Exact
from gradveil.attacks.fishing import Fishing
from gradveil.attacks.imprint import Imprint
from gradveil.errors import BadInput


def baited(trap, batch, bias=True, units=96, seed=1):
    """A batch at the weights that a malicious server sends, its rows and labels."""
    honest, _, _ = planted(batch, bias=bias, units=units)
    sent = trap.planted(honest)
    x, y = rows(batch, seed), np.random.default_rng(seed).integers(0, CLASSES, batch)
    return leak_of(sent, [a.sum(axis=0) / batch for a in by_hand(sent, x, y)], batch), x, y


def opened(sent, x, bias):
    """How many units each row opens."""
    return [int(np.sum(row.astype(np.float64) @ sent[0] + (sent[1] if bias else 0) > 0)) for row in x]


def alone_in_its_bin(sent, x, bias):
    """Which rows open a number of units that no other row opens, nor any other above it: counted one by one."""
    units = opened(sent, x, bias)
    return np.array([units.count(one) == 1 and one > 0 for one in units])


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "level"])
def test_an_imprint_layer_reveals_every_row_that_is_alone_in_its_bin(bias):
    leak, x, _ = baited(Imprint(), 30, bias)
    alone = alone_in_its_bin(leak.readings[0].params, x, bias)
    assert 10 < alone.sum() < 30
    (found,) = mount(Imprint(), [leak], seed=0)
    distances = np.abs(x[:, None] - found.x[-1][None]).max(axis=2).min(axis=1)
    np.testing.assert_array_equal(distances < 1e-2, alone)


def test_an_imprint_layer_reveals_what_no_honest_network_would():
    leak, x, _ = planted(30, bias=True)  # more rows than inputs: the honest gradient cannot be taken apart
    (found,) = mount(Exact(), [leak], seed=0)
    assert np.sum(errors(found, x) < 1e-2) == 0


def test_fishing_brings_the_rows_of_one_class_and_no_others():
    trap = Fishing(target=1)
    leak, x, y = baited(trap, 12, bias=False)
    (found,) = mount(trap, [leak], seed=0)
    assert len(found.x[-1]) == np.sum(y == 1)
    distances = np.abs(x[:, None] - found.x[-1][None]).max(axis=2).min(axis=1)
    np.testing.assert_array_equal(distances < 1e-2, y == 1)
    assert set(found.labels) == {1}


@pytest.mark.parametrize("trap", [Imprint(), Fishing(target=1, inner=Exact(tries=4096))], ids=["imprint", "fishing"])
def test_clipping_stops_no_malicious_server_and_noise_of_a_finite_epsilon_stops_each(trap):
    sent = trap.planted(planted(4, bias=True)[0])

    def found_rows(sigma):
        leaks, truths = zip(*noised(sigma, 1.0, 4, 6, sent), strict=True)
        results = mount(trap, leaks, seed=0)
        return sum(int(np.sum(errors(one, x) < 0.1)) for one, x in zip(results, truths, strict=True))

    assert found_rows(0.0) >= 6
    # mu = 1 / sigma whatever the weights are: see test_exact for the chance of such a guess without the gradient.
    assert norm.cdf(norm.ppf(1e-18) + 1) < 1e-14
    assert found_rows(1.0) == 0


def blur_and_errors(sigma, bias, victims=25):
    """Of rows alone in their bins: noise on the difference of two rows over the bin's size, the row, its errors."""
    sent = Imprint().planted(planted(4, bias=bias)[0])
    leaks, truths = zip(*noised(sigma, 1.0, 4, victims, sent), strict=True)
    for x, found in zip(truths, mount(Imprint(), leaks, seed=0), strict=True):
        sizes, alone = np.square(x).sum(axis=1) + bias, alone_in_its_bin(sent, x, bias)
        for row, m, size in zip(x[alone], np.array(opened(sent, x, bias))[alone], sizes[alone], strict=True):
            off = found.x[-1] - row
            yield sigma * np.sqrt(2 * m * size), row, off[np.argmin(np.abs(off).max(axis=1))]


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "level"])
def test_an_imprint_layer_loses_to_noise_what_the_size_of_its_bins_says_and_no_more(bias):
    squares, spreads = [], []
    for blur, row, off in blur_and_errors(2e-4, bias):
        # (d x + e) / (d + e') - x = (e - x e') / d: variance 1 + x_j^2 of value j, in units of the blur, and covariance
        # I + x x^T. Without a bias the 6 values of a level add up to d, and the variance of e' is 6.
        ones = 1.0 if bias else 6.0
        covariance = np.eye(INPUTS) + ones * np.outer(row, row)
        if not bias:
            level = np.arange(INPUTS) < 6
            covariance -= np.outer(level, row) + np.outer(row, level)
        squares.append(np.sum(np.square(off / blur)) / np.trace(covariance))
        spreads.append(2 * np.sum(np.square(covariance)) / np.trace(covariance) ** 2)
    assert len(squares) > 50
    assert abs(np.mean(squares) - 1) < 4 * np.sqrt(np.sum(spreads)) / len(spreads)


def test_an_imprint_layer_ends_where_noise_outweighs_its_bins():
    near = [np.abs(off).max() < 0.1 for blur, _, off in blur_and_errors(2e-4, True) if blur < 5e-3]
    assert len(near) > 10
    assert all(near)
    far = [np.abs(off).max() < 0.1 for blur, _, off in blur_and_errors(0.2, True) if blur > 1]
    assert len(far) > 50
    assert not any(far)


def test_what_cannot_hold_the_bins_is_refused():
    honest, _, _ = planted(2, levels=False)
    with pytest.raises(BadInput, match="a bias there or a one-hot feature"):
        Imprint().refuse(honest)
    with pytest.raises(BadInput, match="needs one local step"):
        Imprint().refuse(replace(planted(2)[0], stage=replace(planted(2)[0].stage, steps=2)))
    assert honest.stage.shape == (INPUTS,)


def test_the_weights_that_are_sent_have_the_shapes_of_the_model():
    honest = planted(2, bias=True)[0]
    for trap in (Imprint(), Fishing()):
        assert [(a.shape, a.dtype) for a in trap.planted(honest)] == [(a.shape, a.dtype) for a in network(True)]
