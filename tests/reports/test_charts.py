"""Figures as readers see them: numbers as people write them, nothing over the curves, levels and intervals drawn."""

import re

import pytest

from gradveil.reports.charts import Line, Mark, Point, curves, scatter

LONG = "central, central-visible, aggregate, server, type2-secret, type2-known (one example)"
LINES = [Line("one", [1, 2, 3], [0.3, 20.0, 4000.0]), Line(LONG, [1, 2, 3], [0.1, 2.0, 300.0])]


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_numbers_on_a_logarithmic_axis_are_written_as_people_do():
    svg = curves("T", "round", "epsilon", LINES, "says", log=True).svg
    assert {"0.1", "10", "1000"} <= set(texts(svg)) or {"1", "100"} <= set(texts(svg))
    assert not any("$" in text or "\\" in text for text in texts(svg))


def frame(svg):
    """Give the upper edge of the axes."""
    return float(
        re.search(r'id="patch_2">\s*<path d="M [\d.]+ [\d.]+ \nL [\d.]+ [\d.]+ \nL [\d.]+ ([\d.]+)', svg).group(1)
    )


@pytest.mark.parametrize("count", [2, 7])
def test_a_legend_stands_above_the_curves(count):
    svg = curves("T", "round", "epsilon", (LINES * 4)[:count], "says").svg
    legend = svg[svg.index('id="legend_1"') :]
    placed = re.findall(r'<text[^>]*? y="([\d.]+)"|translate\([\d.]+ ([\d.]+)\)', legend)
    places = [float(one or other) for one, other in placed]
    assert len(places) >= count
    assert max(places) < frame(svg)


def test_one_line_needs_no_legend_and_a_level_has_its_name():
    svg = curves("T", "round", "share", LINES[:1], "says", Mark("majority", 0.5)).svg
    assert 'id="legend_1"' not in svg
    assert "majority" in texts(svg)


def test_an_interval_is_drawn_at_the_last_point():
    bare = curves("T", "round", "share", [Line("a", [1, 2], [0.1, 0.5])], "says").svg
    with_interval = curves("T", "round", "share", [Line("a", [1, 2], [0.1, 0.5], (0.4, 0.6))], "says").svg
    assert "LineCollection" in with_interval
    assert "LineCollection" not in bare
    assert "LineCollection" in scatter("T", [Point("a", 0.2, 0.5, None, (0.4, 0.6))], "says").svg


def test_letters_stay_legible_on_a_phone():
    svg = curves("T", "round", "share", LINES, "says").svg
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg).group(1))
    smallest = min(float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", svg))
    assert smallest * 358 / width >= 10


@pytest.mark.parametrize(("y", "constant"), [([7, 7, 7], True), ([7, 7, 6], False), ([], False), ([None, None], True)])
def test_a_line_knows_whether_it_says_anything(y, constant):
    assert Line("a", range(len(y)), y).constant is constant
