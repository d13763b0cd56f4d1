"""Draw docs/rooms.svg from the imports of the package: `python -m tools.draw_rooms`."""

from pathlib import Path

from tools.import_graph import Graph, graphs, package, reduced
from tools.layered_layout import Layout, Node, layout

PICTURE = Path(__file__).parents[1] / "docs" / "rooms.svg"
BOX, HEIGHT, GAP, LANE, MARGIN = 184.0, 70.0, 34.0, 26.0, 10.0
AIR, LINE = 20.0, 17.0
"""Space between two boxes of a row, and from a line of text to the next; the ground floor has one line less."""
ENTRIES = {"front", "__main__"}
"""`import gradveil` and `python -m gradveil`, which only lead to api and cli."""
ROOMS = {
    "cli": ("face", "one file|for each verb"),
    "api": ("face", "the package|as a library"),
    "parts": ("face", "what your own|parts build on"),
    "inference": ("face", "predict, score,|save and export"),
    "web": ("face", "the live page|and the leak lab"),
    "pipeline": ("face", "train, attack,|report: one way"),
    "reports": ("face", "pages, cards,|charts, tables"),
    "reproduction": ("product", "the paper's tables,|cell by cell"),
    "auditing": ("product", "is a claimed|epsilon true"),
    "leakage": ("product", "from a run|to a judged attack"),
    "deployment": ("product", "server and nodes|over Flower"),
    "calibration": ("product", "accounting ahead|of training"),
    "runs": ("product", "train, record|and resume a plan"),
    "engines": ("core", "how a cohort|is computed"),
    "aggregation": ("core", "a secure sum:|masks and shares"),
    "federation": ("core", "Algorithm 1:|clients and server"),
    "methods": ("core", "the paper's methods|as values"),
    "attacks": ("core", "what a leaked|gradient tells"),
    "privacy": ("core", "prune, clip,|sensitivity, noise"),
    "models": ("core", "networks and|their gradients"),
    "data": ("core", "datasets, partition,|sampling"),
    "accounting": ("core", "epsilon; imports|nothing else"),
    "ground": ("ground", "surface tree keys normals codec fields errors devices"),
}
STYLE = """
  text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; text-anchor: middle; }
  .name { font-size: 18px; font-weight: 600; fill: #1b1f24; }
  .told { font-size: 14.5px; fill: #4b535d; }
  .arrow { fill: none; stroke: #7a828c; stroke-width: 1.5; }
  .head { fill: #7a828c; }
  rect { stroke-width: 1.5; }
  .face { fill: #f6e6ef; stroke: #b0628f; }
  .product { fill: #fbeed6; stroke: #bf8412; }
  .core { fill: #e2eef8; stroke: #3a7fb5; }
  .ground { fill: #eceef0; stroke: #8a929b; }
  @media (prefers-color-scheme: dark) {
    .name { fill: #f0f3f6; }
    .told { fill: #b4bcc6; }
    .arrow { stroke: #8b949e; }
    .head { fill: #8b949e; }
    .face { fill: #3a2432; stroke: #d08bb3; }
    .product { fill: #3a2f17; stroke: #d9a441; }
    .core { fill: #1b2f40; stroke: #6aa9d8; }
    .ground { fill: #272c33; stroke: #6e7781; }
  }"""


def draw(rooms: Graph) -> str:
    """Return the picture of a graph of rooms as SVG: boxes in rows, and the arrows that a longer way does not imply."""
    shown = {room: to for room, to in rooms.items() if room not in ENTRIES}
    placed = layout(reduced(shown), BOX + AIR, LANE)
    wide = max(x + (BOX + AIR if isinstance(node, str) else LANE) / 2 for node, x in placed.x.items())
    size = (wide - AIR + 2 * MARGIN, len(placed.rows) * (HEIGHT + GAP) - GAP - LINE + 2 * MARGIN)
    told = "Rooms of gradveil as boxes; an arrow leads from a room to one that it imports, always downward."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" role="img">',
            f"<title>{told}</title>",
            f"<style>{STYLE}\n</style>",
            '<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto">'
            '<path class="head" d="M0 1 L10 5 L0 9 z"/></marker>',
            *(_arrow(arrow, placed) for arrow in placed.arrows),
            *(_box(node, placed, size[0]) for row in placed.rows for node in row if isinstance(node, str)),
            "</svg>\n",
        ]
    )


def _top(row: int, rows: int) -> float:
    return MARGIN + (rows - 1 - row) * (HEIGHT + GAP)


def _row(node: Node, placed: Layout) -> int:
    return next(i for i, row in enumerate(placed.rows) if node in row)


def _center(node: Node, placed: Layout) -> float:
    return placed.x[node] - AIR / 2 + MARGIN


def _box(room: str, placed: Layout, page: float) -> str:
    kind, told = ROOMS.get(room, ("product", "not in ROOMS yet"))
    y = _top(_row(room, placed), len(placed.rows))
    left, wide = (MARGIN, page - 2 * MARGIN) if kind == "ground" else (_center(room, placed) - BOX / 2, BOX)
    name, middle = "ground floor" if kind == "ground" else room, left + wide / 2
    lines = [
        f'<text class="told" x="{middle:.1f}" y="{y + 44 + LINE * i:.1f}">{line}</text>'
        for i, line in enumerate(told.split("|"))
    ]
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{_height(room):.0f}" rx="9"/>'
        f'<text class="name" x="{middle:.1f}" y="{y + 24:.1f}">{name}</text>{"".join(lines)}'
    )


def _height(room: str) -> float:
    return HEIGHT - (LINE if room == "ground" else 0)


def _arrow(arrow: tuple[Node, ...], placed: Layout) -> str:
    """Draw an arrow: straight down in the lanes of the rows that it passes, curved between rows."""
    x = [_port(arrow, placed, 0), *(_center(bend, placed) for bend in arrow[1:-1]), _port(arrow, placed, -1)]
    y = [_top(_row(node, placed), len(placed.rows)) for node in arrow]
    path = f"M{x[0]:.1f} {y[0] + HEIGHT:.1f}"
    for i in range(1, len(arrow)):
        start, end = y[i - 1] + HEIGHT, y[i]
        middle = (start + end) / 2
        path += f" C{x[i - 1]:.1f} {middle:.1f} {x[i]:.1f} {middle:.1f} {x[i]:.1f} {end:.1f}"
        path += f" L{x[i]:.1f} {end + HEIGHT:.1f}" if i < len(arrow) - 1 else ""
    return f'<path class="arrow" marker-end="url(#head)" d="{path}"/>'


def _port(arrow: tuple[Node, ...], placed: Layout, end: int) -> float:
    """Return where an arrow leaves (end 0) or meets (end -1) its box: arrows of a side share it, in their order."""
    room, step = arrow[end], 1 if end == 0 else -2
    if room == "ground":
        return _center(arrow[-2], placed)
    others = sorted(placed.x[other[step]] for other in placed.arrows if other[end] == room)
    rank = others.index(placed.x[arrow[step]])
    return _center(room, placed) + (rank - (len(others) - 1) / 2) * min(36.0, BOX * 0.8 / len(others))


if __name__ == "__main__":
    PICTURE.write_text(draw(graphs(package())[1]))
