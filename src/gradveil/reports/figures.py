"""The figures of a run's page: how it learned, how noise followed the gradient, and what was spent."""

from collections.abc import Sequence

from gradveil.reports.charts import Chart, Line, curves, scatter
from gradveil.reports.evidence import Evidence
from gradveil.runs.run_records import quality

SOUND = ("pld", "rdp")


def learning(run: Evidence, others: Sequence[Evidence]) -> list[Chart]:
    """Draw accuracy and loss over rounds, beside other runs."""
    runs = [run, *others]
    last = f"{quality(run.lines[-1])} after round {len(run.lines)}" if run.lines else "none yet"
    number = bool(run.lines) and run.accuracy is None
    charts = [
        curves(
            "RMSE", "round", "RMSE on test examples (units of the target)",
            [_line(r, "rmse") for r in runs], f"RMSE over rounds; {run.name} ends at {last}.",
        ) if number else curves(
            "Accuracy", "round", "accuracy on test examples (share)",
            [_line(r, "accuracy") for r in runs], f"Accuracy over rounds; {run.name} ends at {last}.",
        ),
        curves(
            "Loss", "round",
            "squared error on test examples (range 2)" if number else "cross-entropy on test examples (nats)",
            [_line(r, "loss") for r in runs], f"Loss over rounds of {', '.join(r.name for r in runs)}.",
        ),
    ]  # fmt: skip
    return charts if run.lines else []


def noise(run: Evidence) -> list[Chart]:
    """Draw sigma, the sensitivity that scales it, and the norms it follows."""
    if run.plan.method.noise.silent or not run.lines:
        return []
    charts = [
        curves(
            "Noise scale", "round", "sigma (multiples of S)", [_line(run, "sigma", "sigma")],
            f"Sigma over rounds, from {run.lines[0].sigma:.3g} to {run.lines[-1].sigma:.3g}.",
        )
    ]  # fmt: skip
    sensitivities = [line.sensitivity for line in run.lines if line.sensitivity is not None]
    if not sensitivities:  # over a network it stays with the data
        return charts
    return [
        *charts,
        curves(
            "Noise follows the gradient", "round", "l2 norm",
            [_line(run, "sensitivity", "sensitivity S"), _line(run, "clip", "clipping bound C"),
             _line(run, "unit_norm", "mean norm before clipping")],
            f"The sensitivity that scales the noise, from {sensitivities[0]:.3g} to {sensitivities[-1]:.3g}, with the "
            "clipping bound and the mean norm of a unit.",
        ),
    ]  # fmt: skip


def spending(run: Evidence) -> list[Chart]:
    """Draw epsilon over rounds: sound ones by adversary, and the paper's by accountant."""
    lines = [line for line in (_spent(run), *_by_adversary(run)) if line is not None]
    charts = []
    if lines:
        says = "; ".join(f"{line.name} ends at {line.y[-1]:.3g}" for line in lines)
        charts.append(curves("Epsilon spent, sound", "round", "epsilon", lines, says + ".", run.plan.max_epsilon))
    paper = _as_paper(run)
    if paper:
        says = "; ".join(f"{line.name} ends at {line.y[-1]:.3g}" for line in paper)
        title = "Epsilon as the paper accounts (not a guarantee)"
        charts.append(curves(title, "round", "epsilon", paper, says + ".", log=True))
    return charts


def tradeoff(runs: Sequence[Evidence]) -> list[Chart]:
    """Draw accuracy against leakage against epsilon."""
    points = [
        (r.name, r.leakage, r.accuracy, None if r.guarantee is None else r.guarantee.epsilon)
        for r in runs
        if r.leakage is not None and r.accuracy is not None
    ]
    says = "; ".join(f"{name}: accuracy {a:.3f}, leakage {x:.3f}" for name, x, a, _ in points)
    return [scatter("Accuracy against leakage", points, says + ".")] if points else []


def _line(run: Evidence, key: str, name: str | None = None) -> Line:
    return Line(name or run.name, [line.round + 1 for line in run.lines], [getattr(line, key) for line in run.lines])


def _spent(run: Evidence) -> Line | None:
    """Read what training itself accounted soundly, against the adversary of the plan; the end is in the result."""
    spent = [(line.round + 1, s) for line in run.lines if (s := line.spent) is not None]
    finite = [(t, s.epsilon) for t, s in spent if s.epsilon is not None and s.accountant in SOUND]
    last = None if run.guarantee is None else run.guarantee.epsilon
    if last is not None:
        finite = [(t, e) for t, e in finite if t < len(run.lines)] + [(len(run.lines), last)]
    if not finite:
        return None
    return Line(f"{run.plan.threat_model} (one {run.plan_unit})", *map(list, zip(*finite, strict=True)))


def _by_adversary(run: Evidence) -> list[Line]:
    """Read what the run accounted against the other adversaries when it was over."""
    return [
        Line(f"{curve.threat_model} (one {curve.unit})", curve.rounds, curve.epsilon)
        for curve in (() if run.result is None else run.result.epsilon_over_rounds.sound)
        if curve.threat_model != run.plan.threat_model
    ]


def _as_paper(run: Evidence) -> list[Line]:
    if run.result is None:
        return []
    paper = run.result.epsilon_over_rounds.as_the_paper_accounts
    curves = {
        "moments": paper.moments,
        "base composition": paper.base,
        "advanced composition": paper.advanced,
        "zCDP": paper.zcdp,
    }
    return [Line(name, paper.rounds, curve) for name, curve in curves.items() if curve is not None]
