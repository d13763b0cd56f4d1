"""The figures of a run's page: how it learned, how noise followed the gradient, and what was spent."""

from collections.abc import Sequence

from gradveil.reports.charts import Chart, Line, Mark, Point, curves, scatter
from gradveil.reports.evidence import Evidence
from gradveil.runs.epsilon_records import EpsilonCurve

SOUND = ("pld", "rdp")


def learning(run: Evidence, others: Sequence[Evidence]) -> list[Chart]:
    """Draw accuracy (RMSE of a number) and loss over rounds, beside other runs and a constant answer."""
    runs = [run, *others]
    if not run.lines:
        return []
    number = run.lines[-1].rmse is not None
    losses, unit = [_line(r, "loss") for r in runs], "squared error (range 2)" if number else "cross-entropy (nats)"
    says = f"Loss on test examples over rounds. {'; '.join(f'{line.name}: {_ends(line)}' for line in losses)}."
    return [_errors(runs) if number else _accuracies(runs), curves("Loss", "round", unit, losses, says)]


def _accuracies(runs: Sequence[Evidence]) -> Chart:
    level = _shared_level(runs, "majority_baseline")
    constant = "" if level is None else f" The dashed level is what naming the most frequent class gets: {level:.3f}."
    return curves(
        "Accuracy", "round", "accuracy (share)", [_accuracy(r) for r in runs],
        f"Accuracy on test examples over rounds. {'; '.join(_last(r) for r in runs)}.{constant}",
        None if level is None else Mark("majority", level),
    )  # fmt: skip


def _shared_level(runs: Sequence[Evidence], name: str) -> float | None:
    """Return what a constant answer gets if that is the same for all runs: runs on other data have another level."""
    levels = {None if r.result is None else getattr(r.result, name) for r in runs}
    return levels.pop() if len(levels) == 1 else None


def _errors(runs: Sequence[Evidence]) -> Chart:
    level = _shared_level(runs, "mean_baseline")
    lines = [_line(r, "rmse") for r in runs]
    constant = "" if level is None else f" The dashed level is what naming the mean gets: {level:.4g}."
    return curves(
        "RMSE", "round", "RMSE (units of the target)", lines,
        f"RMSE on test examples over rounds. {'; '.join(f'{line.name}: {_ends(line)}' for line in lines)}.{constant}",
        None if level is None else Mark("mean", level),
    )  # fmt: skip


def noise(run: Evidence) -> list[Chart]:
    """Draw what changes of sigma, the sensitivity that scales it, and the norms it follows."""
    if run.plan.method.noise.silent or not run.lines:
        return []
    sigma = _line(run, "sigma", "sigma")
    norms = [
        _line(run, "sensitivity", "sensitivity S"),
        _line(run, "clip", "clipping bound C"),
        _line(run, "unit_norm", "mean norm before clipping"),
    ]
    moving = [line for line in norms if _moves(line)]
    charts = []
    if _moves(sigma):
        says = f"Sigma over rounds: {_ends(sigma)}."
        charts.append(curves("Noise scale", "round", "sigma (multiples of S)", [sigma], says))
    if moving:
        says = "; ".join(f"{line.name}: {_ends(line)}" for line in moving)
        charts.append(curves("Norms of gradients", "round", "l2 norm", moving, f"Norms over rounds. {says}."))
    return charts


def unchanging(run: Evidence) -> str:
    """Say what of the noise is the same in every round, and so is not drawn."""
    if run.plan.method.noise.silent or not run.lines:
        return ""
    named = {"sigma": "sigma", "sensitivity": "the sensitivity S", "clip": "the clipping bound C"}
    lines = [_line(run, key, name) for key, name in named.items()]
    same = [f"{line.name} is {line.y[0]:.3g}" for line in lines if line.constant and line.y[0] is not None]
    return f"The same in every round: {', '.join(same)}." if same else ""


def spending(run: Evidence) -> list[Chart]:
    """Draw epsilon over rounds: sound ones by adversary, and the paper's by accountant."""
    lines = _merged(_accounts(run))
    limit = None if run.plan.max_epsilon is None else Mark("budget", run.plan.max_epsilon)
    charts = []
    if lines:
        says = f"{'; '.join(f'{line.name}: {_end(line)}' for line in lines)}."
        budget = "" if limit is None else f" The dashed level is the budget: {limit.level:g}."
        charts.append(curves("Epsilon spent, sound", "round", "epsilon", lines, says + budget, limit))
    paper = _as_paper(run)
    if paper:
        says = "; ".join(f"{line.name}: {_end(line)}" for line in paper)
        title = "Epsilon as the paper accounts (not a guarantee)"
        charts.append(curves(title, "round", "epsilon", paper, says + ".", log=True))
    return charts


