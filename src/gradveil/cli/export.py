"""`gradveil export`: the options; `export_steps` does the work, and is imported only when they are right."""

from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli.options import OUTPUT, AsJson
from gradveil.cli.output import doing


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .npz or .safetensors for the parameters, .stablehlo for the whole function.",
            rich_help_panel=OUTPUT,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Write a trained model for other programs: its parameters, or the function from examples to logits."""
    with doing("starting JAX"):
        from gradveil.cli import export_steps
    export_steps.execute(run, out, as_json)
