"""When a cell agrees with the paper."""

import math
from dataclasses import replace

import pytest

from gradveil.reproduction.cell import REASONS, Agreement, Cell, Measurement, fill


def cell(published, exact=False, reason=None):
    return Cell(
        row=("r",), column=("c",), published=published, job=None, measure="accuracy", exact=exact, reason=reason
    )


@pytest.mark.parametrize(
    ("published", "ours", "agreement"),
    [
        ("0.980", Measurement(0.97, 0.006), Agreement.AGREES),  # 0.010 off, two errors are 0.012
        ("0.980", Measurement(0.97, 0.004), Agreement.DIFFERS),
        ("0.980", Measurement(0.97), Agreement.NOT_COMPARABLE),  # no error, so nothing to compare by
        ("Y", Measurement("Y"), Agreement.AGREES),
        ("Y", Measurement("N"), Agreement.DIFFERS),
        ("11", Measurement("not reached"), Agreement.DIFFERS),
        ("0.98", Measurement(None), Agreement.NOT_COMPARABLE),
        ("0.98", Measurement(math.nan, 0.1), Agreement.NOT_COMPARABLE),
        (None, Measurement(0.5, 0.1), Agreement.NOT_COMPARABLE),
    ],
)
def test_an_estimate_agrees_within_two_standard_errors(published, ours, agreement):
    assert fill(cell(published), ours).agreement is agreement


@pytest.mark.parametrize(
    ("published", "ours", "agreement"),
    [
        ("0.823", 0.8227, Agreement.AGREES),
        ("0.823", 0.8236, Agreement.DIFFERS),
        ("123.354", 123.457, Agreement.DIFFERS),
        ("100", 100, Agreement.AGREES),
        ("100", 101, Agreement.DIFFERS),
        ("28*28", "28*28", Agreement.AGREES),
    ],
)
def test_arithmetic_agrees_to_the_last_printed_digit(published, ours, agreement):
    assert fill(cell(published, exact=True), Measurement(ours)).agreement is agreement


@pytest.mark.parametrize("measure", ["success", "which of 10", "accuracy", "accuracy after 3"])
def test_a_proportion_that_is_printed_as_one_is_not_rounded_to_a_whole_number(measure):
    agreements = [
        fill(replace(cell("1"), measure=measure), Measurement(ours, 0.01)).agreement for ours in (0.5, 0.95, 0.98, 1.0)
    ]
    assert agreements == [Agreement.DIFFERS, Agreement.DIFFERS, Agreement.AGREES, Agreement.AGREES]
    assert fill(replace(cell("846"), measure="iterations"), Measurement(846.4, 0.01)).agreement is Agreement.AGREES


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_forbids_comparing_even_equal_figures(reason):
    assert fill(cell("0.5", reason=reason), Measurement(0.5, 0.1)).agreement is Agreement.NOT_COMPARABLE
    filled = fill(cell("0.5"), Measurement(0.5, 0.1), hindrance=reason)
    assert (filled.agreement, filled.reason) == (Agreement.NOT_COMPARABLE, reason)
