"""Figures as SVG text that follows the page's colours, each with a sentence for those who cannot see it."""

import io
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

INK = "#010203"
"""Stands for the colour of the page's text, which the page decides."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
"""Okabe and Ito's: told apart by colour-blind readers; lines also differ in dashes and marks."""
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))
MARKS = ("o", "s", "^", "D", "v", "P", "X")
STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "svg.hashsalt": "gradveil",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#80808040",
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
}


_DRAWING = threading.Lock()  # the style is one for the whole process, and the live page draws in several threads


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: what it is called, and its points; None is a gap."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure for a page: SVG, and the sentence that stands for it."""

    svg: str
    says: str
    title: str


def curves(
    title: str,
    x_label: str,
    y_label: str,
    lines: Sequence[Line],
    says: str,
    limit: float | None = None,
    log: bool = False,
) -> Chart:
    """Draw curves over rounds; `limit` is a budget that they must not cross."""
    with _DRAWING, mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.2), layout="constrained")
        axes = figure.add_subplot()
        for i, line in enumerate(lines):
            _draw(axes, line, i)
        if limit is not None:
            axes.axhline(limit, color=INK, linestyle=(0, (8, 3)), linewidth=1)
            axes.annotate("budget", (1, limit), xycoords=("axes fraction", "data"), ha="right", va="bottom")
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if log:
            axes.set_yscale("log")
        if len(lines) > 1:
            axes.legend()
        return Chart(_svg(figure), says, title)


def scatter(title: str, points: Sequence[tuple[str, float, float, float | None]], says: str) -> Chart:
    """Draw accuracy against leakage, one point a run: name, leakage, accuracy and epsilon (None: none finite)."""
    with _DRAWING, mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axes = figure.add_subplot()
        for i, (name, leakage, accuracy, epsilon) in enumerate(points):
            guarantee = "no finite epsilon" if epsilon is None else f"epsilon {epsilon:.3g}"
            name_it = f"{name}, {guarantee}"
            axes.plot(leakage, accuracy, MARKS[i % 7], color=COLOURS[i % 7], markersize=9, label=name_it)
        axes.set_xlabel("leakage (largest reduction of the prior-only error, as a share)")
        axes.set_ylabel("accuracy on test examples (share)")
        axes.set_xlim(-0.05, max(1.05, *(x for _, x, _, _ in points)))
        axes.margins(y=0.25)
        axes.legend()
        return Chart(_svg(figure), says, title)


def _draw(axes: Axes, line: Line, i: int) -> None:
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
    if not points:
        return
    x, y = zip(*points, strict=True)
    dashes: Any = DASHES[i % 7]
    few = len(points) <= 12
    axes.plot(x, y, color=COLOURS[i % 7], linestyle=dashes, marker=MARKS[i % 7] if few else None, label=line.name)


def _svg(figure: Figure) -> str:
    """Return the figure as an SVG element that scales, without a date, in the page's own ink."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    return re.sub(
        r'<svg ([^>]*?)width="[^"]*" height="[^"]*"',
        r"<svg \1",
        re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.S),
        count=1,
    )
