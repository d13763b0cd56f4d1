"""A layered drawing of a graph without cycles: importers above what they import, long arrows in lanes of their own.

The steps are Sugiyama's: rows by longest path, a bend for every row that an arrow passes, an order within the rows that
leaves few crossings, and then places. Everything is deterministic, so that the same graph gives the same picture;
`fsum`, since `sum` of floats rounds differently from Python 3.12 on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import fsum

from tools.import_graph import Graph

Bend = tuple[str, str, int]
"""Where the arrow from the first room to the second passes a row."""
Node = str | Bend
SWEEPS, PLACINGS = 24, 5000
PULL = (1.0, 2.0, 80.0)
"""How hard neighbors pull at each other, by the number of bends among the two."""


@dataclass(frozen=True)
class Layout:
    """Rows from the bottom up, the centers of all nodes in pixels, and every arrow as the nodes it goes through."""

    rows: tuple[tuple[Node, ...], ...]
    x: Mapping[Node, float]
    arrows: tuple[tuple[Node, ...], ...]


def layout(graph: Graph, box: float, lane: float) -> Layout:
    """Place boxes of a width, and lanes of a width for arrows that pass a row."""
    level = levels(graph)
    arrows = [_through(a, b, level) for a in sorted(graph) for b in sorted(graph[a])]
    rows: list[list[Node]] = [[] for _ in range(max(level.values()) + 1)]
    for node in sorted(level):
        rows[level[node]].append(node)
    for bend in (node for arrow in arrows for node in arrow if not isinstance(node, str)):
        rows[bend[2]].append(bend)
    links = [link for arrow in arrows for link in pairwise(arrow)]
    ordered = _untangled(rows, links)
    width: dict[Node, float] = {node: box if isinstance(node, str) else lane for row in ordered for node in row}
    return Layout(tuple(map(tuple, ordered)), _places(ordered, links, width), tuple(map(tuple, arrows)))


def levels(graph: Graph) -> dict[str, int]:
    """Return the row of every room: above all that it imports; ground alone at 0; what nobody imports on top."""
    level: dict[str, int] = {}

    def of(node: str) -> int:
        if node not in level:
            level[node] = 0 if node == "ground" else max((of(below) + 1 for below in graph[node]), default=1)
        return level[node]

    top = max(map(of, graph))
    imported = set().union(*graph.values())
    return {node: top if node not in imported and at > 1 else at for node, at in level.items()}


def _through(start: str, end: str, level: Mapping[str, int]) -> list[Node]:
    return [start, *((start, end, at) for at in range(level[start] - 1, level[end], -1)), end]


def _untangled(rows: list[list[Node]], links: list[tuple[Node, Node]]) -> list[list[Node]]:
    """Return the order with the fewest crossings among those that sweeps by the mean of the neighbors come across."""
    near: dict[Node, list[Node]] = {node: [] for row in rows for node in row}
    for a, b in links:
        near[a].append(b)
        near[b].append(a)
    best = rows
    for sweep in range(SWEEPS):
        rows = _swept(rows, near, upward=sweep % 2 == 0)
        rows = _swapped(rows, links)
        if _crossings(rows, links) < _crossings(best, links):
            best = rows
    return best


def _swept(rows: list[list[Node]], near: Mapping[Node, list[Node]], upward: bool) -> list[list[Node]]:
    rows = [list(row) for row in rows]
    order = range(1, len(rows)) if upward else range(len(rows) - 2, -1, -1)
    for i in order:
        fixed = rows[i - 1 if upward else i + 1]
        at = {node: (k + 0.5) / len(fixed) for k, node in enumerate(fixed)}
        own = {node: (k + 0.5) / len(rows[i]) for k, node in enumerate(rows[i])}
        rows[i].sort(key=lambda n: _mean([at[m] for m in near[n] if m in at], own[n]))
    return rows


def _swapped(rows: list[list[Node]], links: list[tuple[Node, Node]]) -> list[list[Node]]:
    """Swap neighbors in a row wherever that removes a crossing."""
    rows = [list(row) for row in rows]
    for row in rows:
        for i in range(len(row) - 1):
            before = _crossings(rows, links)
            row[i], row[i + 1] = row[i + 1], row[i]
            if _crossings(rows, links) >= before:
                row[i], row[i + 1] = row[i + 1], row[i]
    return rows


def _crossings(rows: list[list[Node]], links: list[tuple[Node, Node]]) -> int:
    at = {node: (i, k) for i, row in enumerate(rows) for k, node in enumerate(row)}
    ends = [(at[a], at[b]) for a, b in links]
    return sum(a[0] == c[0] and (a[1] - c[1]) * (b[1] - d[1]) < 0 for (a, b), (c, d) in combinations(ends, 2))


def _places(rows: list[list[Node]], links: list[tuple[Node, Node]], width: Mapping[Node, float]) -> dict[Node, float]:
    """Move every node toward its neighbors, keeping order and distances; bends pull hard: lanes become straight."""
    pull: dict[Node, dict[Node, float]] = {node: {} for row in rows for node in row}
    for a, b in links:
        pull[a][b] = pull[b][a] = PULL[isinstance(a, tuple) + isinstance(b, tuple)]
    x = dict.fromkeys(pull, 0.0)
    for sweep in range(PLACINGS):
        for row in rows if sweep % 2 else reversed(rows):
            mass = [fsum(pull[node].values()) or 1.0 for node in row]
            wish = [fsum(x[m] * w for m, w in pull[node].items()) / mass[k] for k, node in enumerate(row)]
            x.update(zip(row, _spread(wish, mass, [width[node] for node in row]), strict=True))
    left = min(x[node] - width[node] / 2 for node in x)
    return {node: round(place - left, 1) for node, place in x.items()}


def _spread(wish: list[float], weight: list[float], width: list[float]) -> list[float]:
    """Return the places nearest to the wishes, by weighted squares, at which nothing overlaps (isotonic regression)."""
    shift = [0.0]
    for a, b in pairwise(width):
        shift.append(shift[-1] + (a + b) / 2)
    blocks: list[tuple[float, float, int]] = []
    for w, m, s in zip(wish, weight, shift, strict=True):
        mean, mass, count = w - s, m, 1
        while blocks and blocks[-1][0] > mean:
            mean0, mass0, count0 = blocks.pop()
            mean, mass, count = (mean0 * mass0 + mean * mass) / (mass0 + mass), mass0 + mass, count0 + count
        blocks.append((mean, mass, count))
    flat = [mean for mean, _, count in blocks for _ in range(count)]
    return [place + s for place, s in zip(flat, shift, strict=True)]


def _mean(values: list[float], otherwise: float) -> float:
    return fsum(values) / len(values) if values else otherwise