def tradeoff(runs: Sequence[Evidence]) -> list[Chart]:
    """Draw accuracy against leakage against epsilon."""
    points = [
        Point(r.name, r.leakage, r.accuracy, None if r.guarantee is None else r.guarantee.epsilon, _spread(r))
        for r in runs
        if r.leakage is not None and r.accuracy is not None
    ]
    listing = "; ".join(f"{p.name}: accuracy {p.accuracy:.3f}, leakage {p.leakage:.3f}" for p in points)
    says = f"Leakage is the largest share of a blind guess's error that an attack took away. {listing}."
    return [scatter("Accuracy against leakage", points, says)] if points else []


def _moves(line: Line) -> bool:
    """Whether there is something to draw: over a network some of it stays with the data."""
    return not line.constant and any(value is not None for value in line.y)


def _merged(accounts: Sequence[EpsilonCurve]) -> list[Line]:
    """Draw adversaries against whom the same was spent as one line, under all their names."""
    groups: list[list[EpsilonCurve]] = []
    for one in accounts:
        twins = next((group for group in groups if _agree(group[0], one)), None)
        if twins is None:
            groups.append([one])
        else:
            twins.append(one)
    return [
        Line(f"{', '.join(g.threat_model for g in group)} (one {group[0].unit})", group[0].rounds, group[0].epsilon)
        for group in groups
    ]


def _agree(one: EpsilonCurve, other: EpsilonCurve) -> bool:
    """Whether two curves protect the same unit, end in the same round, and are equal wherever both are known."""
    first, second = (dict(zip(curve.rounds, curve.epsilon, strict=True)) for curve in (one, other))
    return (
        one.unit == other.unit
        and one.rounds[-1] == other.rounds[-1]
        and all(first[t] == second[t] for t in first.keys() & second.keys())
    )


def _spread(run: Evidence) -> tuple[float, float] | None:
    return None if run.result is None else run.result.accuracy_interval


def _accuracy(run: Evidence) -> Line:
    line = _line(run, "accuracy")
    return Line(line.name, line.x, line.y, _spread(run))


def _last(run: Evidence) -> str:
    """Say where the accuracy of a run ends, with its interval."""
    if run.accuracy is None:
        return f"{run.name}: none yet"
    spread = _spread(run)
    within = "" if spread is None else f" (95 % interval {spread[0]:.3f} to {spread[1]:.3f})"
    return f"{run.name}: {run.accuracy:.3f} after round {len(run.lines)}{within}"


def _ends(line: Line) -> str:
    """Say from what to what a curve goes."""
    values = [value for value in line.y if value is not None]
    return f"from {values[0]:.3g} to {values[-1]:.3g}" if values else "not known"


def _end(line: Line) -> str:
    return "none finite" if line.y[-1] is None else f"{line.y[-1]:.3g} at the end"


def _line(run: Evidence, key: str, name: str | None = None) -> Line:
    return Line(name or run.name, [line.round + 1 for line in run.lines], [getattr(line, key) for line in run.lines])


def _accounts(run: Evidence) -> list[EpsilonCurve]:
    """Read what was spent soundly: against the adversary of the plan as training went on, against others at the end."""
    others = () if run.result is None else run.result.epsilon_over_rounds.sound
    return [*_spent(run), *(curve for curve in others if curve.threat_model != run.plan.threat_model)]


def _spent(run: Evidence) -> list[EpsilonCurve]:
    """Read what training itself accounted, against the adversary of the plan; the end is in the result."""
    spent = [(line.round + 1, s) for line in run.lines if (s := line.spent) is not None]
    finite = [(t, s.epsilon) for t, s in spent if s.epsilon is not None and s.accountant in SOUND]
    last = None if run.guarantee is None else run.guarantee.epsilon
    if last is not None:
        finite = [(t, e) for t, e in finite if t < len(run.lines)] + [(len(run.lines), last)]
    if not finite:
        return []
    rounds, epsilon = zip(*finite, strict=True)
    return [EpsilonCurve(threat_model=run.plan.threat_model, unit=run.plan_unit, rounds=rounds, epsilon=epsilon)]


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
