"""One self-contained page about one run, or several side by side: no script, no network, opens from disk."""

import base64
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w
from jinja2 import Environment, PackageLoader, StrictUndefined

from gradveil import codec
from gradveil.reports import figures, words
from gradveil.reports.evidence import SURFACES, WHERE, Evidence, Shown
from gradveil.reports.exhibits import Exhibit, drawn
from gradveil.runs.epsilon_records import GuaranteeRecord, PaperAccount
from gradveil.runs.run_records import quality

TITLES = {2: "Data and local training", 1: "The client's update", 0: "The server"}
WHAT = {
    2: "type 2: the gradient of every step, inside the client",
    1: "type 1: what the client is about to send",
    0: "type 0: what arrives from each client",
}
VICTIMS = 3
"""Victims of an attack that are shown."""
FEATURES = 20
"""Features of a table row that are shown."""


@cache
def environment() -> Environment:
    """Return the templates; whatever is put into them is escaped."""
    loader = PackageLoader("gradveil.reports")
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


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
        title=f"{Path(first.plan.dataset).name}: {' / '.join(dict.fromkeys(r.method for r in runs))}",
        subtitle=f"{about}. Made by gradveil {version}.",
        style=style(),
        compared=comparison(runs) if several else None,
        runs=[run_section(r, [plain] if plain is not None and plain is not r else [], show_truth) for r in runs],
    )  # fmt: skip


def _sizes(run: Evidence) -> str:
    plan, examples = run.plan, run.data.examples
    held = f"{min(plan.sizes)} to {plan.client_size}" if plan.client_sizes else str(plan.client_size)
    return (
        f"{plan.clients} clients with {held} examples each, {plan.cohort} a round, {plan.rounds} rounds of "
        f"{plan.local_steps} local steps; {examples.train} training and {examples.test} test examples"
    )


def run_section(run: Evidence, others: Sequence[Evidence], show_truth: bool) -> dict[str, Any]:
    """Gather what the page says about one run."""
    truth = show_truth or not run.own
    guarantees = () if run.result is None else run.result.guarantees
    quoted = run.guarantee
    return {
        "method": run.method,
        "title": f"{run.method} ({run.folder.name})",
        "headline": words.headline(run),
        "surfaces": [_surface(run, s) for s in SURFACES],
        "exhibits": [exhibit(attack, truth) for s in SURFACES for attack in run.attacks if attack.record.surface == s],
        "learning": figures.learning(run, others),
        "noise": figures.noise(run),
        "spending": figures.spending(run),
        "promise": promise(run),
        "guarantees": [_row(g, run) for g in guarantees],
        "caveats": quoted.caveats if quoted else [],
        "paper": _paper(run),
        "command": "gradveil run plan.toml --out runs/again",
        "plan": plan_text(run),
        "facts": facts(run),
    }


def _row(guarantee: GuaranteeRecord, run: Evidence) -> dict[str, Any]:
    whom, caveat = words.WHOM[guarantee.threat_model], "" if guarantee.finite else words.reason(guarantee)
    return guarantee.plain() | {"whom": whom, "caveat": caveat, "audit": audited(guarantee, run)}


def audited(guarantee: GuaranteeRecord, run: Evidence) -> dict[str, Any] | None:
    """Return the measured lower bound of a guarantee, with its level, power and date, if the run was audited."""
    row = run.measured(guarantee)
    if row is None or run.audit is None:
        return None
    kept = ("lower_bound", "ceiling", "confidence", "level", "verdict")
    return {name: getattr(row, name) for name in kept} | {"date": run.audit.date}


def _surface(run: Evidence, surface: int) -> dict[str, str]:
    best = run.strongest(surface)
    badge, kind = words.badge(None if best is None else best.record)
    says = "No attack was tried here." if best is None else words.outcome(best.record)
    return {"title": TITLES[surface], "what": WHAT[surface], "badge": badge, "kind": kind, "says": says}


def exhibit(attack: Shown, truth: bool) -> dict[str, Any]:
    """Return what an attack has to show: a gallery of pictures, or the features of a table row; or words alone."""
    r, shows = attack.record, attack.exhibit
    title = f"{r.attack} {WHERE[r.surface]} ({r.view}, round {r.round})"
    base: dict[str, Any] = {"title": title, "says": words.outcome(r) + ".", "gallery": None, "rows": []}
    if shows is None or not truth:  # a good copy of a record is as private as the record
        return base
    if shows.is_image:
        picture = drawn(shows.first(VICTIMS), f"{r.attack} against {r.method}")
        return base | {"gallery": base64.b64encode(picture).decode()}
    return base | {"rows": features(shows)}


def features(exhibit: Exhibit) -> list[dict[str, Any]]:
    """Return the features of the first victim: true, recovered, and guessed without gradients."""
    truth, guess, prior = exhibit.truth[0], exhibit.guesses[0][-1], exhibit.prior[0]
    columns = exhibit.columns or tuple((f"feature {i}", i, i + 1) for i in range(len(truth)))
    return [
        {
            "name": name,
            "true": _level(truth[a:b]),
            "guess": _level(guess[a:b]),
            "prior": _level(prior[a:b]),
            "hit": _level(truth[a:b]) == _level(guess[a:b]),
        }
        for name, a, b in columns[:FEATURES]
    ]


def _level(part: np.ndarray[Any, Any]) -> str:
    """Name the level of a category by its place, or write a number."""
    if len(part) == 1:
        return f"{float(part[0]):.2f}"
    return f"level {int(np.argmax(part)) + 1} of {len(part)}" if part.any() else "none"


def promise(run: Evidence) -> list[str]:
    """Say in plain words what holds, for whom, and under what."""
    guarantee = run.guarantee
    if guarantee is None:
        return ["Training has not finished; the guarantee is computed at its end."]
    source = (
        "Noise was drawn from the operating system's entropy and is not stored."
        if guarantee.noise_source == "secret"
        else "Noise was drawn from a seed: the guarantee holds only against those who do not know the seed."
    )
    whom = words.WHOM[guarantee.threat_model]
    if guarantee.epsilon is None:
        return [f"Against {whom}: no finite epsilon. {words.reason(guarantee)}", source]
    first = "".join(f"{caveat} " for caveat in words.of_data(guarantee))
    return [
        f"{first}Against {whom}: epsilon {guarantee.epsilon:.3g} at delta {guarantee.delta:g}, for one "
        f"{guarantee.unit}, {guarantee.adjacency} neighbors, with {guarantee.sampling}, accounted by "
        f"{guarantee.accountant}.",
        source,
    ]


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
        ("accuracy", [quality(r.lines[-1]).removeprefix("accuracy ") if r.lines else "none yet" for r in runs]),
        ("rounds", [f"{len(r.lines)} of {r.plan.rounds}" for r in runs]),
        ("against", [r.plan.threat_model for r in runs]),
        ("epsilon", [_epsilon(r) for r in runs]),
        *((TITLES[s], [leaked(r, s) for r in runs]) for s in SURFACES),
    ]
    names = [r.name for r in runs]
    return {"names": names, "rows": rows, "charts": [*figures.tradeoff(runs), *figures.learning(runs[0], runs[1:])]}


def _epsilon(run: Evidence) -> str:
    guarantee = run.guarantee
    if guarantee is None:
        return "not computed yet"
    return (
        "none finite"
        if guarantee.epsilon is None
        else f"{guarantee.epsilon:.3g} (one {guarantee.unit}, delta {guarantee.delta:g})"
    )
