"""Clients of different sizes that send sums over all their rows: what a preparation learns, and under what noise."""

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import gradveil
from gradveil.engines.serial import Serial
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import leaks, server
from gradveil.federation.engine import Population
from gradveil.federation.leaks import Tap
from gradveil.federation.replay import Replay
from gradveil.federation.rounds import round_task, rounds
from gradveil.federation.sum_leaks import refuse_unless_fixed
from gradveil.keys import Keys
from gradveil.runs import recording
from gradveil.runs.budget import Budget
from gradveil.surface import Surface

SIZES = {"east": 60, "north": 25, "south": 9, "west": 3}
ROOTS = Keys.of(3, secret=False)


def _data(features=3, blank=False):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(sum(SIZES.values()), features)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(int)
    names = rng.permutation(np.repeat(list(SIZES), list(SIZES.values())))
    x = 0 * x if blank else x
    return gradveil.Dataset.of(x, y, test=(x[:10], y[:10]), classes=("no", "yes"), clients=names)


def _plan(data, **changes):
    return gradveil.plan(data, "fed-sum", **({"rounds": 4, "seed": 3, "noise_source": "seeded"} | changes))


def _states(plan, data, engine=Vectorized):
    start = server.init(plan, data.shape, len(data.classes), ROOTS)
    return [done.state for done in rounds(plan, engine(plan, Population.of(plan, data)), start, ROOTS)]


def test_every_client_sends_one_sum_over_all_of_its_rows():
    plan = _plan(_data())
    assert (plan.sampling.name, plan.batch, plan.client_size, plan.sizes) == ("whole", 60, 60, (60, 25, 9, 3))
    assert [stage.name for stage in plan.preparation] == ["mean", "second-moment"]


@pytest.mark.parametrize("engine", [Serial, Vectorized])
def test_almost_without_noise_the_preparation_learns_the_moments_of_all_rows_together(engine):
    data = _data()
    plan = _plan(data, sigma=1e-6)
    center, whitening, _ = map(np.asarray, _states(plan, data, engine)[1].params)
    rows = data.train.x / np.linalg.norm(data.train.x, axis=1, keepdims=True)
    np.testing.assert_allclose(center, rows.mean(axis=0), atol=1e-5)
    moved = rows - rows.mean(axis=0)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    np.testing.assert_allclose(whitening @ whitening.T, np.linalg.inv(moved.T @ moved / len(rows)), rtol=1e-3)


def test_of_rows_without_content_the_sum_shows_the_noise_that_is_accounted_and_no_less():
    """K clients of any size leave noise sigma sqrt(K) on the sum over all rows: what the guarantee counts on."""
    data = _data(features=60, blank=True)
    plan = _plan(data, sigma=20.0)
    population, state = Population.of(plan, data), server.init(plan, data.shape, 2, ROOTS)._replace(round=1)
    task = round_task(plan, 1, state, ROOTS)
    reports = Vectorized(plan, population).train(task, np.arange(4))
    sigma = plan.sigmas()[1, 0]
    for size, update in zip(plan.sizes, np.asarray(reports.update), strict=True):
        assert np.std(size * update) == pytest.approx(sigma, rel=0.05)  # 1,830 numbers
    weights = server._weights(plan, np.arange(4))
    mean, *_ = server.aggregate(server._spec(plan, 4, 1), task, *reports[1:4], weights)
    assert np.std(97 * np.asarray(mean)) == pytest.approx(2 * sigma, rel=0.05)


def test_the_server_reckons_with_the_noise_that_is_on_the_mean(monkeypatch):
    data, seen = _data(), []
    plan = _plan(data, sigma=20.0)
    kind = type(plan.preparation[0])
    monkeypatch.setattr(kind, "value", lambda self, mean, noise_std: seen.append(noise_std) or mean)
    _states(plan, data)
    assert seen == [pytest.approx(plan.sigmas()[0, 0] / (97 / 4) / 2)]


def _by_dp_accounting(sigmas, delta):
    one = pld.from_gaussian_mechanism(1 / math.sqrt(sum(1 / s**2 for s in sigmas)))
    return one.get_epsilon_for_delta(delta)


def test_a_target_is_met_by_what_dp_accounting_says_of_the_sums():
    data = _data()
    plan = _plan(data, target_epsilon=1.0, threat_model="aggregate", rounds=12)
    budget, sigmas = Budget(plan, data, 1), plan.sigmas()[:, 0]
    assert _by_dp_accounting(2 * sigmas, plan.delta) == pytest.approx(1.0, abs=2e-3)
    assert budget.epsilon(12, 12, "aggregate") == pytest.approx(_by_dp_accounting(2 * sigmas, plan.delta), abs=2e-3)
    assert budget.epsilon(12, 12, "server") == pytest.approx(_by_dp_accounting(sigmas, plan.delta), abs=2e-3)
    assert budget.by_client(12, [12] * 4) == pytest.approx([1.0] * 4, abs=2e-3)


def test_the_whole_run_trains_and_predicts():
    data = _data()
    model = gradveil.train(_plan(data, target_epsilon=5.0), data=data)
    assert [(c.name, c.examples, c.participations) for c in model.result.clients] == [
        (name, size, 4) for name, size in SIZES.items()
    ]
    assert max(c.epsilon for c in model.result.clients) == model.guarantee("server").epsilon
    assert model.predict(data.test.x).shape == (10,)


@pytest.mark.parametrize("tap", [Tap(Surface.EXAMPLE), Tap(Surface.UPDATE), Tap(Surface.SERVER)], ids=str)
def test_a_reading_of_a_small_client_is_in_the_units_that_an_adversary_reckons_with(tap):
    """Without noise it is the gradient of the client's rows, their sum divided by the plan's batch."""
    data = _data()
    plan = gradveil.plan(data, "fed-cdp", sampling="whole", sigma=1e-7, clip="flat:10", noise_source="seeded", rounds=1)
    population, state = Population.of(plan, data), server.init(plan, data.shape, 2, ROOTS)
    found = leaks.read(plan, population, state, ROOTS, 2, tap)
    replayed = Replay.of(plan, tap)(state.params, state.clip_state, data.train.x[found.rows], data.train.y[found.rows])
    assert len(found.rows) == 9
    for ours, theirs in zip(found.gradient, replayed, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_what_clients_of_different_sizes_show_is_recorded_and_their_sum_is_not_attacked_as_if_they_were_alike(tmp_path):
    data = _data()
    plan = _plan(data, noise_source="secret")
    state = server.init(plan, data.shape, 2, ROOTS)._replace(round=2)
    recording.record(tmp_path, plan, Population.of(plan, data), state, ROOTS)
    assert recording.recorded_rounds(tmp_path) == [2]
    with pytest.raises(BadInput, match="clients of different sizes"):
        refuse_unless_fixed(plan)
