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
            metavar="NEW", help="New examples: a .csv file if the run was trained on one, else .npy, or .npz with x."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="CSV file to write.", show_default="standard output", rich_help_panel=OUTPUT),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Predict the class of new examples with a trained model.

    One row for every row of NEW, in its order: a column `prediction` with the name of the likeliest class, and a column
    p_CLASS with the probability of each class. A column or a level that the run did not have is refused by its name.
    """
    with doing("starting JAX"):
        from gradveil.cli import predict_steps
    predict_steps.execute(run, new, out, as_json)
