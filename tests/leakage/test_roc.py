"""AUC and TPR at small FPR, against loops and simulations."""

import numpy as np
import pytest

from gradveil.leakage.roc import auc, auc_interval, rate_at

RANDOM = np.random.default_rng(0)


def test_the_auc_is_the_share_of_pairs_with_the_member_ahead():
    members, others = RANDOM.integers(0, 6, 40), RANDOM.integers(0, 5, 30)
    pairs = [(m > o) + (m == o) / 2 for m in members for o in others]
    assert auc(members, others) == pytest.approx(np.mean(pairs))


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.5])
def test_the_interval_of_an_auc_holds_the_truth_about_as_often_as_it_says(shift):
    random, inside = np.random.default_rng(1), []
    truth = np.mean(random.normal(shift, 1, 400_000) > random.normal(0, 1, 400_000))
    for _ in range(400):
        members, others = random.normal(shift, 1, 40), random.normal(0, 1, 60)
        low, high = auc_interval(auc(members, others), 40, 60)
        inside.append(low <= truth <= high)
    assert 0.92 < np.mean(inside) < 0.99


def test_complete_separation_of_few_is_not_certainty():
    low, high = auc_interval(1.0, 5, 5)
    assert low < 0.8
    assert high == 1
    assert auc_interval(0.0, 5, 5)[0] == 0


@pytest.mark.parametrize("fpr", [0.001, 0.01])
def test_a_threshold_raises_false_alarms_no_more_often_than_its_fpr(fpr):
    random, evenly = np.random.default_rng(2), np.linspace(0, 1, 20_001)
    found = [rate_at(fpr, evenly, evenly, random.uniform(size=1099), None) for _ in range(200)]
    alarms = np.mean([one.false_alarms for one in found]) / len(evenly)
    assert all(one.hits == one.false_alarms for one in found)
    assert 0.7 * fpr < alarms < 1.25 * fpr


def test_too_few_others_give_no_number_and_just_enough_do():
    scores = np.arange(998.0)
    few = rate_at(0.001, scores, scores, scores, lambda fpr: 0.5)
    assert (few.needed, few.bound) == (999, 0.5)
    assert few.tpr is few.tpr_ci is few.hits is few.false_alarms is few.false_alarm_ci is None
    enough = rate_at(0.001, np.array([5.0, 999.5]), scores, np.arange(999.0), None)
    assert (enough.hits, enough.tpr, enough.false_alarms) == (1, 0.5, 0)
    assert enough.tpr_ci[0] == pytest.approx(0.0126, abs=1e-3)  # 1 of 2 by Clopper and Pearson
