"""What `gradveil export` does: write the parameters or the function of a trained model to a file."""

from pathlib import Path

import typer

from gradveil.cli.output import emit_json
from gradveil.inference.exporting import named_parameters
from gradveil.inference.trained import read_trained


def execute(run: Path, out: Path, as_json: bool) -> None:
    """Export the model of a run folder, and say where it is."""
    model = read_trained(run)
    written = model.export(out)
    if as_json:
        shapes = {name: list(array.shape) for name, array in named_parameters(model.params).items()}
        return emit_json({"out": str(written), "bytes": written.stat().st_size, "parameters": shapes})
    typer.echo(f"export: {written}")
