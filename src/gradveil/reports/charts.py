"""Figures as SVG text that follows the page's colours, each with a sentence for those who cannot see it."""

import io
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any

import matplotlib as mpl

mpl.use("svg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

INK = "#010203"
"""Stands for the colour of the page's text, which the page decides."""
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442")
"""Okabe and Ito's: told apart by colour-blind readers; lines also differ in dashes and marks."""
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))
MARKS = ("o", "s", "^", "D", "v", "P", "X")
WIDTH, HEIGHT, LEGEND_ROW, LETTERS = 4.8, 3.0, 0.24, 48
"""Inches, and the letters of a legend's row. A page scales a figure to its column: 390 pixels leave letters legible."""
STYLE: Any = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "svg.hashsalt": "gradveil",
    "font.family": "sans-serif",
    "font.size": 11,
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
    """One curve: what it is called, its points (None is a gap), and the 95 % interval of its last point."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]
    interval: tuple[float, float] | None = None

    @property
    def constant(self) -> bool:
        """Whether it says the same everywhere, which a sentence says better."""
        return len(self.y) > 0 and len(set(self.y)) == 1


@dataclass(frozen=True, slots=True)
class Mark:
    """A level that curves are compared with: a budget that they must not cross, a baseline that they should."""

    name: str
    level: float


@dataclass(frozen=True, slots=True)
class Point:
    """One run among others: leakage, accuracy with its 95 % interval, and epsilon (None: none finite)."""

    name: str
    leakage: float
    accuracy: float
    epsilon: float | None
    interval: tuple[float, float] | None = None


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
    mark: Mark | None = None,
    log: bool = False,
) -> Chart:
    """Draw curves over rounds, beside a level if one is given."""
    rows = sum(map(_rows, (line.name for line in lines))) if len(lines) > 1 else 0
    with _DRAWING, mpl.rc_context(STYLE):
        figure, axes = _blank(rows)
        for i, line in enumerate(lines):
            _draw(axes, line, i)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        if log:
            _logarithmic(axes)
        if mark is not None:
            _level(axes, mark)
        if rows:
            figure.legend(loc="outside upper left")
        return Chart(_svg(figure), says, title)


def scatter(title: str, points: Sequence[Point], says: str) -> Chart:
    """Draw accuracy against leakage, one point a run."""
    with _DRAWING, mpl.rc_context(STYLE):
        figure, axes = _blank(sum(map(_rows, map(_named, points))))
        for i, point in enumerate(points):
            colour, mark = COLOURS[i % 7], MARKS[i % 7]
            label = fill(_named(point), LETTERS)
            axes.plot(point.leakage, point.accuracy, mark, color=colour, markersize=9, label=label)
            _interval(axes, point.leakage, point.accuracy, point.interval, colour)
        axes.set_xlabel("leakage (share of the blind error)")
        axes.set_ylabel("accuracy (share)")
        axes.set_xlim(-0.05, max(1.05, *(point.leakage for point in points)))
        axes.margins(y=0.25)
        figure.legend(loc="outside upper left")
        return Chart(_svg(figure), says, title)


def _named(point: Point) -> str:
    return f"{point.name}, " + ("no finite epsilon" if point.epsilon is None else f"epsilon {point.epsilon:.3g}")


def _rows(name: str) -> int:
    """Count the rows of a legend that a name takes."""
    return fill(name, LETTERS).count("\n") + 1


def _blank(rows: int) -> tuple[Figure, Axes]:
    """Return an empty figure with room for the rows of a legend above it, so that the legend covers nothing."""
    figure = Figure(figsize=(WIDTH, HEIGHT + LEGEND_ROW * rows), layout="constrained")
    return figure, figure.add_subplot()


def _draw(axes: Axes, line: Line, i: int) -> None:
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None]
    if not points:
        return
    x, y = zip(*points, strict=True)
    dashes: Any = DASHES[i % 7]
    few = len(points) <= 12
    mark, label = MARKS[i % 7] if few else None, fill(line.name, LETTERS)
    axes.plot(x, y, color=COLOURS[i % 7], linestyle=dashes, marker=mark, label=label)
    _interval(axes, x[-1], y[-1], line.interval, COLOURS[i % 7])


def _interval(axes: Axes, x: float, y: float, interval: tuple[float, float] | None, colour: str) -> None:
    if interval is not None:
        low, high = interval
        axes.errorbar([x], [y], [[max(0.0, y - low)], [max(0.0, high - y)]], color=colour, capsize=4, linewidth=1.5)


def _level(axes: Axes, mark: Mark) -> None:
    """Draw a level with its name, beyond the last round where no curve is."""
    axes.axhline(mark.level, color=INK, linestyle=(0, (8, 3)), linewidth=1)
    axes.annotate(
        mark.name, (1, mark.level), (4, 0), xycoords=("axes fraction", "data"), textcoords="offset points",
        ha="left", va="center", fontsize=10, annotation_clip=False,
    )  # fmt: skip


def _logarithmic(axes: Axes) -> None:
    """Use a logarithmic axis whose numbers are written as people do: 0.5, 20, 1e+04."""
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=7))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


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
