"""The time left is that of measured rounds, the first of which compiled and does not count."""

from dataclasses import replace

import pytest

from gradveil.accounting.guarantee import Guarantee
from gradveil.cli.run_progress import Pace, clock
from gradveil.runs.epsilon_records import GuaranteeRecord
from gradveil.runs.run_records import RoundLine

SPENT = GuaranteeRecord.of(
    Guarantee(
        epsilon=1.5,
        delta=1e-5,
        unit="example",
        threat_model="server",
        adjacency="add-remove",
        sampling="poisson",
        accountant="pld",
        noise_source="secret",
    )
)


def line(t, spent=None, rounds_left=None):
    return RoundLine(
        round=t, accuracy=0.5, loss=1.0, stop_accuracy=0.5, sigma=1.0, sensitivity=1.0, clip=1.0, unit_norm=1.0,
        clipped_share=0.5, equivalent_sigma=1.0, cohort=4, max_participations=t + 1, spent=spent,
        rounds_left=rounds_left, norm_quantiles=None, state_sha256="", seconds=1.0, chain="",
    )  # fmt: skip


def test_the_first_round_is_not_taken_for_the_pace():
    pace = Pace(rounds=10)
    assert pace.after(line(0), now=60.0).startswith("measuring, ")
    assert pace.after(line(1), now=62.0).startswith("16 s left, ")  # 8 rounds of 2 s
    assert pace.after(line(2), now=66.0).startswith("21 s left, ")  # 7 rounds of 3 s


def test_a_resumed_run_measures_its_own_rounds():
    pace = Pace(rounds=10)
    pace.after(line(6), now=100.0)
    assert pace.after(line(7), now=105.0).startswith("10 s left, ")


def test_a_budget_that_ends_sooner_ends_the_estimate_sooner():
    pace = Pace(rounds=100)
    pace.after(line(0), now=9.0)
    assert pace.after(line(1, rounds_left=3), now=11.0).startswith("6 s left, ")


def test_the_epsilon_so_far_stays_until_another_is_computed():
    pace = Pace(rounds=10)
    assert pace.after(line(0, SPENT), now=1.0).endswith("epsilon 1.50 (server)")
    assert pace.after(line(1), now=2.0).endswith("epsilon 1.50 (server)")
    assert pace.after(line(2, replace(SPENT, epsilon=1.75)), now=3.0).endswith("epsilon 1.75 (server)")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (60, "1 min 0 s"), (3599, "59 min 59 s"), (3660, "1 h 1 min")]
)
def test_a_time_is_told_in_units_of_its_size(seconds, text):
    assert clock(seconds) == text
