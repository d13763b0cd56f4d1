"""How a run shows itself in one line, and in a notebook: accuracy, guarantee and a small curve."""

from collections.abc import Sequence
from html import escape

from gradveil.runs.run_records import RoundLine, RunResult, quality

_WIDTH, _HEIGHT = 240, 48


def sentence(result: RunResult) -> str:
    """Say in one line what was trained, how good it is and what holds against the server."""
    return f"{result.method} on {result.dataset}: {_accuracy(result)}; {_guarantee(result)}"


def _accuracy(result: RunResult) -> str:
    after = f"after {result.rounds} rounds"
    if result.accuracy_interval is None:
        return f"{quality(result)} ({result.mean_baseline:.4g} for the mean) {after}"
    low, high = result.accuracy_interval
    return f"{quality(result)} ({low:.3f} to {high:.3f}) {after}"


def _guarantee(result: RunResult) -> str:
    guarantee = result.guarantee("server")
    if guarantee.epsilon is None:
        return "no finite epsilon against the server"
    return f"epsilon {guarantee.epsilon:.3g} at delta {guarantee.delta:g} for one {guarantee.unit} against the server"


def html(result: RunResult, history: Sequence[RoundLine]) -> str:
    """Return the same as HTML, with the accuracy over rounds as a line and the first caveat, if there is one."""
    caveats = result.guarantee("server").caveats
    first = f'<div style="opacity:.7">{escape(caveats[0])}</div>' if caveats else ""
    return (
        f"<div><b>{escape(result.method)}</b> on {escape(result.dataset)}<br>{escape(_accuracy(result))}"
        f"<br>{escape(_guarantee(result))}{curve(_shares(history))}{first}</div>"
    )


def _shares(history: Sequence[RoundLine]) -> list[float]:
    """Return the accuracies; of a number that is predicted, 1 less the RMSE over its largest."""
    worst = max((line.rmse for line in history if line.rmse is not None), default=None) or 1.0
    return [1 - (line.rmse or 0.0) / worst if line.accuracy is None else line.accuracy for line in history]


def curve(accuracies: Sequence[float]) -> str:
    """Return a line through accuracies between 0 and 1, from left to right, as SVG; nothing for fewer than two."""
    if len(accuracies) < 2:
        return ""
    step = _WIDTH / (len(accuracies) - 1)
    points = " ".join(f"{i * step:.1f},{(1 - value) * _HEIGHT:.1f}" for i, value in enumerate(accuracies))
    title = f"Accuracy over {len(accuracies)} rounds, from {accuracies[0]:.3f} to {accuracies[-1]:.3f}"
    return (
        f'<br><svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 -1 {_WIDTH} {_HEIGHT + 2}" role="img">'
        f'<title>{title}</title><polyline points="{points}" fill="none" stroke="#0072B2" stroke-width="1.5"/></svg>'
    )
