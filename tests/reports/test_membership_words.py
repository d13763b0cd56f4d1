"""What a report says of an attack on membership: counts out of counts, beside what the guarantee allows."""

import math

import numpy as np

from gradveil.leakage.membership_record import MembershipRecord, RateRecord
from gradveil.leakage.roc import FPRS, rate_at
from gradveil.reports import card, words


def told(calibration, power):
    """200 members, of which 150 score above every other record, judged by as many others as are given."""
    members = np.concatenate([np.full(150, 9.0), np.linspace(-1, 0, 50)])
    others = np.linspace(-1, 1, 300)
    return MembershipRecord(
        reads="model", score="margin", members=200, others=300, calibration=calibration, auc=0.8, auc_ci=(0.7, 0.9),
        rates=tuple(rate_at(fpr, members, others, np.linspace(-1, 1, calibration), power) for fpr in FPRS),
        guarantee="epsilon 1 at delta 1e-05", mu=None, epsilon=1.0, delta=1e-5, threat_model="server",
    )  # fmt: skip


def test_a_sentence_counts_the_members_that_were_told_and_says_how_many_are_allowed():
    said = words.membership(told(120, lambda fpr: math.e * fpr + 1e-5))
    assert "at FPR 1 % 150 of 200 told (68.4 to 80.8 %; at most 2.72 % allowed)" in said
    assert "at FPR 0.1 % not known, since that takes 999 others and there were 120" in said


def test_without_a_guarantee_it_says_that_nothing_bounds_it():
    said = words.membership(told(1100, None))
    assert said.count("150 of 200 told") == 2
    assert said.count("nothing bounds it") == 2


def test_every_number_on_the_card_is_that_of_the_record():
    """150 of 200 members at FPR 1 %, 7 of 300 others; 3 of 200 at 0.1 %: no two of these numbers are alike."""
    often = RateRecord(
        fpr=0.01, needed=99, hits=150, tpr=0.75, tpr_ci=(0.684, 0.8084), false_alarms=7,
        false_alarm_ci=(0.0094, 0.0475), bound=0.0272,
    )  # fmt: skip
    seldom = RateRecord(
        fpr=0.001, needed=999, hits=3, tpr=0.015, tpr_ci=(0.0031, 0.0432), false_alarms=1,
        false_alarm_ci=(0.0001, 0.0184), bound=0.0027,
    )  # fmt: skip
    record = MembershipRecord(
        reads="model", score="margin", members=200, others=300, calibration=1100, auc=0.81, auc_ci=(0.72, 0.93),
        rates=(seldom, often), guarantee="epsilon 1 at delta 1e-05", mu=None, epsilon=1.0, delta=1e-5,
        threat_model="server",
    )  # fmt: skip
    found = card._membership(record)
    said = found.pop("in_words")
    assert "at FPR 0.1 % 3 of 200 told (0.31 to 4.32 %; at most 0.27 % allowed)" in said
    assert "at FPR 1 % 150 of 200 told (68.4 to 80.8 %; at most 2.72 % allowed)" in said
    keys = ("fpr", "told", "tpr", "tpr_interval", "allowed")
    numbers = [(0.001, 3, 0.015, [0.0031, 0.0432], 0.0027), (0.01, 150, 0.75, [0.684, 0.8084], 0.0272)]
    assert found == {
        "reads": "model", "members": 200, "others": 300, "auc": 0.81, "auc_interval": [0.72, 0.93],
        "guarantee": "epsilon 1 at delta 1e-05", "rates": [dict(zip(keys, one, strict=True)) for one in numbers],
    }  # fmt: skip
