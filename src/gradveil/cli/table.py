"""`gradveil table`: the options; `table_steps` does the work, and is imported only when they are right."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli.options import OUTPUT, SCOPE, AsJson, DataDir
from gradveil.cli.output import doing
from gradveil.errors import BadInput

_scope = partial(typer.Option, rich_help_panel=SCOPE)
_output = partial(typer.Option, rich_help_panel=OUTPUT)
CACHE, RECORDS = Path("runs/tables"), Path("results/records")


def table(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from `gradveil list tables`, or all.")],
    scale: Annotated[
        str, _scope(help="smoke (seconds, to see that it works), desk (an hour on two cores) or paper (full size).")
    ] = "desk",
    seeds: Annotated[
        int | None, _scope(help="Number of random seeds; the table shows mean and spread.", show_default="1; sound: 5")
    ] = None,
    minutes: Annotated[
        float | None,
        _scope(help="Time limit in minutes; 0 shows only cached results.", show_default="the scale's"),
    ] = None,
    data_dir: DataDir = None,
    datasets: Annotated[
        str | None, _scope(help="Compute only what uses these datasets, comma-separated.", show_default="all")
    ] = None,
    docs: Annotated[
        Path | None,
        _output(
            metavar="FOLDER",
            help="Compute nothing; write the page of `all` or `sound` into this folder, from the records.",
            show_default="none",
        ),
    ] = None,
    records: Annotated[
        Path | None,
        _output(
            metavar="FOLDER",
            help="Folder of records under version control: read first; --scale paper adds to it.",
            show_default="results/records",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        _output(
            help="Folder for the tables and the cached results.",
            show_default="runs/tables; sound: results/records",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Reproduce tables of the paper, the published value next to ours; or `sound`, accuracy at proved epsilons.

    Results are cached in --out by the hash of their plan: an interrupted table continues where it stopped, and cells
    that several tables share are computed once.
    """
    if name == "sound":
        if records is not None and out is not None:
            raise BadInput("records, out: name the same folder for sound, where its records are; give one")
        with doing("starting JAX"):
            from gradveil.cli import table_sound
        return table_sound.execute(
            table_sound.SoundRequest(datasets, seeds, minutes, data_dir, out or records or RECORDS, docs, as_json)
        )
    if docs is not None and name != "all":
        raise BadInput(f"docs = {str(docs)!r}: only all and sound have a page, not {name}")
    with doing("starting JAX"):
        from gradveil.cli import table_steps
    chosen = None if datasets is None else tuple(part.strip() for part in datasets.split(","))
    repeats, folder = 1 if seeds is None else seeds, records or RECORDS
    request = table_steps.TableRequest(
        name, scale, repeats, minutes, data_dir, chosen, docs, out or CACHE, folder, as_json
    )
    table_steps.execute(request)
