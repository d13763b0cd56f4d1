"""The figure of docs/attacks.md is drawn from its data, its data is whole, and points are what their attacks reach."""

from dataclasses import asdict

import pytest
from scipy.stats import norm
from tools import attack_curves
from tools.attack_curves import Point, measured

from gradveil.data.sources import load

KNOWN = attack_curves.known()


def line_of(point):
    (line,) = [line for line in KNOWN if asdict(point).items() <= line.items()]
    return line


def test_every_point_of_every_curve_was_computed():
    assert [p for p in attack_curves.points() if not any(asdict(p).items() <= line.items() for line in KNOWN)] == []


def test_nothing_is_kept_that_no_curve_shows():
    assert len(KNOWN) == len(attack_curves.points())


def test_the_figure_is_that_of_the_data():
    assert attack_curves.PICTURE.read_text() == attack_curves.drawing(KNOWN)


def test_a_point_lies_at_its_share_of_rows_or_of_the_error_that_is_gone():
    assert attack_curves.height({"rebuilt": 3, "rows": 4}) == 0.75
    assert attack_curves.height({"rmse": 0.1, "prior_rmse": 0.4}) == pytest.approx(0.75)
    assert attack_curves.height({"rmse": 4.0, "prior_rmse": 0.4}) == -0.05
    assert attack_curves.height({"tpr": 0.3, "bound": 0.4}) == 0.3


def test_noise_ends_every_curve():
    rebuild = [p for p in attack_curves.points() if p.attack != "membership"]
    shares = {p.attack: attack_curves.height(line_of(p)) for p in rebuild if p.sigma == 1.0}
    assert {"exact", "imprint", "map", "cpl"} == set(shares)
    assert max(shares.values()) < 0.1


def test_members_are_told_up_to_the_bound_and_not_beyond():
    lines = [line_of(p) for p in attack_curves.points() if p.attack == "membership"]
    for line in lines:
        # mu = 1 / sigma for one example; 0.005: the threshold of 1 % is that of a sample too.
        allowed = norm.cdf(norm.ppf(0.01) + 1 / line["sigma"])
        assert line["bound"] == pytest.approx(allowed, abs=1e-4)
        assert line["tpr_ci"][0] <= allowed + 0.005
    assert lines[0]["tpr"] > 0.9
    assert lines[-1]["tpr_ci"][1] < 0.03


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("point", [Point("imprint", 8, units=50), Point("imprint", 8, sigma=1e-4)], ids=str)
def test_rows_are_counted_again_as_they_were(point):
    assert measured(point, load("adult"))["rebuilt"] == line_of(point)["rebuilt"]


@pytest.mark.slow
@pytest.mark.parametrize("point", [Point("map", 1, sigma=0.1), Point("cpl", 1)], ids=str)
def test_the_error_on_digits_is_found_again(point):
    again, line = measured(point, load("digits")), line_of(point)
    assert again["rmse"] == pytest.approx(line["rmse"], abs=0.01)
    assert again["prior_rmse"] == pytest.approx(line["prior_rmse"], abs=1e-3)
