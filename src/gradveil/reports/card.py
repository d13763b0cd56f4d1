"""The privacy card: what a data-protection officer can file about a run, as Markdown and as JSON under a schema."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from gradveil.leakage.attack_record import AttackRecord
from gradveil.leakage.membership_record import MembershipRecord
from gradveil.privacy.method import Method
from gradveil.reports import words
from gradveil.reports.evidence import WHERE, Evidence
from gradveil.reports.guarantee_rows import audited, promise
from gradveil.reports.page import plan_digest
from gradveil.runs import store
from gradveil.runs.epsilon_records import GuaranteeRecord

JSON, MARKDOWN = "privacy_card.json", "privacy_card.md"
ALWAYS = (
    "An attack that fails proves nothing: another may succeed.",
    "Metrics, leaks, reports and checkpoints in the run folder are diagnostics, and no epsilon covers them.",
    "Choosing settings by looking at the data is not covered by any epsilon.",
    "Records of one person under several names, and correlated records, are not protected as one unit.",
    "Whoever reads the memory of a client while it trains sees its data.",
)


def card(run: Evidence) -> dict[str, Any]:
    """Return the card as plain data; it satisfies privacy_card.schema.json."""
    result, plan = run.result, run.plan
    return {
        "format": 1,
        "finished": result is not None,
        "run": {
            "dataset": Path(plan.dataset).name,
            "method": plan.method.name,
            "clients": plan.clients,
            "cohort": plan.cohort,
            "rounds_planned": plan.rounds,
            "rounds_done": len(run.lines),
            "training_examples": run.data.examples.train,
            "accuracy": run.accuracy,
            "noise_source": plan.noise_source.value,
            "plan_sha256": plan_digest(run),
            "data_sha256": run.data.sha256,
            "params_sha256": None if result is None else result.params_sha256,
            "software": run.environment.packages,
        }
        | ({"rmse": run.lines[-1].rmse} if run.lines and run.lines[-1].rmse is not None else {}),
        "claim": promise(run)[0],
        "guarantees": [] if result is None else [_guarantee(g, run) for g in result.guarantees],
        "assumptions": _assumptions(run),
        "attacks": [_attack(attack.record) for attack in run.attacks],
        "not_covered": [*_uncovered(run), *ALWAYS],
    }


def schema() -> dict[str, Any]:
    """Return the JSON Schema that every card satisfies."""
    text = files("gradveil.reports").joinpath("privacy_card.schema.json").read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def markdown(content: dict[str, Any]) -> str:
    """Write a card for people."""
    loader = PackageLoader("gradveil.reports")
    # Markdown is no HTML: escaping would show as such. Bars would break tables, and names come from the user.
    templates = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False
    )
    return templates.get_template("card.md").render(c=_flat(content))


def write(run: Evidence) -> dict[str, Any]:
    """Write both files into the run folder."""
    content = card(run)
    store.write_json(run.folder / JSON, content)
    store.write(run.folder / MARKDOWN, markdown(content).encode())
    return content


def _guarantee(guarantee: GuaranteeRecord, run: Evidence) -> dict[str, Any]:
    return {
        "threat_model": guarantee.threat_model,
        "unit": guarantee.unit,
        "epsilon": guarantee.epsilon,
        "finite": guarantee.finite,
        "delta": guarantee.delta,
        "adjacency": guarantee.adjacency,
        "sampling": guarantee.sampling,
        "accountant": guarantee.accountant,
        "noise_source": guarantee.noise_source,
        "against": words.WHOM[guarantee.threat_model],
        "caveats": list(guarantee.caveats),
        "audit": audited(guarantee, run),
    }


def _assumptions(run: Evidence) -> list[str]:
    plan = run.plan
    guarantee = run.guarantee
    assumptions = [
        f"Cohorts are drawn by {plan.cohort_sampling.value} sampling, batches by {plan.sampling.name}, as accounted.",
        _who_protects(plan.method),
    ]
    if plan.noise_source.value == "seeded":
        assumptions.append("Nobody who sees the model learns the seed, from which the noise can be computed.")
    return assumptions + (
        [f"Privacy losses are composed by {guarantee.accountant} for {guarantee.sampling}."] if guarantee else []
    )


def _who_protects(method: Method) -> str:
    if method.noise.silent:
        return "No noise is added: updates are released as the clients computed them, at most clipped or pruned."
    if method.surface:
        return "Every client runs this software unchanged, and clips and adds noise before anything leaves the client."
    return "The server adds the noise as planned and deletes the updates."


def _uncovered(run: Evidence) -> list[str]:
    if run.result is None:
        return []
    guarantees = run.result.guarantees
    none = [g.threat_model for g in guarantees if not g.finite]
    data = list(dict.fromkeys(caveat for g in guarantees for caveat in words.of_data(g)))
    caveats = dict.fromkeys(c for g in guarantees for c in g.caveats if g.finite and c not in data)
    return data + ([f"No finite epsilon holds against: {', '.join(none)}."] if none else []) + list(caveats)


def _attack(record: AttackRecord) -> dict[str, Any]:
    return {
        "attack": record.attack,
        "surface": record.surface,
        "where": WHERE[record.surface],
        "view": record.view,
        "victims": record.victims,
        "error": record.mean_rmse,
        "error_of_a_guess": record.prior_rmse,
        "gain": record.gain,
        "gain_interval": None if record.gain_ci is None else list(record.gain_ci),
        "verdict": record.verdict,
        "success_rate": record.success_rate,
        "which_of": [
            {
                "candidates": c.n,
                "trials": c.trials,
                "success": c.success,
                "success_interval": list(c.success_ci),
                "chance": c.chance,
                "optimum": c.optimum,
                "bound": c.bound,
            }
            for c in record.candidates
        ],
        "membership": None if record.membership is None else _membership(record.membership),
    }


def _membership(record: MembershipRecord) -> dict[str, Any]:
    return {
        "reads": record.reads,
        "members": record.members,
        "others": record.others,
        "auc": record.auc,
        "auc_interval": list(record.auc_ci),
        "guarantee": record.guarantee,
        "in_words": words.membership(record),
        "rates": [
            {
                "fpr": rate.fpr,
                "told": rate.hits,
                "tpr": rate.tpr,
                "tpr_interval": None if rate.tpr_ci is None else list(rate.tpr_ci),
                "allowed": rate.bound,
            }
            for rate in record.rates
        ],
    }


def _flat(value: Any) -> Any:
    """Keep every text on one line and out of the way of Markdown's tables."""
    if isinstance(value, str):
        return " ".join(value.split()).replace("|", "\\|").replace("<", "&lt;")
    if isinstance(value, dict):
        return {key: _flat(item) for key, item in value.items()}
    return [_flat(item) for item in value] if isinstance(value, list) else value
