"""`gradveil serve`: the options; `serve_steps` does the work, and is imported only when they are right."""

from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli.options import DATA, NETWORK

ACCESS = "Access"


def serve(
    runs: Annotated[
        Path | None, typer.Argument(metavar="[DIR]", help="Folder that holds runs.", show_default="runs")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder of your own data: pages may start runs on files below it.",
            show_default="none",
            rich_help_panel=DATA,
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="TCP port to listen on.", rich_help_panel=NETWORK)] = 8765,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; if other machines can reach it, you must set a token.", rich_help_panel=NETWORK
        ),
    ] = "127.0.0.1",
    token_file: Annotated[
        Path | None,
        typer.Option(
            help="File that holds the token, readable by you alone; or set GRADVEIL_TOKEN.",
            show_default="a new token",
            rich_help_panel=ACCESS,
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="The token itself; every user of this machine can read it with ps.", rich_help_panel=ACCESS),
    ] = None,
) -> None:
    """Show runs in the browser: live progress, comparison, starting and stopping.

    Visitors need a token: open the address that is printed.
    """
    from gradveil.cli import serve_steps

    serve_steps.execute(runs, data, port, host, token_file, token)
