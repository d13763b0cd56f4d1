"""What a report says of an attack on membership: counts out of counts, beside what the guarantee allows."""

import math

import numpy as np

from gradveil.leakage.membership_record import MembershipRecord
from gradveil.leakage.roc import FPRS, rate_at
from gradveil.reports import words


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
