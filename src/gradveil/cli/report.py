"""`gradveil report`: the options; `report_steps` does the work, and is imported only when they are right."""

from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli.options import OUTPUT, AsJson


def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run folders, or a folder that holds runs.")],
    out: Annotated[
        Path | None,
        typer.Option(help="HTML file to write.", show_default="report.html in the folder", rich_help_panel=OUTPUT),
    ] = None,
    show_truth: Annotated[
        bool,
        typer.Option(
            "--show-truth",
            help="Show true records of your own data; those of built-in datasets are always shown.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_pdf: Annotated[
        bool,
        typer.Option(
            "--pdf", help="Print the page to a PDF beside it, by chromium if installed.", rich_help_panel=OUTPUT
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write an HTML page: accuracy, guarantees and what attacks recovered.

    Several runs are compared side by side. Each run folder also gets a privacy card (JSON and Markdown).
    """
    from gradveil.cli import report_steps

    report_steps.execute(runs, out, show_truth, as_pdf, as_json)
