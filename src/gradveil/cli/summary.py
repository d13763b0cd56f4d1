"""What a finished run says to a person."""

from typing import Any

import typer

from gradveil.cli.output import table
from gradveil.experiments.estimate import Estimate
from gradveil.experiments.runner import Run


def show(runs: list[Run], results: list[dict[str, Any]]) -> None:
    """Print one row a run, then what it cost and where it lies."""
    first = results[0]
    title = f"{first['dataset']}: accuracy on {first['test_examples']} test examples"
    table(title, ["method", "accuracy", "95 % interval", "rounds", "stopped by", "seconds"], [_row(r) for r in results])
    typer.echo(f"Always answering the most frequent class would give {first['majority_baseline']:.3f}.")
    for one, result in zip(runs, results, strict=True):
        for sentence in _remarks(one, result):
            typer.echo(sentence)
    for result in results:
        typer.echo(f"{result['method']}: results in {result['run_dir']}")


def _row(result: dict[str, Any]) -> list[str]:
    low, high = result["accuracy_interval"]
    return [
        result["method"],
        f"{result['accuracy']:.3f}",
        f"{low:.3f} to {high:.3f}",
        str(result["rounds"]),
        str(result["stopped_because"]),
        f"{result['seconds']:.1f}",
    ]


def _remarks(one: Run, result: dict[str, Any]) -> list[str]:
    remarks = [f"Note on {one.dataset.name}: {note}" for note in one.dataset.notes]
    if one.population.copies > 1:
        remarks.append(f"{result['method']}: some records are held by {one.population.copies} clients; losses add up.")
    if result["suggested_clip"]:
        low, high = result["suggested_clip"]
        remarks.append(f"{result['method']}: gradients suggest a clipping bound C from {low:.2f} to {high:.2f}.")
    return remarks


def show_estimate(expected: Estimate) -> None:
    """Print what a plan would take."""
    minutes, seconds = divmod(round(expected.seconds), 60)
    typer.echo(f"would take about {minutes} min {seconds} s and {expected.memory_bytes / 2**20:.0f} MiB of memory;")
    typer.echo(
        f"the model has {expected.parameters} parameters; the most copied record is held {expected.copies} times"
    )
