"""One self-contained page about one run, or several side by side: no script, no network, opens from disk."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import tomli_w
from jinja2 import Environment, PackageLoader, StrictUndefined

from gradveil import codec
from gradveil.reports import figures, guarantee_rows, words
from gradveil.reports.attack_views import TITLES, exhibits, place
from gradveil.reports.evidence import SURFACES, Evidence
from gradveil.reports.first_screen import epsilon, verdict
from gradveil.runs.epsilon_records import PaperAccount
from gradveil.runs.run_records import quality


@cache
def environment() -> Environment:
    """Return the templates; whatever is put into them is escaped."""
    loader = PackageLoader("gradveil.reports")
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters["unbroken"] = words.unbroken
    return made


def style() -> str:
    """Return the style sheet of all pages."""
    return environment().get_template("style.css").render()


def page(runs: Sequence[Evidence], show_truth: bool = False) -> str:
    """Write the page of one run, or of several with a comparison first.

    True records of a user's own data appear only if asked for.
    """
    first = runs[0]
    plain = next((r for r in runs if r.plan.method.idle), None)
    several = len(runs) > 1
    about, version = f"{len(runs)} runs" if several else _sizes(first), first.environment.packages["gradveil"]
    return environment().get_template("report.html").render(
        title=f"{_each(Path(r.plan.dataset).name for r in runs)}: {_each(r.method for r in runs)}",
        subtitle=f"{about}. Made by gradveil {version}.",
        style=style(),
        compared=comparison(runs) if several else None,
        runs=[run_section(r, [plain] if plain is not None and plain is not r else [], show_truth) for r in runs],
    )  # fmt: skip


def _each(names: Iterable[str]) -> str:
    return " / ".join(dict.fromkeys(names))


def _sizes(run: Evidence) -> str:
    plan, examples = run.plan, run.data.examples
    sizes = f"{min(plan.sizes)} to {plan.client_size}" if plan.client_sizes else str(plan.client_size)
    steps = f"{plan.local_steps} local step{'s' if plan.local_steps > 1 else ''}"
    return (
        f"{plan.clients} clients with {sizes} examples each, {plan.cohort} a round, {plan.rounds} rounds of {steps}; "
        f"{examples.train} training and {examples.test} test examples"
    )


def run_section(run: Evidence, others: Sequence[Evidence], show_truth: bool) -> dict[str, Any]:
    """Gather what the page says about one run."""
    truth = show_truth or not run.own
    quoted = run.guarantee
    return {
        "method": run.method,
        "title": run.name,
        "verdict": verdict(run),
        "surfaces": [place(run, s) for s in SURFACES],
        "exhibits": exhibits(run, truth),
        "learning": figures.learning(run, others),
        "noise": figures.noise(run),
        "unchanging": figures.unchanging(run),
        "spending": figures.spending(run),
        "promise": guarantee_rows.promise(run),
        "guarantees": guarantee_rows.rows(run),
        "caveats": quoted.caveats if quoted else [],
        "paper": _paper(run),
        "command": "gradveil run plan.toml --out runs/again",
        "plan": plan_text(run),
        "facts": facts(run),
    }


def _paper(run: Evidence) -> str:
    paper = None if run.result is None else run.result.as_the_paper_accounts
    if not isinstance(paper, PaperAccount) or paper.moments is None:
        return ""
    return f"For comparison, {paper.label}: moments accountant {paper.moments:.3g} at delta {run.plan.delta:g}."


def plan_text(run: Evidence) -> str:
    """Return the plan as TOML; the seed of a run on a user's own data is left out, for it would undo the noise."""
    plain = codec.encode(run.plan)
    if run.own:
        plain.pop("seed", None)
        plain["dataset"] = Path(run.plan.dataset).name
    return tomli_w.dumps(plain)


def plan_digest(run: Evidence) -> str:
    """Return the digest of the plan; of a user's own run without its seed and path, which could be guessed from it."""
    plan = run.plan
    return codec.digest(replace(plan, seed=0, dataset=Path(plan.dataset).name) if run.own else plan)


def facts(run: Evidence) -> list[tuple[str, str]]:
    """List what a result depends on beside the plan."""
    e = run.environment
    rows = [
        ("Python", e.python),
        *((name, number) for name, number in e.packages.items()),
        ("machine", f"{e.system} {e.machine}, {len(e.devices)} devices"),
        ("data (SHA-256)", run.data.sha256 or "not shown for your own data"),
        ("plan (SHA-256)", plan_digest(run)),
    ]
    if run.result is not None:
        rows += [("parameters (SHA-256)", run.result.params_sha256), ("seconds", f"{run.result.seconds:.1f}")]
    return rows


def comparison(runs: Sequence[Evidence]) -> dict[str, Any]:
    """Put runs side by side: accuracy, what is promised, what leaked where."""

    def leaked(run: Evidence, surface: int) -> str:
        best = run.strongest(surface)
        return "not attacked" if best is None else f"{words.badge(best.record)[0]} (gain {best.record.gain:+.3f})"

    rows = [
        ("accuracy (95 % interval)", [_accuracy(r) for r in runs]),
        ("most frequent class", [_constant(r) for r in runs]),
        ("rounds", [f"{len(r.lines)} of {r.plan.rounds}" for r in runs]),
        ("against", [r.plan.threat_model for r in runs]),
        ("epsilon", [_epsilon(r) for r in runs]),
        *((TITLES[s], [leaked(r, s) for r in runs]) for s in SURFACES),
    ]
    names = [r.name for r in runs]
    return {"names": names, "rows": rows, "charts": [*figures.tradeoff(runs), *figures.learning(runs[0], runs[1:])]}


def _epsilon(run: Evidence) -> str:
    guarantee = run.guarantee
    return (
        epsilon(run)
        if guarantee is None or guarantee.epsilon is None
        else (f"{guarantee.epsilon:.3g} (one {guarantee.unit}, delta {guarantee.delta:g})")
    )


def _accuracy(run: Evidence) -> str:
    if not run.lines:
        return "none yet"
    interval = None if run.result is None else run.result.accuracy_interval
    within = "" if interval is None else f" ({interval[0]:.3f} to {interval[1]:.3f})"
    return quality(run.lines[-1]).removeprefix("accuracy ") + within


def _constant(run: Evidence) -> str:
    """Say what a constant answer gets: the most frequent class, or the mean of a number."""
    if run.result is None:
        return ""
    level, mean = run.result.majority_baseline, run.result.mean_baseline
    return f"{level:.3f}" if level is not None else f"RMSE {mean:.4g} by the mean"
