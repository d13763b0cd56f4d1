"""`gradveil predict`: the options; `predict_steps` does the work, and is imported only when they are right."""

from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli.options import OUTPUT, AsJson
from gradveil.cli.output import doing


def predict(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    new: Annotated[
        Path,
        typer.Argument(
            metavar="NEW",
            help="New examples: .csv, .parquet or .arrow if the run was trained on a table, else .npy, or .npz with x.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="CSV file to write.", show_default="standard output", rich_help_panel=OUTPUT),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict classes, or numbers, for new examples with a trained model.

    Writes one row for every row of NEW, in its order. Where classes are predicted: a column `prediction` with the name
    of the likeliest class, and a column p_CLASS with the probability of each. Where a number is predicted: a column
    `prediction`, in its own units. A column or a category that the training data did not have is refused by its name.
    """
    with doing("starting JAX"):
        from gradveil.cli import predict_steps
    predict_steps.execute(run, new, out, as_json)
