"""Tuning: what trials on private records release, what a plan counts of it, and where settings come from."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm, poisson

import gradveil
from gradveil.accounting.selection import most_trials
from gradveil.calibration.candidates import candidates, settings_of
from gradveil.calibration.counted_trials import counted, multiplier, private_trial
from gradveil.calibration.trials import score_noise
from gradveil.calibration.tuning import Tuning, tune
from gradveil.calibration.tuning_data import held_out, on_other_data, synthetic_like, tuning_data
from gradveil.errors import BadInput
from gradveil.federation.tuned import Tuned
from gradveil.models.preparation import NoisedMean
from gradveil.models.regression import SoftmaxRegression
from gradveil.runs.budget import Budget

LAYERS = 1
MODEL = SoftmaxRegression(mean=NoisedMean(0.3))


def plan_of(threat="server", **changes):
    given = {"clients": 4, "client_size": 40, "rounds": 3, "threat_model": threat, "seed": 3, "model": MODEL} | changes
    return gradveil.plan("cancer", "fed-sum", **given)


def data():
    return gradveil.dataset("cancer")


def curve(mu, epsilon):
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def analytic(mu, delta=1e-5):
    return brentq(lambda e: curve(mu, e) - delta, 0.0, 80.0, xtol=1e-13)


def mu_of(plan):
    return math.sqrt(sum(1 / sigma**2 for sigma in plan.sigmas().ravel()))


def spent(plan, threat):
    return Budget(replace(plan, max_epsilon=None), data(), 1).epsilon(plan.rounds, plan.rounds, threat)


def row(plan, threat):
    return next(g for g in Budget(plan, data(), 1).all_guarantees(plan.rounds, plan.rounds) if g.threat_model == threat)


def test_the_first_candidate_is_the_plan_and_none_differs_in_who_holds_what():
    plan = gradveil.plan("synthetic", "fed-sum")
    grid = candidates(plan)
    assert grid[0] == plan
    assert len(set(map(repr, map(settings_of, grid)))) == len(grid) == 60
    assert {(p.clients, p.client_size, p.partition, p.seed, p.method.noise) for p in grid} == {
        (plan.clients, plan.client_size, plan.partition, plan.seed, plan.method.noise)
    }
    assert len(candidates(gradveil.plan("digits", "non-private"))) == 10


@pytest.mark.parametrize("share", [False, True])
def test_trials_that_are_seen_are_composed_with_the_run(share):
    """With n trials at half the run's mu, mu of all is sqrt(1 + n / 4) times that of the run, in every view."""
    base = plan_of()
    base = replace(base, method=replace(base.method, share=share, honest=0.5 if share else None))
    plan = counted([base], data(), 2.0, 5)[0]
    seen = 1 / math.sqrt(2) if share else 1.0  # each of H = 2 honest clients adds 1 / sqrt(2) of the noise
    total = mu_of(plan) * math.sqrt(1 + 5 / 4)
    assert spent(plan, "server") == pytest.approx(analytic(total / seen), abs=1e-6)
    assert 1.99 < spent(plan, "server") <= 2.0
    pool = 1.0 if share else 2.0  # the sum over H honest clients, or over all four
    assert spent(plan, "aggregate") == pytest.approx(analytic(total / pool), abs=1e-6)
    assert any("5 trials on the same records" in caveat for caveat in row(plan, "server").caveats)
    assert not any("Tuning settings on the data" in caveat for caveat in row(plan, "server").caveats)


def test_a_secret_number_of_trials_is_counted_against_each_adversary_by_what_it_sees():
    plan = counted([plan_of("central-visible")], data(), 2.0, 6)[0]
    models, server = row(plan, "central-visible"), row(plan, "server")
    assert models.accountant == "rdp"
    assert "repeat-and-select" in " ".join(models.caveats)
    assert 1.99 < models.epsilon <= 2.0
    # Whoever sees the trials sees how many there were: delta is a mean over that number.
    mu = mu_of(plan)
    seen = brentq(
        lambda e: sum(poisson.pmf(k, 6) * curve(mu * math.sqrt(1 + k / 4), e) for k in range(60)) - 1e-5, 0, 80
    )
    assert seen <= server.epsilon == pytest.approx(analytic(mu * math.sqrt(1 + most_trials(6) / 4)), abs=1e-5)
    assert f"at most {most_trials(6)} trials" in " ".join(server.caveats)


def test_no_trial_and_no_candidate_spends_more_than_is_counted():
    plans = counted(candidates(plan_of()), data(), 2.0, 5)
    part = held_out(data(), 3)
    sigma = plans[0].tuned.sigma
    for plan in plans:
        trial = private_trial(plan, part)
        assert 1 / mu_of(trial) == pytest.approx(sigma, rel=1e-6)
        assert 1 / mu_of(trial) >= sigma
        assert multiplier(plan, LAYERS) >= multiplier(plans[0], LAYERS)
        assert (trial.clients, plan.tuned) == (plan.clients, plans[0].tuned)


