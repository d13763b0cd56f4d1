"""Who imports whom in gradveil, by module and by room, read from the source with `ast` and without running it."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "gradveil"
GROUND = {
    "surface",
    "tree",
    "normals",
    "keys",
    "codec",
    "errors",
    "fields",
    "devices",
    "schema",
    "names",
    "own_code",
    "__about__",
}
Graph = dict[str, set[str]]


def room_of(module: str) -> str:
    """Return the room of a module: its folder or file below gradveil/, or `ground` for the modules all may use."""
    first = module.split(".")[1] if "." in module else "front"
    return "ground" if first in GROUND else first


def imports(source: str, known: frozenset[str]) -> Iterator[str]:
    """Yield every imported module, wherever the import stands; `from a import b` is a.b if that is a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            yield from names & known or {node.module or "a relative import"}


def graphs(sources: Mapping[str, str]) -> tuple[Graph, Graph]:
    """Return who imports whom: modules, and rooms."""
    known = frozenset(sources)
    modules = {m: {t for t in imports(s, known) if t in known and t != m} for m, s in sources.items()}
    rooms: Graph = {room_of(m): set() for m in sources}
    for module, targets in modules.items():
        rooms[room_of(module)] |= {room_of(t) for t in targets} - {room_of(module)}
    return modules, rooms


def package(root: Path = PACKAGE) -> dict[str, str]:
    """Return the source text of every module of the package, by its dotted name."""

    def name(path: Path) -> str:
        parts = ("gradveil", *path.relative_to(root).with_suffix("").parts)
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    return {name(path): path.read_text() for path in sorted(root.rglob("*.py"))}


def reachable(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """Return every node that a path of one step or more leads to."""
    seen: set[str] = set()
    todo = list(graph[start])
    while todo:
        if (node := todo.pop()) not in seen:
            seen.add(node)
            todo += graph.get(node, ())
    return seen


def reduced(graph: Graph) -> Graph:
    """Return the transitive reduction of a graph without cycles: no edge beside a longer way to the same node."""
    below = {node: reachable(graph, node) for node in graph}
    return {node: {t for t in to if not any(t in below[other] for other in to)} for node, to in graph.items()}
