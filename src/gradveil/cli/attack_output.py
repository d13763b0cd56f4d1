"""What an attack found, for the terminal."""

from collections.abc import Sequence

import typer

from gradveil.cli.output import table
from gradveil.leakage.attack_record import AttackRecord, CandidateRecord
from gradveil.reports.attack_files import Saved


def show(record: AttackRecord, saved: Saved) -> None:
    """Print what was attacked, what came out, and where it was written."""
    typer.echo(
        f"{record.attack} against {record.method} on {record.dataset}: surface {record.surface}, "
        f"{record.view}, {record.setting}, {record.network}, batch {record.batch}, "
        f"{record.local_steps} local step(s), {record.readings} reading(s), sigma {record.sigma:g}"
    )
    table(None, ["measure", "value"], [[name, text] for name, text in _rows(record) if text])
    typer.echo(verdict(record))
    typer.echo(f"record: {saved.record}" + (f"; gallery: {saved.gallery}" if saved.gallery else ""))


def compare(records: Sequence[AttackRecord]) -> None:
    """Print one line an attack: what each surface of each run gave away."""
    rows = [
        [
            r.method,
            f"{r.surface} ({_WHERE[r.surface]})",
            f"{r.batch * r.local_steps}",
            f"{r.mean_rmse:.3f} / {r.prior_rmse:.3f}",
            f"{r.gain:+.3f}" + (f" ({r.gain_ci[0]:+.3f} to {r.gain_ci[1]:+.3f})" if r.gain_ci else ""),
            f"{r.label_accuracy:.2f} / {r.label_prior:.2f}" if r.label_accuracy is not None else "",
            _first_candidates(r),
        ]
        for r in records
    ]
    heads = [
        "method",
        "surface",
        "examples",
        "RMSE / prior only",
        "gain (95 % interval)",
        "labels / prior",
        "which of 10",
    ]
    first = records[0]
    table(f"What the attack {first.attack} made of round {first.round}", heads, rows)
    typer.echo(
        "A gain whose interval lies above 0 means that the gradient gave something away. `which of 10` is how often "
        "the record was told from nine others by an adversary who knows the rest of the batch; chance is 0.1."
    )


_WHERE = {0: "server", 1: "update", 2: "training"}


def _first_candidates(r: AttackRecord) -> str:
    if not r.candidates:
        return ""
    c = r.candidates[0]
    return f"{c.success:.2f}" + (f" (bound {c.bound:.2f})" if c.bound is not None else "")


def _rows(r: AttackRecord) -> list[tuple[str, str]]:
    def number(value: float | None, digits: int = 3) -> str:
        return "" if value is None else f"{value:.{digits}f}"

    ci = r.gain_ci
    rows = [
        ("victims", str(r.victims)),
        (f"success ({r.rule_meaning.split(':')[0]})", number(r.success_rate)),
        ("RMSE", number(r.mean_rmse, 4)),
        ("RMSE of the prior-only guess", number(r.prior_rmse, 4)),
        ("gain over it (95 % interval)", number(r.gain, 4) + (f"  ({ci[0]:.4f} to {ci[1]:.4f})" if ci else "")),
        ("PSNR in dB", number(r.mean_psnr, 1) if r.mean_ssim is not None else ""),
        ("SSIM", number(r.mean_ssim)),
        ("iterations / evaluations", f"{r.mean_iterations:.1f} / {r.mean_evaluations:.0f}"),
        ("labels right (by public proportions)", f"{number(r.label_accuracy)}  ({number(r.label_prior)})"),
        ("nearest of 1000 is the truth", number(r.identification)),
        ("features right", number(r.feature_accuracy)),
        ("features right by marginal modes", number(r.feature_baseline)),
        ("restarted after no number", str(r.diverged) if r.diverged else ""),
    ]
    return rows + [_candidates(c) for c in r.candidates]


def _candidates(c: CandidateRecord) -> tuple[str, str]:
    low, high = c.success_ci
    bound = f", bound {c.bound:.3f}" if c.bound is not None else ""
    return f"which of {c.n} records", f"{c.success:.3f}  ({low:.3f} to {high:.3f}; chance {c.chance:g}{bound})"


def verdict(record: AttackRecord) -> str:
    """Say in a sentence whether the attack is worth anything, by our rule and by the paper's."""
    if record.resilient is None:
        ours = "One victim is too few to tell the gain from chance"
    elif record.resilient:
        ours = "This attack gains nothing over a guess that reads no gradient"
    else:
        ours = "This attack gains over a guess that reads no gradient"
    theirs = "resilient" if record.resilient_by_the_papers_rule else "not resilient"
    return f"{ours}; by the paper's rule (unclamped RMSE against 0.6): {theirs}."
