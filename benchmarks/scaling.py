"""How seconds and memory grow with client-steps, clients, parameters and rows of a file, each point in a process."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from math import log
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from gradveil.errors import RunFailed

SIZES: dict[str, tuple[int, ...]] = {
    "client-steps": (10, 100, 1_000, 10_000),
    "clients": (1_000, 10_000, 100_000, 1_000_000),
    "parameters": (11_000, 110_000, 1_100_000, 11_000_000),
    "rows": (1_000, 10_000, 100_000, 1_000_000),
}
TITLES = {
    "client-steps": "K x L client-steps of a round",
    "clients": "N clients, of which 10 train",
    "parameters": "parameters, 8 client-steps",
    "rows": "rows of a CSV file, 11 columns",
}
POINT = Path(__file__).with_name("scaling_point.py")


def measure(progress: Callable[[str], None] = lambda _: None) -> list[dict[str, Any]]:
    """Measure every point and give its seconds, processor seconds, megabytes, and how steeply it grew since the last.

    `order` is the exponent between two sizes: log(seconds ratio) / log(size ratio); above 1 is faster than in
    proportion.
    """
    points = []
    for what, sizes in SIZES.items():
        for size in sizes:
            progress(f"{TITLES[what]}: {size:,}")
            points.append({"what": what, "size": size} | _point(what, size))
    return list(with_orders(points))


def _point(what: str, size: int) -> dict[str, float]:
    done = subprocess.run([sys.executable, str(POINT), what, str(size)], capture_output=True, text=True, check=False)
    if done.returncode:
        complaint = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise RunFailed(f"scaling: {size} {what} could not be measured ({complaint})")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def with_orders(points: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Add the exponent of the processor's seconds to every point but the first of its kind."""
    before: dict[str, Any] = {}
    for point in points:
        same = before.get("what") == point["what"]
        steep = (
            log(point["cpu_seconds"] / before["cpu_seconds"]) / log(point["size"] / before["size"]) if same else None
        )
        yield point | {"order": steep}
        before = point


def draw(points: list[dict[str, Any]], file: Path) -> None:
    """Write the figure: a panel for each thing that grows, seconds on the left axis and megabytes on the right."""
    with mpl.rc_context({"svg.fonttype": "none", "font.size": 9, "svg.hashsalt": "gradveil"}):
        figure = Figure(figsize=(9.6, 5.4), layout="constrained")
        for number, what in enumerate(SIZES):
            some = [point for point in points if point["what"] == what]
            sizes = [point["size"] for point in some]
            left = figure.add_subplot(2, 2, number + 1)
            left.loglog(sizes, [p["cpu_seconds"] for p in some], "o-", color="#1b6ca8", label="processor seconds")
            left.set(xlabel=TITLES[what], ylabel="processor seconds")
            right = left.twinx()
            right.plot(sizes, [p["megabytes"] for p in some], "s--", color="#b5541c", label="megabytes")
            right.set(ylabel="megabytes held at most", ylim=(0, None))
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
