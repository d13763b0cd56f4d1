"""Clients that the data name train on all of their rows, weigh as much as they hold, and are accounted one by one."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld

import gradveil
from gradveil.data.sampling import Whole
from gradveil.engines.serial import Serial
from gradveil.engines.vectorized import Vectorized
from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.engine import Population
from gradveil.federation.ledger import worst_kinds
from gradveil.federation.messages import task_for
from gradveil.federation.rounds import rounds
from gradveil.keys import Keys
from gradveil.models.gradients import loss
from gradveil.models.networks import Mlp
from gradveil.privacy.adaptive import Quantile
from gradveil.runs.budget import Budget

SIZES = {"east": 60, "north": 25, "south": 9, "west": 3}
SEEDED = {"noise_source": "seeded", "model": Mlp(hidden=(4,))}


@pytest.fixture(scope="module")
def data():
    return _data(SIZES)


def _data(sizes):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(sum(sizes.values()), 3)).astype(np.float32)
    y = (x.sum(axis=1) > 0).astype(int)
    names = rng.permutation(np.repeat(list(sizes), list(sizes.values())))
    return gradveil.Dataset.of(x, y, test=(x[:10], y[:10]), classes=("no", "yes"), clients=names)


def _plan(data, method="fed-cdp", **changes):
    return gradveil.plan(data, method, **({"rounds": 2, "seed": 3} | SEEDED | changes))


def _state(plan, data):
    return server.init(plan, data.shape, len(data.classes), Keys.of(plan.seed, secret=False))


def _trained(plan, data, engine):
    population = Population.of(plan, data)
    made = engine(plan, population)
    *_, last = rounds(plan, made, _state(plan, data), Keys.of(plan.seed, secret=False))
    return last.state


def test_the_plan_says_who_the_clients_are_and_every_row_has_one(data):
    plan = _plan(data)
    assert plan.client_sizes == (60, 25, 9, 3)
    assert (plan.clients, plan.cohort, plan.client_size, plan.batch) == (4, 4, 60, 30)
    population = Population.of(plan, data)
    assert sorted(population.rows(np.arange(4)).tolist()) == list(range(97))
    for number, name in enumerate(data.client_names):
        rows = population.rows(np.array([number]))
        assert len(rows) == SIZES[name]
        assert set(data.owners[rows].tolist()) == {number}


def test_one_step_over_whole_clients_is_the_gradient_step_over_all_rows_together(data):
    plan = _plan(data, "non-private", rounds=1, local_steps=1, sampling=Whole(), lr=0.5)
    before = _state(plan, data).params
    after = _trained(plan, data, Vectorized).params

    def mean_loss(params):
        return jnp.mean(jax.vmap(lambda x, y: loss(plan.model, params, x, y))(data.train.x, data.train.y))

    expected = jax.tree.map(lambda w, g: w - 0.5 * g, before, jax.grad(mean_loss)(before))
    for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)


@pytest.mark.slow
def test_both_engines_train_the_same_round():
    data = _data({"large": 6, "middle": 3, "small": 1})
    plan = _plan(data, rounds=1, local_steps=2)
    one, other = (_trained(plan, data, engine) for engine in (Serial, Vectorized))
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def _by_dp_accounting(sigma, rate, steps, delta):
    one = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=1e-4)
    return one.self_compose(steps).get_epsilon_for_delta(delta)


@pytest.mark.parametrize("sizes", [(60, 25, 9, 5, 3), (3, 5, 9, 25, 60)], ids=["largest first", "largest last"])
def test_every_client_gets_its_own_report_in_whatever_order_they_are_trained(sizes):
    data = _data({f"client {i}": size for i, size in enumerate(sizes)})
    plan = _plan(data, rounds=1)
    population, state = Population.of(plan, data), _state(plan, data)
    task = task_for(plan, 0, state.params, state.clip_state, Keys.of(plan.seed, secret=False).private)
    fast, slow = (engine(plan, population).train(task, np.arange(5)) for engine in (Vectorized, Serial))
    assert fast.clients.tolist() == [0, 1, 2, 3, 4]
    jax.tree.map(partial(np.testing.assert_allclose, rtol=2e-4, atol=1e-6), fast.update, slow.update)


def test_the_epsilon_of_each_client_is_what_dp_accounting_says_of_its_own_draws(data):
    plan = _plan(data, rounds=6, local_steps=2, cohort=2, batch=6, sigma=2.0)
    budget = Budget(plan, data, 1)
    took_part = [6, 3, 1, 0]
    spent = budget.by_client(6, took_part)
    for count, epsilon in zip(took_part, spent, strict=True):
        expected = _by_dp_accounting(2.0, 6 / 60, 2 * count, plan.delta) if count else 0.0
        assert expected - 1e-3 <= epsilon <= 1.02 * expected + 1e-3
    assert budget.spent(6, 6).epsilon >= max(spent)


def test_the_worst_client_has_the_guarantee_of_the_run_at_the_level_of_clients(data):
    plan = _plan(data, rounds=2, batch=6, sigma=60.0, threat_model="client-server")
    budget = Budget(plan, data, 1)
    largest, *others = budget.by_client(2, [2] * 4)
    assert largest == budget.spent(2, 2).epsilon
    assert all(epsilon < largest for epsilon in others)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"sampling": "allocation"}, "need poisson or whole batches"),
        ({"draw": "mean"}, "need draw = sum"),
        ({"clients": 3}, "clients: is given by the data"),
        ({"partition": "two-shards"}, "partition: is given by the data"),
        ({"client_column": "site"}, "client_column: is for data that is loaded"),
    ],
)
def test_what_has_no_meaning_for_them_is_refused(data, changes, said):
    with pytest.raises(BadInput, match=said):
        _plan(data, **changes)


def test_a_clip_that_learns_and_other_data_are_refused(data):
    from dataclasses import replace

    plan = _plan(data)
    with pytest.raises(BadInput, match="a clip that learns"):
        replace(plan, method=replace(plan.method, clip=Quantile(1.0)))
    with pytest.raises(BadInput, match="one for each of the 4 clients is expected"):
        replace(plan, client_sizes=(60, 25, 9))
    with pytest.raises(BadInput, match="has other clients than the plan"):
        Population.of(replace(plan, client_sizes=(60, 24, 10, 3)), data)


def test_clients_draw_at_rates_of_their_own_and_each_epsilon_is_what_dp_accounting_says_of_its_rate(data):
    plan = _plan(data, rounds=4, local_steps=2, batch=6, sigma=2.0, client_rates="batch")
    assert plan.client_rates == pytest.approx((6 / 60, 6 / 25, 6 / 9, 1.0))
    assert Population.of(plan, data).own.expected.tolist() == pytest.approx([6, 6, 6, 3])
    budget = Budget(plan, data, 1)
    spent = budget.by_client(4, [4] * 4)
    for rate, epsilon in zip(plan.client_rates, spent, strict=True):
        expected = _by_dp_accounting(2.0, rate, 8, plan.delta)
        assert expected - 1e-3 <= epsilon <= 1.02 * expected + 1e-3
    assert budget.spent(4, 4).epsilon == max(spent) == spent[-1]
    assert budget.spent(4, 4).sampling.startswith("poisson batches at rate 1,")


def test_the_guarantee_of_whole_clients_is_that_of_the_worst_though_it_has_neither_most_rows_nor_the_highest_rate(data):
    rates = {"east": 0.05, "north": 0.6, "south": 0.7, "west": 1.0}
    plan = _plan(data, rounds=2, batch=6, sigma=200.0, client_rates=rates, threat_model="client-server")
    budget = Budget(plan, data, 1)
    spent = budget.by_client(2, [2] * 4)
    assert max(spent) == spent[1]
    assert budget.spent(2, 2).epsilon == spent[1]


def test_a_target_is_met_for_the_client_that_draws_most_often(data):
    plan = _plan(data, rounds=3, batch=6, client_rates="north=0.5", target_epsilon=2.0)
    assert plan.client_rates == pytest.approx((0.1, 0.5, 0.1, 0.1))
    sigma = plan.sigmas()[0, 0]
    assert _by_dp_accounting(sigma, 0.5, 3, plan.delta) == pytest.approx(2.0, rel=0.02)


def test_many_kinds_of_clients_are_taken_together_as_none_that_is_better():
    sizes = {f"c{i:03}": 10 + 3 * i for i in range(40)}
    data = _data(sizes)
    plan = _plan(data, batch=9, client_rates="batch")
    kinds = worst_kinds(plan)
    assert len(kinds) == 16
    for size, rate in zip(plan.sizes, plan.rates, strict=True):
        assert any(size <= most and rate <= highest for most, highest in kinds)


def test_weights_of_ones_own_move_the_model_and_leave_the_noise_of_clients_out_of_the_guarantee_of_sums(data):
    options = {"rounds": 1, "local_steps": 1, "sampling": Whole(), "lr": 0.5}
    weights = {"east": 1.0, "north": 0.5, "south": 0.25, "west": 0.25}
    plan = _plan(data, "non-private", client_weights=weights, **options)
    before, after = _state(plan, data).params, _trained(plan, data, Vectorized).params
    factor = jnp.asarray([weights[data.client_names[i]] / SIZES[data.client_names[i]] for i in data.owners]) / 2

    def weighted(params):
        return jnp.sum(factor * jax.vmap(lambda x, y: loss(plan.model, params, x, y))(data.train.x, data.train.y))

    expected = jax.tree.map(lambda w, g: w - 0.5 * g, before, jax.grad(weighted)(before))
    for ours, theirs in zip(jax.tree.leaves(after), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, atol=2e-6)
    alike, own = (Budget(_plan(data, **options, **more), data, 1) for more in ({}, {"client_weights": "equal"}))
    assert alike.epsilon(1, 1, "aggregate") < alike.epsilon(1, 1, "server")
    assert own.epsilon(1, 1, "aggregate") == own.epsilon(1, 1, "server")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"client_rates": "north=2"}, "client_rates = 2.0: must be above 0 and at most 1"),
        ({"client_rates": "sea=0.1"}, "'sea' is no client of memory:data; they are east"),
        ({"client_rates": "often"}, "must be equal, batch, or NAME=NUMBER"),
        ({"client_rates": "batch", "sampling": "whole"}, "whole batches hold every record"),
        ({"client_rates": (0.1,)}, "4 are expected, one for each client, not 1"),
        ({"client_weights": "north=2"}, "'east' has none; give one for each of 4"),
        ({"client_weights": (0.0, 1, 1, 1)}, "one for each of the 4 clients is expected"),
        ({"client_weights": "equal", "method": "fed-sdp"}, "fed-sdp needs equally weighted clients"),
    ],
)
def test_rates_and_weights_that_mean_nothing_are_refused(data, changes, said):
    with pytest.raises(BadInput, match=said):
        _plan(data, **({"method": "fed-cdp"} | changes))


def test_clients_that_nobody_names_have_no_rates_of_their_own():
    with pytest.raises(BadInput, match="client_rates: is for clients that the data name"):
        gradveil.plan("synthetic", client_rates="batch")
    with pytest.raises(BadInput, match="client_rates, client_weights: are for clients that the data name"):
        gradveil.plan("synthetic", client_rates=(0.5,) * 10)
