"""What an attack recovered, for the terminal."""

from collections.abc import Sequence

import typer

from gradveil.cli.output import say, table
from gradveil.leakage.attack_record import AttackRecord, CandidateRecord
from gradveil.leakage.membership_record import MembershipRecord, RateRecord
from gradveil.reports.attack_files import Saved


def show(record: AttackRecord, saved: Saved) -> None:
    """Print what was attacked, what came out, and where it was written."""
    say(
        f"{record.attack} against {record.method} on {record.dataset}: surface {record.surface} "
        f"({record.view}), {record.setting}, network {record.network}, batch {record.batch}, local steps "
        f"{record.local_steps}, readings {record.readings}, sigma {record.sigma:g}"
    )
    rows = _rows(record) if record.membership is None else _membership(record.membership)
    table(None, ["measure", "value"], [[name, text] for name, text in rows if text])
    say(verdict(record))
    typer.echo(f"record: {saved.record}")
    if saved.gallery:
        typer.echo(f"gallery: {saved.gallery}")


def compare(records: Sequence[AttackRecord]) -> None:
    """Print one line for each surface of a run: what the attack recovered there."""
    rows = [
        [
            f"{r.surface} {_WHERE[r.surface]}",
            f"{r.batch * r.local_steps}",
            f"{r.mean_rmse:.3f} ({r.prior_rmse:.3f})",
            f"{r.gain_ci[0]:+.3f} to {r.gain_ci[1]:+.3f}" if r.gain_ci else f"{r.gain:+.3f}",
            f"{r.label_accuracy:.0%} ({r.label_prior:.0%})" if r.label_accuracy is not None else "",
            _picked(r.candidates[0]) if r.candidates else "",
            r.verdict,
        ]
        for r in records
    ]
    first = records[0]
    title = f"Attack {first.attack} on {first.method}, round {first.round}, {first.victims} victims"
    table(title, ["surface", "batch", "RMSE", "gain (95%)", "labels", "out of 10", "verdict"], rows)
    say(
        "In parentheses: a guess that reads no gradient. A gain above 0 means that the gradient leaked. Out of 10: how "
        "often the attacker, who knows the rest of the batch, picked the true record out of 10 candidates."
    )


_WHERE = {0: "server", 1: "update", 2: "training"}


def _rows(r: AttackRecord) -> list[tuple[str, str]]:
    def number(value: float | None, digits: int = 3) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    ci = r.gain_ci
    rows = [
        ("victims", str(r.victims)),
        (
            f"success ({r.rule_meaning.split(':')[0]})",
            f"{round(r.success_rate * r.victims)} of {r.victims}",
        ),
        ("RMSE", number(r.mean_rmse, 4)),
        ("RMSE of a guess that reads no gradient", number(r.prior_rmse, 4)),
        (
            "gain over that guess (95% interval)",
            number(r.gain, 4) + (f"  ({ci[0]:.4f} to {ci[1]:.4f})" if ci else ""),
        ),
        ("PSNR in dB", number(r.mean_psnr, 1) if r.mean_ssim is not None else ""),
        ("SSIM", number(r.mean_ssim)),
        ("iterations / evaluations", f"{r.mean_iterations:.1f} / {r.mean_evaluations:.0f}"),
        ("labels right (guessed from public data)", f"{number(r.label_accuracy)}  ({number(r.label_prior)})"),
        ("true record is the nearest of 1000", number(r.identification)),
        ("features right", number(r.feature_accuracy)),
        ("features right by the most frequent values", number(r.feature_baseline)),
        ("restarts after NaN", str(r.diverged) if r.diverged else ""),
        ("did not fit what was read", f"{r.not_fitted} of {r.victims}" if r.not_fitted else ""),
    ]
    return rows + [_candidates(c) for c in r.candidates]


def _membership(m: MembershipRecord) -> list[tuple[str, str]]:
    low, high = m.auc_ci
    return [
        ("score", m.score),
        ("members / others", f"{m.members} / {m.others}; {m.calibration} more others set the thresholds"),
        ("AUC (95% interval)", f"{m.auc:.3f}  ({low:.3f} to {high:.3f}; chance 0.5)"),
        *((f"members told at {rate.fpr:.1%} false alarms", _rate(rate, m)) for rate in m.rates),
        ("what bounds this", m.guarantee),
    ]


def _rate(rate: RateRecord, m: MembershipRecord) -> str:
    if rate.tpr is None or rate.tpr_ci is None:
        return f"too few: {rate.needed} others must set this threshold, and there are {m.calibration}"
    low, high = rate.tpr_ci
    bound = "" if rate.bound is None else f", at most {rate.bound:.4f} by the guarantee"
    hits = f"{rate.hits} of {m.members} = {rate.tpr:.4f}  ({low:.4f} to {high:.4f}{bound})"
    return f"{hits}; false alarms {rate.false_alarms} of {m.others}"


def _candidates(c: CandidateRecord) -> tuple[str, str]:
    low, high = c.success_ci
    best = f", best possible {c.optimum:.3f}" if c.optimum is not None else ""
    bound = f", upper bound {c.bound:.3f}" if c.bound is not None else ""
    return (
        f"true record picked out of {c.n}",
        f"{_picked(c)}  ({low:.3f} to {high:.3f}; chance {c.chance:g}{best}{bound})",
    )


def _picked(c: CandidateRecord) -> str:
    return f"{round(c.success * c.trials)} of {c.trials}"


_VERDICTS = {
    "leaks": "LEAKS: the attack recovers more than a guess that reads no gradient, or tells the record from others",
    "nothing-found": "Nothing found: the attack recovered no more than a guess that reads no gradient; another may",
    "too-few-victims": "Too few victims to tell whether the attack recovers anything; attack more with --victims",
}


_MEMBERSHIP = {
    "leaks": "LEAKS: members are told from others more often than by chance",
    "nothing-found": "Nothing found: members were told from others no better than by chance; another attack may",
    "too-few-victims": "Too few to tell whether members can be told from others; attack more with --victims",
}


def verdict(record: AttackRecord) -> str:
    """Say in a sentence what the attack found, and what the paper's rule makes of it."""
    if record.membership is not None:
        return f"{_MEMBERSHIP[record.verdict]}."
    theirs = "resilient" if record.resilient_by_the_papers_rule else "not resilient"
    ours = _VERDICTS[record.verdict]
    if record.not_fitted and record.verdict != "leaks":
        ours = (
            f"Cannot tell: the attack did not fit what was read of {record.not_fitted} of {record.victims} victims, so "
            "its guesses there say nothing; try more --iterations or another attack"
        )
    elif not record.candidates and record.verdict != "leaks":
        ours = (
            "Cannot tell: no record was tried among others, which takes nine public records and, for several local "
            "steps, batches of one size"
        )
    return f"{ours}. An RMSE of 0.6 before clamping, the paper's cut, calls the method {theirs}."
