"""The figure of sound accuracy: over the epsilon that holds, a line a method, the paper's points marked unsound."""

import io
from collections.abc import Sequence
from html import escape

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gradveil.reports.charts import COLOURS, DASHES, MARKS, STYLE
from gradveil.reproduction.sound_beside import PAPER_FIGURES
from gradveil.reproduction.sound_cells import DATASETS, EPSILONS, ROWS, SoundMean, SoundRecord, SoundSetting, means
from gradveil.reproduction.sound_page import TITLES

LOOK = STYLE | {
    "text.color": "black",
    "axes.labelcolor": "black",
    "axes.edgecolor": "black",
    "xtick.color": "black",
    "ytick.color": "black",
    "figure.facecolor": "white",
    "font.size": 9,
}
"""Black on white: the README shows the figure as a picture, which cannot know the page's colors."""
ACROSS = 3
"""Panels beside each other."""
UNSOUND = {"fed-cdp": "x", "fed-alpha-cdp": "+"}


def figure_text(records: Sequence[SoundRecord]) -> str:
    """Return the figure as SVG with its numbers as text: a panel for each dataset that has at least one record."""
    filled = means(records)
    with mpl.rc_context(LOOK):
        datasets = _datasets(filled)
        down = -(-len(datasets) // ACROSS)
        figure = Figure(figsize=(9.6, 0.8 + 2.6 * down), layout="constrained")
        panels = [figure.add_subplot(down, min(ACROSS, len(datasets)), i + 1) for i in range(len(datasets))]
        for axes, dataset in zip(panels, datasets, strict=True):
            _panel(axes, dataset, filled)
        lines = {line.get_label(): line for axes in panels for line in axes.get_legend_handles_labels()[0]}
        figure.legend(handles=list(lines.values()), loc="outside lower center", ncols=3)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    start = text.index(">") + 1
    return f"{text[:start]}\n <desc>{escape(described(records))}</desc>{text[start:]}"


def described(records: Sequence[SoundRecord]) -> str:
    """Return in words what the figure shows: every point of every line."""
    filled = means(records)
    ours = [
        f"{TITLES[dataset]}, {_name(*row)}: {_points(_line(filled, dataset, *row))}"
        for dataset in DATASETS
        for row in ROWS
        if _line(filled, dataset, *row)
    ]
    paper = [
        f"{TITLES[f.dataset]}, {f.method} as the paper prints it (unsound): {100 * f.accuracy:.1f} at {f.epsilon:g}"
        for f in PAPER_FIGURES
        if f.dataset in _datasets(filled)
    ]
    return "Test accuracy in percent at epsilon. " + "; ".join([*ours, *paper]) + "."


def _panel(axes: Axes, dataset: str, filled: dict[SoundSetting, SoundMean]) -> None:
    for i, row in enumerate(ROWS):
        points = _line(filled, dataset, *row)
        x, y = [p.epsilon for p in points], [100 * p.accuracy for p in points]
        error = [100 * (p.spread or 0.0) for p in points]
        # A row without a run has no line, but its name stands in the legend of all panels.
        axes.errorbar(
            x, y, error, color=COLOURS[i], linestyle=DASHES[i], marker=MARKS[i], capsize=2, label=_name(*row)
        )  # fmt: skip
    for figure in (f for f in PAPER_FIGURES if f.dataset == dataset):
        mark, name = UNSOUND[figure.method], f"{figure.method} as the paper prints it: UNSOUND"
        axes.plot(figure.epsilon, 100 * figure.accuracy, mark, color="#888888", markersize=9, label=name)
        if figure.ours is not None and figure.ours.epsilon is not None:
            name = f"{figure.method} at the paper's settings with us, true epsilon"
            axes.plot(figure.ours.epsilon, 100 * figure.ours.accuracy, "*", color=COLOURS[2], markersize=9, label=name)
    axes.set_title(TITLES[dataset])
    axes.set_xscale("log")
    axes.set_xlim(0.1, 250)
    axes.set_xticks([0.1, 1, 10, 100], ["0.1", "1", "10", "100"])
    axes.set_xlabel("epsilon")
    axes.set_ylabel("test accuracy (%)")


def _datasets(filled: dict[SoundSetting, SoundMean]) -> list[str]:
    return [dataset for dataset in DATASETS if any(_line(filled, dataset, *row) for row in ROWS)]


def _line(filled: dict[SoundSetting, SoundMean], dataset: str, method: str, threat_model: str) -> list[SoundMean]:
    cells = (filled.get(SoundSetting(dataset, method, threat_model, epsilon)) for epsilon in EPSILONS)
    return [cell for cell in cells if cell is not None]


def _points(line: Sequence[SoundMean]) -> str:
    return ", ".join(f"{100 * cell.accuracy:.2f} at {cell.epsilon:.3g}" for cell in line)


def _name(method: str, threat_model: str) -> str:
    return f"{method} against {threat_model}"
