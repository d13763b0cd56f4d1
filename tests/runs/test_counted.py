"""A run that stops when it is good enough: its stopping round gives something away, so all planned rounds count."""

import json
import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from gradveil.cli.main import main
from gradveil.runs import store
from gradveil.runs.counted import HELD_OUT

SMALL = [
    "run", "--dataset", "synthetic", "--clients", "6", "--client-size", "40", "--batch", "4", "--local-steps", "2",
    "--rounds", "6", "--method", "fed-cdp", "--sigma", "2", "--sampling", "fixed-pass", "--json",
]  # fmt: skip


def gaussian_delta(mu, epsilon):
    """Give delta of a Gaussian mechanism with mean shift mu, as Balle and Wang state it."""
    return norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)


def gaussian_epsilon(mu, delta):
    return brentq(lambda e: gaussian_delta(mu, e) - delta, 0, 500)


def test_a_stop_that_the_data_decide_exceeds_the_epsilon_of_the_rounds_done_but_not_of_those_planned():
    """Monte Carlo of the plainest run: y_t = x + z N(0, 1), stopped when the record shows, x = 1 against x = 0.

    L_k, the loss after k rounds, is a walk with steps 1 / (2 z^2) + N(0, 1) / z. Stopping at the first k with
    L_k > epsilon(k) is a rule about what was released alone. If epsilon(k) held, then
    sum_k E[(1 - e^(epsilon(k) - L_k))+ ; stopped at k] would be at most delta.
    """
    rounds, z, delta, runs = 40, 4.0, 0.02, 200_000
    at = np.array([gaussian_epsilon(math.sqrt(k) / z, delta) for k in range(1, rounds + 1)])
    steps = 1 / (2 * z**2) + np.random.default_rng(5).standard_normal((runs, rounds), np.float32) / z
    loss = np.cumsum(steps, axis=1)
    beyond = loss > at
    stopped = np.where(beyond.any(axis=1), beyond.argmax(axis=1), rounds - 1)
    ended = loss[np.arange(runs), stopped]
    spent_at_stop = np.maximum(0, 1 - np.exp(at[stopped] - ended))
    planned = np.maximum(0, 1 - np.exp(at[-1] - ended))
    error = 4 * spent_at_stop.std() / math.sqrt(runs)
    assert spent_at_stop.mean() - error > 1.5 * delta  # the epsilon of the stopping round is not a guarantee
    assert planned.mean() - error <= delta  # the epsilon of all planned rounds is
    # The same sum without a choice, at a round that was fixed before, does not exceed delta.
    fixed = np.maximum(0, 1 - np.exp(at[9] - loss[:, 9]))
    assert fixed.mean() == pytest.approx(delta, rel=0.1)


def trained(out, *flags):
    assert main([*SMALL, *flags, "--out", str(out)]) == 0
    return json.loads((out / "result.json").read_text())


def against(result, threat):
    return next(g for g in result["guarantees"] if g["threat_model"] == threat)


def test_a_run_that_reached_its_target_reports_all_rounds_that_it_might_have_trained(tmp_path, capsys):
    early = trained(tmp_path / "early", "--cohort", "6", "--target-accuracy", "0.01")
    assert (early["rounds"], early["rounds_counted"], early["stopped_because"]) == (1, 6, "target-accuracy")
    held = against(early, "server")
    true = gaussian_epsilon(math.sqrt(6) / 2, 1e-5)  # z = 2, and a record is in one batch of each of 6 rounds
    assert true * (1 - 1e-6) <= held["epsilon"] <= 1.03 * true
    assert any("stopped after 1 rounds" in caveat and "all 6 rounds" in caveat for caveat in held["caveats"])
    curve = next(c for c in early["epsilon_over_rounds"]["sound"] if c["threat_model"] == "server")
    assert (curve["rounds"][-1], curve["epsilon"][-1]) == (6, held["epsilon"])


def test_cohorts_of_rounds_not_trained_are_counted_as_they_would_have_been_drawn(tmp_path, capsys):
    early = trained(tmp_path / "early", "--cohort", "2", "--target-accuracy", "0.01")
    whole = trained(tmp_path / "whole", "--cohort", "2")
    assert early["rounds"] == 1
    for held, full in zip(early["guarantees"], whole["guarantees"], strict=True):
        assert held["epsilon"] == full["epsilon"]


def test_a_target_that_is_not_reached_costs_nothing_but_a_caveat(tmp_path, capsys):
    missed = trained(tmp_path / "missed", "--cohort", "6", "--target-accuracy", "1")
    whole = trained(tmp_path / "whole", "--cohort", "6")
    assert missed["rounds"] == 6
    held, full = (against(run, "server") for run in (missed, whole))
    assert held["caveats"] == [*full["caveats"], HELD_OUT]
    assert held | {"caveats": full["caveats"]} == full


def test_rounds_beyond_the_budget_are_not_counted_for_a_target(tmp_path, capsys):
    limit = gaussian_epsilon(math.sqrt(3.5) / 2, 1e-5)  # 3 rounds fit, 4 do not
    early = trained(tmp_path / "early", "--cohort", "6", "--target-accuracy", "0.01", "--max-epsilon", str(limit))
    assert (early["rounds"], early["rounds_counted"]) == (1, 3)
    assert against(early, "server")["epsilon"] <= limit
    assert len(store.read_metrics(tmp_path / "early")) == 1
