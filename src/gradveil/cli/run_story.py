"""The demonstration as one story: what leaks, what protection costs, what it guarantees against whom, and the page."""

from pathlib import Path

import typer

from gradveil.cli.guarantee_output import show_guarantees
from gradveil.cli.output import console, say, table
from gradveil.cli.run_picture import side_by_side
from gradveil.cli.run_summary import right
from gradveil.leakage.attack_record import AttackRecord
from gradveil.reports import evidence, words
from gradveil.reports.evidence import AttackEvidence, Evidence
from gradveil.runs.run_records import RunResult

EXAMPLE = 2
"""The surface of the story: local training, where gradients say most."""


def show(folders: list[Path], page: Path) -> None:
    """Tell the story of a protected run, the first, and the others it is compared with, the last without protection."""
    runs = [evidence.gather(folder) for folder in folders]
    protected, unprotected = runs[0], runs[-1]
    leaks = [run.strongest(EXAMPLE) for run in (unprotected, protected)]
    if leaks[0] is not None and leaks[1] is not None:
        _show_leak(unprotected, protected, leaks[0], leaks[1])
    _show_cost(runs)
    _show_guarantee(protected, runs[1:])
    typer.echo(f"\nReport with all attacks: {page}")


def _show_leak(unprotected: Evidence, protected: Evidence, without: AttackEvidence, under: AttackEvidence) -> None:
    """Show the first attacked record and its two reconstructions, then how many of all victims were reconstructed."""
    method = protected.method
    say("WHAT LEAKS: an attacker who reads gradients in training rebuilds the data.")
    _show_record(protected, without, under)
    say(
        f"Rebuilt (RMSE at most 0.1): {_successes(without.record)} victims without protection, from the gradient of "
        f"{_records(without.record)} each; {_successes(under.record)} under {method}, which shows the noisy gradient "
        f"of {_records(under.record)}. Picked out of 10 candidates: "
        f"{_picked(without.record)} without, {_picked(under.record)} under {method}, one of 10 by chance."
    )


def _show_record(protected: Evidence, without: AttackEvidence, under: AttackEvidence) -> None:
    """Show one record and its reconstructions as pictures; in words where the terminal shows none."""
    plain, noisy = without.exhibit, under.exhibit
    if plain is None or noisy is None or not plain.is_image:
        return
    pictures = [plain.truth[0], plain.guesses[0, -1], noisy.guesses[0, -1]]
    captions = ["true record", "no protection", f"under {protected.method}"]
    errors = ["", f"RMSE {plain.errors[0]:.3f}", f"RMSE {noisy.errors[0]:.3f}"]
    screen = console()
    lines = side_by_side(pictures, [captions, errors], screen)
    for line in lines or []:
        screen.print(line, no_wrap=True, overflow="ignore", crop=False)
    if lines is None:
        say(
            f"Error (RMSE) of the first record: {plain.errors[0]:.3f} without protection, {noisy.errors[0]:.3f} under "
            f"{protected.method}; {noisy.prior_errors[0]:.3f} for a guess that reads no gradient."
        )


def _records(record: AttackRecord) -> str:
    return "one record" if record.batch == 1 else f"{record.batch} records"


def _successes(record: AttackRecord) -> str:
    return right(record.success_rate, record.victims)


def _picked(record: AttackRecord) -> str:
    """Return how often the true record was picked out of 10: every record of every victim is one trial."""
    return right(record.candidates[0].success, record.candidates[0].trials) if record.candidates else "not tried"


def _show_cost(runs: list[Evidence]) -> None:
    """Print the accuracy of every run as k of n, beside that of the most frequent class."""
    results = [run.result for run in runs if run.result is not None]
    rows = [[run.method, right(run.accuracy or 0.0, run.test_examples), _percent(run)] for run in results]
    baseline, n = (results[0].majority_baseline or 0.0), results[0].test_examples
    rows.append(["majority-class baseline", right(baseline, n), f"{baseline:.1%}"])
    typer.echo("")
    table("WHAT PROTECTION COSTS: accuracy on test examples", ["method", "right", "accuracy (95% interval)"], rows)


def _percent(result: RunResult) -> str:
    low, high = result.accuracy_interval or (0.0, 1.0)
    return f"{result.accuracy or 0.0:.1%} ({low:.1%} to {high:.1%})"


def _show_guarantee(protected: Evidence, others: list[Evidence]) -> None:
    typer.echo("")
    guarantees = () if protected.result is None else protected.result.guarantees
    show_guarantees(f"WHAT IS GUARANTEED by {protected.method}", guarantees)
    for run in others:
        if run.guarantee is not None and not run.guarantee.finite:
            say(f"{run.method}: no finite epsilon. {words.reason(run.guarantee)}")
    if protected.guarantee is not None and protected.guarantee.noise_source == "seeded":
        say("Noise is seeded here, to be repeatable; for real data use --noise-source secret.")
