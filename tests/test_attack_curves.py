"""The figure of docs/attacks.md is drawn from its data, and its data is whole."""

from dataclasses import asdict

from tools import attack_curves


def test_every_point_of_every_curve_was_computed():
    lines = attack_curves.known()
    assert [p for p in attack_curves.points() if not any(asdict(p).items() <= line.items() for line in lines)] == []


def test_the_figure_is_that_of_the_data():
    assert attack_curves.PICTURE.read_text() == attack_curves.drawing(attack_curves.known())
