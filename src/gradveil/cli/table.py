"""`gradveil table`: the options; `table_steps` does the work, and is imported only when they are right."""

from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli.options import OUTPUT, AsJson, DataDir
from gradveil.cli.output import doing

Opt = typer.Option


def table(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from `gradveil list tables`, or all.")],
    scale: Annotated[str, Opt(help="smoke (a smoke test, seconds), desk (an hour on two cores) or paper.")] = "desk",
    seeds: Annotated[int, Opt(help="Number of random seeds; the table shows mean and spread.")] = 1,
    minutes: Annotated[
        float | None,
        Opt(help="Minutes to compute for; 0 shows only what was computed before.", show_default="the scale's"),
    ] = None,
    data_dir: DataDir = None,
    out: Annotated[Path, Opt(help="Folder for the tables and the records behind them.", rich_help_panel=OUTPUT)] = Path(
        "runs/tables"
    ),
    as_json: AsJson = False,
) -> None:
    """Reproduce tables of the paper, the published value next to ours.

    Records are kept under --out by the hash of their plan: an interrupted table continues where it stopped, and cells
    that tables share are computed once.
    """
    with doing("starting JAX"):
        from gradveil.cli import table_steps
    table_steps.execute(name, scale, seeds, minutes, data_dir, out, as_json)
