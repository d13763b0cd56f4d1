"""Clients that the data name train on all of their rows, weigh as much as they hold, and are accounted one by one."""

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


def test_both_engines_train_the_same_round():
    data = _data({"large": 6, "middle": 3, "small": 1})
    plan = _plan(data, rounds=1, local_steps=2)
    one, other = (_trained(plan, data, engine) for engine in (Serial, Vectorized))
    for a, b in zip(jax.tree.leaves(one.params), jax.tree.leaves(other.params), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)


def _by_dp_accounting(sigma, rate, steps, delta):
    one = pld.from_gaussian_mechanism(sigma, sampling_prob=rate, value_discretization_interval=1e-4)
    return one.self_compose(steps).get_epsilon_for_delta(delta)


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
