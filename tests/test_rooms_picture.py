"""docs/rooms.svg is the picture of the imports as they are now, and can be read."""

import re
from itertools import combinations, pairwise

import pytest
from tools.draw_rooms import ENTRIES, PICTURE, ROOMS, draw
from tools.import_graph import graphs, package, reduced
from tools.layered_layout import layout, levels

GRAPHS = {
    "a chain with a shortcut": {"ground": set(), "a": {"ground"}, "b": {"a"}, "c": {"b", "ground"}},
    "two towers": {"ground": set(), "a": {"ground"}, "b": {"ground"}, "c": {"a", "b"}, "d": {"a"}, "e": {"d", "b"}},
    "one that imports nothing": {"ground": set(), "a": set(), "b": {"a", "ground"}, "top": {"b"}},
}


@pytest.fixture(scope="module")
def rooms():
    return graphs(package())[1]


def test_the_committed_picture_is_current(rooms):
    assert PICTURE.read_text() == draw(rooms), "the imports have changed: run python -m tools.draw_rooms"


def test_every_room_is_a_box_with_its_name_and_what_it_holds(rooms):
    picture = PICTURE.read_text()
    assert set(ROOMS) == set(rooms) - ENTRIES
    assert picture.count("<rect ") == len(ROOMS)
    for room, (_, told) in ROOMS.items():
        assert f">{'ground floor' if room == 'ground' else room}</text>" in picture
        assert all(f">{line}</text>" in picture for line in told.split("|"))


def test_a_new_import_changes_the_picture(rooms):
    assert draw(rooms | {"accounting": rooms["accounting"] | {"ground"}}) != draw(rooms)


def test_only_arrows_that_no_longer_way_implies_are_drawn():
    graph = {"a": {"b", "c", "d"}, "b": {"c"}, "c": {"d"}, "d": set()}
    assert reduced(graph) == {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": set()}


@pytest.mark.parametrize("graph", [*GRAPHS.values(), None], ids=[*GRAPHS, "the package"])
def test_importers_stand_above_and_nothing_overlaps(graph, rooms):
    graph = reduced(graph or {room: to for room, to in rooms.items() if room not in ENTRIES})
    level = levels(graph)
    assert all(level[room] > level[below] for room in graph for below in graph[room])
    placed = layout(graph, box=100.0, lane=20.0)
    for row in placed.rows:
        wide = [100.0 if isinstance(node, str) else 20.0 for node in row]
        for (a, b), (left, right) in zip(pairwise(row), pairwise(wide), strict=True):
            assert placed.x[b] - placed.x[a] >= (left + right) / 2 - 0.2


def test_rows_are_ordered_so_that_arrows_need_not_cross():
    graph = {"ground": set(), "a": {"ground"}, "b": {"ground"}, "c": {"b"}, "d": {"a"}}
    placed = layout(graph, box=100.0, lane=20.0)
    for (a, *_, b), (c, *_, d) in combinations([arrow for arrow in placed.arrows if arrow[-1] != "ground"], 2):
        assert (placed.x[a] - placed.x[c]) * (placed.x[b] - placed.x[d]) > 0


def test_the_picture_has_colors_for_light_and_dark_and_needs_nothing_from_elsewhere():
    picture = PICTURE.read_text()
    assert "prefers-color-scheme: dark" in picture
    assert not re.search(r"https?://(?!www.w3.org/2000/svg)", picture)


def test_the_page_about_the_architecture_shows_the_picture_and_names_every_room(rooms):
    page = (PICTURE.parent / "architecture.md").read_text().split("\n## The rooms\n")[1].split("\n## ")[0]
    assert f'src="{PICTURE.name}"' in page
    rows = set(re.findall(r"^\| `(\w+)(?:/|\.py)` \|", page, re.MULTILINE))
    assert rows == set(rooms) - ENTRIES - {"ground"}
