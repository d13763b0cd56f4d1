"""What is measured in the records of a job, and with which standard error."""

import math
from dataclasses import replace

import numpy as np
import pytest

from gradveil.reproduction.job_cache import AttackScores, CachedVictim, TrainingRecord
from gradveil.reproduction.measures import measured


def trained(accuracy, curve=(), error=0.01):
    return TrainingRecord(
        accuracy=accuracy,
        held_out=None,
        rounds=len(curve),
        learning_rate=0.1,
        curve=tuple(curve),
        diverged=False,
        accuracy_error=error,
    )


def test_the_error_of_an_accuracy_joins_test_examples_and_seeds():
    ours = measured("accuracy", [trained(0.9), trained(0.94)])
    assert ours.value == pytest.approx(0.92)
    assert ours.spread == pytest.approx(0.02 * math.sqrt(2))
    assert ours.error == pytest.approx(math.sqrt(0.01**2 + 0.0008 / 2))
    assert measured("accuracy", [trained(0.9)]).error == pytest.approx(0.01)
    assert measured("accuracy", [trained(0.9), trained(None)]).value == "diverged"


@pytest.mark.parametrize(("target", "rounds"), [(0.5, 2), (0.2, 1), (0.7, 3), (0.71, "not reached")])
def test_rounds_are_counted_until_the_target_is_first_reached(target, rounds):
    assert measured(f"rounds to {target}", [trained(0.6, [0.3, 0.5, 0.7, 0.6])]).value == rounds


@pytest.mark.parametrize(("count", "accuracy"), [(1, 0.3), (4, 0.6), (5, None)])
def test_the_curve_is_read_after_some_rounds(count, accuracy):
    assert measured(f"accuracy after {count}", [trained(0.6, [0.3, 0.5, 0.7, 0.6])]).value == accuracy


@pytest.mark.parametrize("n", [143, 10_000])
@pytest.mark.parametrize("final", [0.986, 0.5, 1.0])
def test_the_error_of_an_accuracy_on_the_way_is_that_of_this_accuracy_and_not_of_the_last(n, final):
    record = trained(final, [0.441, final], math.sqrt(max(final * (1 - final), 1 / n) / n))
    assert measured("accuracy after 1", [record]).error == pytest.approx(math.sqrt(0.441 * 0.559 / n))
    assert measured("accuracy after 2", [record]).error == pytest.approx(record.accuracy_error)
    # The same by a simulation that knows neither formula: how far the share of right answers strays.
    strays = np.random.default_rng(1).binomial(n, 0.441, 20_000) / n
    assert measured("accuracy after 1", [record]).error == pytest.approx(strays.std(), rel=0.03)


def test_the_error_of_an_accuracy_on_the_way_joins_that_between_seeds():
    n, ways = 400, (0.4, 0.5, 0.6)
    records = [trained(0.9, [way, 0.9], math.sqrt(0.09 / n)) for way in ways]
    within = sum(math.sqrt(way * (1 - way) / n) for way in ways) / 3
    assert measured("accuracy after 1", records).error == pytest.approx(math.sqrt(within**2 + 0.01 / 3))


def attacked(hits, far=True, of_ten=None):
    victims = tuple(
        CachedVictim(success=hit, rmse=0.1, rmse_unclamped=0.7 if far else 0.5, iterations=3, gain=0.0) for hit in hits
    )
    return AttackScores(victims=victims, of_ten=of_ten, trials=len(hits))


def test_success_has_a_binomial_error_that_is_never_nothing():
    ours = measured("success", [attacked([True] * 3 + [False])])
    assert (ours.value, ours.n) == (0.75, 4)
    assert ours.error == pytest.approx(math.sqrt(0.75 * 0.25 / 4))
    assert measured("success", [attacked([True] * 4)]).error == pytest.approx(1 / 8)


def test_words_of_an_attack_are_the_papers():
    assert measured("resilient by the paper's rule", [attacked([True])]).value == "Y"
    assert measured("resilient by the paper's rule", [attacked([True], far=False)]).value == "N"
    assert measured("resilient by the paper's rule", [attacked([True]), attacked([True] * 3, far=False)]).value == "N"
    assert measured("which of 10", [attacked([True])]).value is None


def test_the_verdict_is_a_leak_of_any_seed_and_nothing_only_if_all_say_so():
    def said(*words):
        return measured("verdict", [replace(attacked([True]), verdict=word) for word in words]).value

    assert said("nothing-found", "leaks", "too-few-victims") == "leaks"
    assert said("nothing-found", "too-few-victims") == "too-few-victims"
    assert said("nothing-found", "nothing-found") == "nothing-found"
    assert said(None) is None  # a record of version 0.1


def test_one_guess_that_ran_away_does_not_move_the_median_error():
    victims = tuple(replace(attacked([True]).victims[0], rmse=error) for error in (0.2, 0.3, 28_638.0))
    ours = measured("median rmse", [AttackScores(victims=victims, of_ten=None)])
    assert (ours.value, ours.n) == (0.3, 3)
    assert ours.error == pytest.approx(1.2533 * 1.4826 * 0.1 / math.sqrt(3))


def test_candidates_are_pooled_over_seeds_by_their_victims():
    one, two = (attacked([True] * n, of_ten=rate) for n, rate in ((10, 1.0), (30, 0.2)))
    assert measured("which of 10", [one, two]).value == pytest.approx(0.4)


def test_victims_of_one_seed_share_a_network_so_the_spread_between_seeds_counts():
    one = attacked([True] * 4)
    two = replace(one, victims=tuple(replace(victim, rmse=0.3) for victim in one.victims))
    ours = measured("rmse", [one, two])
    assert ours.value == pytest.approx(0.2)
    assert ours.spread == pytest.approx(0.2 / math.sqrt(2))
    assert ours.error == pytest.approx(0.1)
    assert measured("rmse", [attacked([])]).value is None
