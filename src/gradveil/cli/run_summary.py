"""What a finished run says to a person."""

from collections.abc import Sequence

import typer

from gradveil.accounting.caveats import NOT_HIDDEN
from gradveil.cli.output import table
from gradveil.reports import words
from gradveil.runs.epsilon_records import GuaranteeRecord, PaperAccount, PresumedEpsilon
from gradveil.runs.estimate import Estimate
from gradveil.runs.run_records import RoundLine, RunResult
from gradveil.runs.runner import Run


def show(runs: list[Run], results: list[RunResult]) -> None:
    """Print one row a run, then what it cost and where it lies."""
    first = results[0]
    title = f"{first.dataset}: accuracy on {first.test_examples} test examples"
    table(title, ["method", "accuracy", "95 % interval", "rounds", "stopped by", "seconds"], [_row(r) for r in results])
    typer.echo(f"Always answering the most frequent class would give {first.majority_baseline:.3f}.")
    show_guarantees(first.method, first.guarantees)
    show_presumed(first.presumed)
    for one, result in zip(runs, results, strict=True):
        for sentence in (*_privacy(one, result), *_remarks(one, result)):
            typer.echo(sentence)
    for result in results:
        typer.echo(f"{result.method}: results in {result.run_dir}")


def note(line: RoundLine) -> str:
    """Say in a few words how a round went: accuracy, what is spent against whom, and what the budget still affords."""
    spent, left = line.spent, line.rounds_left
    said = [f"accuracy {line.accuracy:.3f}"]
    if spent is not None and spent.epsilon is not None:
        said.append(f"epsilon {spent.epsilon:.2f} ({spent.threat_model})")
    if left is not None:
        said.append(f"{left} more rounds at this rate")
    return ", ".join(said)


def show_guarantees(title: str, held: Sequence[GuaranteeRecord]) -> None:
    """Print what holds against whom, below what is true of all of them because of the data."""
    for caveat in dict.fromkeys(caveat for g in held for caveat in words.of_data(g)):
        typer.echo(f"Mind first: {caveat}")
    rows = [
        [
            g.threat_model,
            g.unit,
            "none finite" if g.epsilon is None else f"{g.epsilon:.3g}",
            f"{g.delta:g}",
            g.adjacency,
            _mind(g),
        ]
        for g in held
    ]
    table(f"Guarantees of {title}", ["threat model", "unit", "epsilon", "delta", "neighbours", "mind"], rows)


def show_presumed(figures: Sequence[PresumedEpsilon]) -> None:
    """Print what some would quote, and why it is no guarantee."""
    for figure in figures:
        epsilon = "none finite" if figure.epsilon is None else f"epsilon {figure.epsilon:.3g}"
        typer.echo(f"{figure.threat_model}, one {figure.unit}: {epsilon} {figure.label}.")


def _mind(held: GuaranteeRecord) -> str:
    """Return the sentence that matters most where a number is missing or gives less credit than one might expect."""
    if not held.finite:
        return words.reason(held)
    return next((caveat for caveat in held.caveats if caveat == NOT_HIDDEN), "")


def _row(result: RunResult) -> list[str]:
    low, high = result.accuracy_interval
    return [
        result.method,
        f"{result.accuracy:.3f}",
        f"{low:.3f} to {high:.3f}",
        str(result.rounds),
        str(result.stopped_because),
        f"{result.seconds:.1f}",
    ]


def _privacy(one: Run, result: RunResult) -> list[str]:
    """Say what the run spent in one sentence, and the paper's figure beside it under its own name."""
    quoted = result.guarantee(one.plan.threat_model)
    who = f"{result.method}: against {quoted.threat_model}"
    if quoted.epsilon is None:
        said = [f"{who} there is no finite guarantee. {words.reason(quoted)}"]
    else:
        said = [
            f"{who}, one {quoted.unit} is protected with epsilon {quoted.epsilon:.3g} at delta "
            f"{quoted.delta:g} ({quoted.adjacency}; {quoted.sampling}; at most "
            f"{result.max_participations} participations)."
        ]
        said += [f"  {caveat}" for caveat in quoted.caveats]
    paper = result.as_the_paper_accounts
    if isinstance(paper, PaperAccount) and paper.moments is not None:
        said.append(f"{result.method}: {paper.label}: moments accountant {paper.moments:.3g}.")
    return said


def _remarks(one: Run, result: RunResult) -> list[str]:
    remarks = [f"Note on {one.dataset.name}: {note}" for note in one.dataset.notes]
    if one.budget.copies > 1:
        remarks.append(f"{result.method}: some records are held by {one.budget.copies} clients; losses add up.")
    if result.stopped_because == "budget":
        remarks.append(
            f"{result.method}: stopped before round {result.rounds + 1}, whose release would have spent more "
            f"than the {one.plan.max_epsilon:g} allowed by {one.plan.accountant} against {one.plan.threat_model}."
        )
    if result.suggested_clip:
        low, high = result.suggested_clip
        remarks.append(f"{result.method}: gradients suggest a clipping bound C from {low:.2f} to {high:.2f}.")
    return remarks


def show_estimate(expected: Estimate) -> None:
    """Print what a plan would take."""
    minutes, seconds = divmod(round(expected.seconds), 60)
    typer.echo(f"would take about {minutes} min {seconds} s and {expected.memory_bytes / 2**20:.0f} MiB of memory;")
    typer.echo(
        f"the model has {expected.parameters} parameters; the most copied record is held {expected.copies} times"
    )
