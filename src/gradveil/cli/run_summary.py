"""What a finished run says to a person, in at most 25 lines."""

import math

import typer

from gradveil.cli.guarantee_output import show_guarantees, show_presumed
from gradveil.cli.output import say, table
from gradveil.runs.epsilon_records import PaperAccount
from gradveil.runs.estimate import Estimate
from gradveil.runs.run_records import ClientRecord, RoundLine, RunResult, quality
from gradveil.runs.runner import Run

STOPPED = {
    "rounds": "all rounds are done",
    "budget": "the next round would exceed the privacy budget",
    "target-accuracy": "the target accuracy is reached",
    "target-rmse": "the target RMSE is reached",
}


def show(runs: list[Run], results: list[RunResult]) -> None:
    """Print for each run its accuracy, its guarantees, what they assume, and where it is."""
    for run, result in zip(runs, results, strict=True):
        say(accuracy(result))
        say(_ended(run, result))
        show_guarantees(f"Guarantees of {result.method}", result.guarantees)
        show_presumed(result.presumed)
        _show_clients(run, result)
        for sentence in (*_privacy(run, result), *_remarks(run, result)):
            say(sentence)
        typer.echo(f"run folder: {result.run_dir}")


MOST_CLIENTS = 10


def _show_clients(run: Run, result: RunResult) -> None:
    """Print the clients that the data name, those that spent most first."""
    if result.clients is None:
        return
    order = sorted(result.clients, key=lambda c: (-math.inf if c.epsilon is None else -c.epsilon, -c.examples))
    rows = [
        [c.name, str(c.examples), f"{c.rate:.3g}", str(c.participations), _epsilon(c)] for c in order[:MOST_CLIENTS]
    ]
    more = "" if len(order) <= MOST_CLIENTS else f", {MOST_CLIENTS} of {len(order)}"
    title = f"Clients{more}; epsilon against {run.plan.threat_model}"
    table(title, ["client", "examples", "rate", "rounds", "epsilon"], rows)


def _epsilon(client: ClientRecord) -> str:
    return "none finite" if client.epsilon is None else f"{client.epsilon:.3g}"


def accuracy(result: RunResult) -> str:
    """Say how many test examples are right, and how many a constant answer would get right."""
    n, low_high = result.test_examples, result.accuracy_interval
    if result.accuracy is None or low_high is None:
        return (
            f"{result.method} on {result.dataset}: {quality(result)} on {n} test examples; predicting the mean of the "
            f"training rows: RMSE {result.mean_baseline:.4g}."
        )
    return (
        f"{result.method} on {result.dataset}: {right(result.accuracy, n)} test examples right "
        f"({result.accuracy:.1%}, 95% interval {low_high[0]:.1%} to {low_high[1]:.1%}); majority-class baseline: "
        f"{right(result.majority_baseline or 0.0, n)}."
    )


def right(share: float, n: int) -> str:
    """Return a rate as k of n."""
    return f"{round(share * n)} of {n}"


def _ended(run: Run, result: RunResult) -> str:
    reason = STOPPED.get(str(result.stopped_because), result.stopped_because)
    done = f"Stopped after {result.rounds} rounds ({result.seconds:.1f} s): {reason}"
    if result.stopped_because != "budget":
        return f"{done}."
    limit = f"epsilon {run.plan.max_epsilon:g} by {run.plan.accountant} against {run.plan.threat_model}"
    return f"{done} of {limit}."


def note(line: RoundLine) -> str:
    """Say in a few words how a round went: accuracy, epsilon so far against whom, and rounds that the budget allows."""
    spent, rounds_left = line.spent, line.rounds_left
    parts = [quality(line)]
    if spent is not None and spent.epsilon is not None:
        parts.append(f"epsilon {spent.epsilon:.2f} ({spent.threat_model})")
    if rounds_left is not None:
        parts.append(f"budget for {rounds_left} more rounds")
    return ", ".join(parts)


def _privacy(run: Run, result: RunResult) -> list[str]:
    """Say which epsilon to report and what it assumes, and the paper's figure under its own name."""
    quoted = result.guarantee(run.plan.threat_model)
    sentences = []
    if quoted.epsilon is not None:
        sentences.append(
            f"Report epsilon {quoted.epsilon:.3g} at delta {quoted.delta:g} for one {quoted.unit} against "
            f"{quoted.threat_model} ({quoted.sampling}; at most {result.max_participations} participations). "
            f"{' '.join(quoted.caveats)}"
        )
    paper = result.as_the_paper_accounts
    if isinstance(paper, PaperAccount) and paper.moments is not None:
        sentences.append(f"{paper.label.capitalize()}: epsilon {paper.moments:.3g} (moments accountant).")
    return sentences


def _remarks(run: Run, result: RunResult) -> list[str]:
    remarks = [f"About {run.dataset.name}: {note}" for note in run.dataset.notes]
    if run.budget.copies > 1:
        remarks.append(f"Some records are held by {run.budget.copies} clients; epsilon counts each copy.")
    if result.suggested_clip:
        low, high = result.suggested_clip
        remarks.append(f"By the paper's rule of thumb the clipping bound C would be {low:.1f} to {high:.1f}.")
    return remarks


def show_estimate(expected: Estimate) -> None:
    """Print what a plan would take."""
    minutes, seconds = divmod(round(expected.seconds), 60)
    say(
        f"Estimate: {minutes} min {seconds} s of training, {expected.memory_bytes / 2**20:.0f} MiB of memory, "
        f"{expected.parameters} model parameters; a record is held by at most {expected.copies} "
        f"{'client' if expected.copies == 1 else 'clients'}."
    )