def test_the_noise_of_a_score_is_the_sum_of_what_clients_add():
    plan = plan_of(clients=9, client_size=20)
    drawn = np.array([score_noise(replace(plan, seed=seed), 2.0) for seed in range(100)])
    assert abs(drawn.mean()) < 3 * 6 / math.sqrt(100)
    assert 0.8 < drawn.std() / (2.0 * 3.0) < 1.2


def test_held_out_examples_are_a_fifth_whatever_they_are_and_none_of_the_test_split():
    whole = data()
    part, changed = held_out(whole, 3), held_out(replace(whole, train=replace(whole.train, x=-whole.train.x)), 3)
    assert len(part.test) == len(whole.train) // 5
    rows = np.concatenate([part.train.x, part.test.x])
    np.testing.assert_array_equal(np.sort(rows[:, 0]), np.sort(whole.train.x[:, 0]))
    np.testing.assert_array_equal(part.test.x, -changed.test.x)


def test_noise_weighs_on_other_data_as_it_will_on_ones_own():
    plan = plan_of(clients=4, client_size=100)
    small = on_other_data(plan, replace(data(), train=held_out(data(), 0).test))
    weigh = [p.method.noise.sigma / (math.sqrt(p.clients) * p.client_size) for p in (plan, small)]
    assert weigh[0] == pytest.approx(weigh[1])
    assert small.client_size < plan.client_size


@pytest.mark.parametrize("shape", [(20, 24, 3), (7,), (8, 8, 1)])
def test_synthetic_data_have_the_shape_of_the_data_and_can_be_learned(shape):
    whole = data()
    split = replace(whole.train, x=np.zeros((len(whole.train), *shape), np.float32))
    made = synthetic_like(replace(whole, train=split), 1)
    assert made.shape == shape
    x = made.train.x.reshape(len(made.train), -1).astype(float)
    means = np.stack([x[made.train.y == c][::2].mean(axis=0) for c in range(2)])
    nearest = np.argmin(((x[1::2, None] - means) ** 2).sum(axis=2), axis=1)
    assert np.mean(nearest == made.train.y[1::2]) > 0.8


@pytest.mark.parametrize("on", ["mnist", "public:digits", "public:"])
def test_data_that_tell_nothing_are_refused(on):
    with pytest.raises(BadInput, match=r"on = |dataset"):
        tuning_data(on, data(), 0, gradveil.dataset)


def asked(folder, on="private", trials=3):
    return Tuning(
        plan=plan_of(),
        dataset=data(),
        on=on,
        data=tuning_data(on, data(), 3, gradveil.dataset),
        trials=trials,
        target_epsilon=2.0,
        records=folder / "tuned.trials.json",
        folder=folder / "tuned.trials",
    )


@pytest.mark.slow
def test_a_tuning_that_was_broken_off_goes_on_and_ends_in_the_same_plan(tmp_path):
    whole = tune(asked(tmp_path / "whole"))
    notes = []

    def broken(note):
        notes.append(note)
        if note == "trial 3 of 3":
            raise KeyboardInterrupt

    first = replace(asked(tmp_path / "again"), progress=broken)
    with pytest.raises(KeyboardInterrupt):
        tune(first)
    again = tune(replace(first, progress=notes.append))
    assert notes == ["trial 1 of 3", "trial 2 of 3", "trial 3 of 3", "trial 3 of 3"]
    assert again.plan == whole.plan
    assert [t.score for t in again.done] == [t.score for t in whole.done]
    assert whole.best.score == max(t.score for t in whole.done)
    assert whole.plan.tuned.trials == len(whole.done) == 3
    assert (tmp_path / "again" / "tuned.trials.json").stat().st_mode & 0o077 == 0
    with pytest.raises(BadInput, match="the trials of another tuning"):
        tune(replace(first, trials=2))
    model = gradveil.train(whole.plan, tmp_path / "run")
    assert model.result.guarantee("server").epsilon == pytest.approx(
        analytic(mu_of(whole.plan) * math.sqrt(1 + 3 / 4)), abs=1e-6
    )


def test_settings_from_synthetic_data_cost_nothing(tmp_path):
    done = tune(asked(tmp_path, "synthetic", trials=2))
    assert done.plan.tuned.trials == 0
    assert "synthetic data" in done.plan.tuned.found
    assert spent(done.plan, "server") == pytest.approx(analytic(mu_of(done.plan)), abs=1e-6)


def test_only_sums_over_whole_clients_can_count_trials():
    with pytest.raises(BadInput, match=r"tuned\.trials = 3: .* not for fed-cdp"):
        counted([gradveil.plan("cancer", "fed-cdp", clients=2, client_size=100)], data(), 1.0, 3)
    with pytest.raises(BadInput, match="several clients hold"):
        counted([plan_of(clients=9, client_size=100)], data(), 1.0, 3)


@pytest.mark.parametrize(
    "wrong", [{"found": ""}, {"found": "a\nb"}, {"trials": 2}, {"sigma": 1.0}, {"trials": 101}], ids=repr
)
def test_a_plan_that_says_nonsense_of_its_tuning_is_refused(wrong):
    with pytest.raises(BadInput, match=next(iter(wrong)) if "trials" not in wrong else "sigma|trials"):
        Tuned(**({"found": "somewhere"} | wrong))
