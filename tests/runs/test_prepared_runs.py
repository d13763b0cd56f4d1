"""Runs whose first rounds prepare the model: killed in one of them, stopped by the budget, attacked afterwards."""

import json
import math
import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import gradveil
from gradveil.attacks.membership import Membership
from gradveil.errors import BadInput
from gradveil.federation import leaks, server
from gradveil.federation.engine import Population
from gradveil.federation.leaks import Tap
from gradveil.keys import Keys
from gradveil.runs import recording, store
from gradveil.surface import Surface

SMALL = {"clients": 4, "client_size": 30, "rounds": 4, "seed": 5}


def plan_of(**changes):
    return gradveil.plan("synthetic", "fed-sum", **(SMALL | changes))


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, gradveil.train(plan_of(), folder)


def test_the_first_rounds_are_the_preparation_and_each_line_has_its_noise(whole):
    folder, model = whole
    lines = store.read_metrics(folder)
    assert len(model.plan.preparation) == 2
    assert [line.sigma for line in lines] == pytest.approx(plan_of().sigmas()[:, 0].tolist())
    assert [line.clip for line in lines] == pytest.approx([1.0, 1.0, 0.3, 0.3])
    assert len({line.state_sha256 for line in lines}) == 4


def test_a_loaded_model_predicts_with_what_was_prepared(whole):
    folder, model = whole
    x = gradveil.dataset("synthetic").test.x
    np.testing.assert_array_equal(gradveil.load(folder).predict(x), model.predict(x))


KILLER = """
import os, signal, sys
def watch(event, arguments, left=[int(sys.argv[1])]):
    if event == "os.rename" and str(arguments[1]).endswith("latest.npz"):
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
from gradveil.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(("times", "done"), [(2, 0), (3, 1)], ids=["in the mean", "in the second moment"])
def test_a_run_killed_in_a_preparation_round_goes_on_to_the_same_parameters(whole, tmp_path, times, done):
    folder, model = whole
    arguments = [str(times), "run", str(folder / "plan.toml"), "--out", str(tmp_path / "run"), "--json"]
    killed = subprocess.run([sys.executable, "-c", KILLER, *arguments], capture_output=True, timeout=300)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert len(store.read_metrics(tmp_path / "run")) == done
    again = gradveil.train(plan_of(), tmp_path / "run", resume=True)
    assert again.result.params_sha256 == model.result.params_sha256
    assert again.result.guarantees == model.result.guarantees


def analytic(mu, delta=1e-5):
    def excess(e):
        return norm.cdf(mu / 2 - e / mu) - math.exp(e) * norm.cdf(-mu / 2 - e / mu) - delta

    return brentq(excess, 0.0, 50.0, xtol=1e-13)


def test_a_budget_stops_a_run_whose_preparation_has_been_paid_for(tmp_path):
    """Enough for the preparation and one gradient; the result counts those three rounds, by the closed form."""
    sigmas = plan_of().sigmas()[:, 0]
    three, four = (analytic(math.sqrt(sum(1 / s**2 for s in sigmas[:n]))) for n in (3, 4))
    result = gradveil.train(plan_of(max_epsilon=(three + four) / 2), tmp_path / "run").result
    assert (result.rounds, result.stopped_because) == (3, "budget")
    assert result.guarantee("server").epsilon == pytest.approx(three, abs=1e-6)
    assert result.guarantee("aggregate").epsilon == pytest.approx(
        analytic(math.sqrt(sum(1 / s**2 for s in sigmas[:3])) / 2), abs=1e-6
    )


def test_a_preparation_round_is_not_attacked_as_if_it_were_of_gradients(whole):
    folder, _ = whole
    with pytest.raises(BadInput, match="round = 0: releases the noised mean"):
        gradveil.attack(folder, 2, "map", 1, rounds=(0,))


@pytest.mark.slow
def test_members_of_a_run_are_sought_in_its_model_and_in_the_sum_of_a_round(whole):
    folder, model = whole
    told = gradveil.attack(folder, 0, "membership", view="model").membership
    assert (told.reads, told.members) == ("model", 4 * 30)
    assert told.epsilon == min(model.result.guarantee(name).epsilon for name in ("central", "aggregate", "server"))
    record = gradveil.attack(folder, 0, Membership(pairs=40), view="aggregate")
    assert (record.cohort, record.batch, record.victims, record.membership.members) == (4, 4 * 30, 1, 40)
    assert record.membership.mu == pytest.approx(1 / (plan_of().sigmas()[-1, 0] * 2))  # four clients' noise adds up


def test_readings_of_gradients_are_recorded_without_what_the_model_holds_fixed(whole, tmp_path):
    plan, data = plan_of(), gradveil.dataset("synthetic")
    roots = Keys.of(plan.seed, secret=False)
    start, population = server.init(plan, data.shape, len(data.classes), roots), Population.of(plan, data)
    recording.record(tmp_path, plan, population, start, roots)
    assert recording.recorded_rounds(tmp_path) == []  # a preparation shows no gradient
    state = start._replace(round=2)
    recording.record(tmp_path, plan, population, state, roots)
    recorded = recording.load(tmp_path, plan, Tap(Surface.UPDATE), None, start).read(0, 0)
    again = leaks.read(plan, population, state, roots, 0, Tap(Surface.UPDATE))
    assert (len(recorded.params), len(recorded.gradient)) == (3, 1)
    np.testing.assert_array_equal(recorded.gradient[0], again.gradient[0])


@pytest.mark.slow
def test_a_run_attacks_its_first_round_of_gradients(tmp_path):
    model = gradveil.train(plan_of(rounds=3), tmp_path / "run", attack=True)
    assert len(model.attacks) == 3
    assert json.loads((tmp_path / "run" / "result.json").read_text())["rounds"] == 3
