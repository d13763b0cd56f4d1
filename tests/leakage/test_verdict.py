"""The verdict on an attack: found, not found, or not to be told; for records by hand and for an attack itself."""

import json
from dataclasses import fields

import numpy as np
import pytest

from gradveil.attacks.score import VictimScore
from gradveil.cli.main import main
from gradveil.leakage.attack_record import CandidateRecord
from gradveil.leakage.verdict import finds_nearest, verdict


def told(low, high, n=10, optimum=0.1, bound=None):
    return CandidateRecord(
        n=n,
        trials=20,
        success=(low + high) / 2,
        success_ci=(low, high),
        chance=1 / n,
        optimum=optimum,
        bound=bound,
        mu=None,
    )


PRIOR, CHANCE = 0.25, told(0.0, 0.4)


@pytest.mark.parametrize(
    ("interval", "candidates", "nearest", "expected"),
    [
        ((0.05, 0.15), [CHANCE], False, "leaks"),
        ((-0.004, 0.006), [CHANCE], False, "nothing-found"),
        ((-0.004, 0.006), [], False, "too-few-victims"),  # nobody has looked
        ((1e-9, 0.006), [CHANCE], False, "nothing-found"),  # the order of a sum
        ((-0.9, 1.3), [CHANCE], False, "too-few-victims"),
        (None, [CHANCE], False, "too-few-victims"),
        ((-0.2, -0.1), [told(0.7, 1.0)], False, "leaks"),  # a bad picture of a record that is told from others
        ((-0.2, -0.1), [CHANCE, told(0.005, 0.3, n=1000)], False, "leaks"),
        ((-0.9, 1.3), [CHANCE], True, "leaks"),
        (None, [], True, "leaks"),
        ((-0.004, 0.006), [told(0.05, 0.6, optimum=0.5)], False, "too-few-victims"),  # more trials would show it
        # Chance is 0.1, so what may be missed ends at 0.1 + 0.1 x 0.9 = 0.19.
        ((-0.004, 0.006), [told(0.0, 0.708, optimum=None)], False, "too-few-victims"),  # 0 of 3, and no optimum
        ((-0.004, 0.006), [told(0.05, 0.191, optimum=None)], False, "too-few-victims"),
        ((-0.004, 0.006), [told(0.05, 0.189, optimum=None)], False, "nothing-found"),
        ((-0.004, 0.006), [told(0.0, 0.708, optimum=None, bound=0.189)], False, "nothing-found"),  # nobody can do more
        ((-0.004, 0.006), [told(0.0, 0.708, optimum=None, bound=0.191)], False, "too-few-victims"),
    ],
)
def test_a_leak_is_called_so_only_on_evidence_and_its_absence_too(interval, candidates, nearest, expected):
    assert verdict(interval, PRIOR, candidates, nearest) == expected


@pytest.mark.parametrize(
    ("interval", "nearest", "expected"),
    [
        ((-0.004, 0.006), False, "too-few-victims"),  # an attack that did not fit has not looked
        (None, False, "too-few-victims"),
        (None, True, "leaks"),
        ((0.05, 0.15), False, "leaks"),  # by the victims that were fitted
    ],
)
def test_where_the_attack_did_not_fit_nothing_found_is_not_said(interval, nearest, expected):
    assert verdict(interval, PRIOR, [CHANCE], nearest, not_fitted=1) == expected


def scores(*shares):
    nothing = dict.fromkeys(field.name for field in fields(VictimScore))
    return [VictimScore(**nothing | {"nearest_is_truth": share}) for share in shares]


@pytest.mark.parametrize(
    ("shares", "examples", "public", "found"),
    [
        ((1.0,), 1, 1000, True),  # 1 of 1 begins at 0.025, chance is 0.002
        ((1.0, 1.0), 3, 1000, True),
        ((1.0,), 1, 20, False),  # among 21 records one hit of one may be luck
        ((0.34, 0.0), 3, 1000, False),
        ((0.0, 0.0, 0.0), 1, 1000, False),
        ((1.0,) * 5, 64, 5, False),
    ],
)
def test_a_guess_that_is_nearest_to_its_truth_counts_if_luck_does_not_explain_it(shares, examples, public, found):
    assert finds_nearest(scores(*shares), examples, public) is found


def test_luck_is_never_larger_than_is_assumed():
    # Guesses that read nothing, each paired with the best of three truths, as the referee does.
    random, hits = np.random.default_rng(0), 0
    for _ in range(2000):
        truths, others = random.normal(size=(3, 5)), random.normal(size=(40, 5))
        guesses = 0.3 * random.normal(size=(3, 5))
        near = [np.linalg.norm(truths - g, axis=1).min() < np.linalg.norm(others - g, axis=1).min() for g in guesses]
        hits += np.mean(near) >= 0.5
    assert hits / 2000 <= 2 * 3 / 41


@pytest.fixture
def own(tmp_path):
    random = np.random.default_rng(0)
    x, y = random.uniform(size=(300, 8, 8, 1)).astype(np.float32), (np.arange(300) % 3).astype(np.int64)
    x[::2] *= 0.2  # some records are much nearer to the mean than others, so two gains differ
    np.savez(tmp_path / "own.npz", x=x, y=y)
    return tmp_path


def test_two_perfect_reconstructions_are_a_leak_though_two_gains_say_little(own, capsys):
    at = ["--victims", "2", "--surface", "2", "--attack", "analytic", "--network", "mlp", "--out", str(own / "out")]
    assert main(["attack", "--dataset", str(own / "own.npz"), *at, "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["mean_rmse"] < 0.01 < 0.1 < answer["prior_rmse"]
    assert answer["gain_ci"][0] < 0  # two victims: the interval of Student's t is wide
    assert (answer["verdict"], answer["resilient"]) == ("leaks", False)
    assert main(["attack", "--dataset", str(own / "own.npz"), *at]) == 0
    assert "LEAKS" in capsys.readouterr().out


def test_where_too_few_records_are_public_for_any_to_be_told_apart_the_command_says_that_nobody_looked(own, capsys):
    whole = np.load(own / "own.npz")
    np.savez(own / "few.npz", x=whole["x"][:40], y=whole["y"][:40])
    at = [
        "--method",
        "fed-cdp",
        "--surface",
        "2",
        "--attack",
        "analytic",
        "--network",
        "mlp",
        "--out",
        str(own / "out"),
    ]
    assert main(["attack", "--dataset", str(own / "few.npz"), *at]) == 0
    assert "Cannot tell: no record was tried among others" in " ".join(capsys.readouterr().out.split())
