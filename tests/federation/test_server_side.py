"""What a server does beyond adding the mean update, against a loop by hand; and that it costs nothing."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import gradveil
from gradveil.engines.serial import Serial
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.rounds import rounds
from gradveil.federation.server_side import ServerSide
from gradveil.keys import Keys

PLAN = gradveil.plan("synthetic", "fed-cdp", clients=3, cohort=3, client_size=20, batch=4, local_steps=1, rounds=4)


def leaves(tree):
    return [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(tree)]


@pytest.mark.parametrize(("momentum", "decay", "average"), [(0.0, 0.0, 0.0), (0.6, 0.0, 0.0), (0.5, 0.8, 0.5)])
def test_the_server_does_what_the_formula_says(momentum, decay, average):
    """Fixed updates 1, 2, 3, 4: v = m v + u, w = w + (1 - decay t / 3) v; the mean over the last half."""
    side = ServerSide(momentum=momentum, decay=decay, average=average)
    weights = (np.zeros(2, np.float32),)
    state, v, w, seen = side.init(weights), 0.0, 0.0, []
    for t in range(4):
        weights, state = side.step(weights, (np.full(2, t + 1.0, np.float32),), state, t, 4)
        v = momentum * v + t + 1
        w += (1 - decay * t / 3) * v
        seen.append(w)
        np.testing.assert_allclose(weights[0], w, rtol=1e-5)
    np.testing.assert_allclose(side.model(weights, state)[0], np.mean(seen[2:]) if average else w, rtol=1e-5)


def test_without_momentum_decay_and_mean_it_is_plain_training_and_costs_as_much(tmp_path):
    roots = Keys.of(0, secret=False)
    data = gradveil.dataset("synthetic")

    def last(plan):
        state = server.init(plan, data.shape, len(data.classes), roots)
        return list(rounds(plan, Serial(plan, Population.of(plan, data)), state, roots))[-1].state

    plain, sided = last(PLAN), last(replace(PLAN, server_side=ServerSide()))
    for one, other in zip(leaves(plain.params), leaves(sided.params), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    other = last(replace(PLAN, server_side=ServerSide(momentum=0.5)))
    assert any(not np.allclose(a, b) for a, b in zip(leaves(plain.params), leaves(other.params), strict=True))


@pytest.mark.slow
def test_a_run_with_momentum_and_a_mean_goes_on_where_it_stopped_and_keeps_the_mean(tmp_path):
    plan = replace(PLAN, server_side=ServerSide(momentum=0.5, average=0.5))
    whole = gradveil.train(plan, tmp_path / "whole")
    gradveil.train(replace(plan, max_epsilon=None, rounds=2), tmp_path / "parts")
    parts = gradveil.train(plan, tmp_path / "parts", resume=True)
    assert [np.isfinite(leaf).all() for leaf in leaves(parts.params)]
    assert gradveil.load(tmp_path / "whole").result.params_sha256 == whole.result.params_sha256
    plain = gradveil.train(PLAN, tmp_path / "plain").result
    assert [row.epsilon for row in plain.guarantees] == [row.epsilon for row in whole.result.guarantees]


@pytest.mark.parametrize("changes", [{"momentum": 1.0}, {"decay": -0.1}, {"average": 1.1}])
def test_a_part_beyond_its_range_is_refused(changes):
    with pytest.raises(BadInput, match=next(iter(changes))):
        ServerSide(**changes)
