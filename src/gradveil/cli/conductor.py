"""`gradveil conductor`, which `federate server` starts: it executes the run of a folder over the SuperLink."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli.superlink import Port, refuse_missing

Opt = typer.Option


def conductor(
    folder: Annotated[Path, typer.Argument(help="The run folder.")],
    keys: Annotated[Path, Opt(help="The folder of credentials.")],
    state: Annotated[Path, Opt(help="The server's state folder.")],
    port: Port = 8000,
) -> None:
    """Execute the run of a folder over the SuperLink of this host; `federate server` starts it."""
    from gradveil.deployment import supervisor
    from gradveil.engines.flower.commands import SuperLinkConfig

    os.umask(0o077)
    config = SuperLinkConfig(keys, state, port)
    refuse_missing(config.owner)
    supervisor.execute(config, folder)
