"""`gradveil superlink`, which `federate server` starts: Flower's SuperLink, reached by nodes and its owner alone."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gradveil.errors import BadInput

Port = Annotated[int, typer.Option(help="The port on loopback that the SuperLink listens on.")]


def superlink(
    keys: Annotated[Path, typer.Argument(help="The folder of credentials.")],
    state: Annotated[Path, typer.Argument(help="The server's state folder.")],
    port: Port = 8000,
) -> None:
    """Run Flower's SuperLink behind a gate that nodes and its owner alone can pass; `federate server` starts it."""
    from gradveil.engines.flower import superlink as link
    from gradveil.engines.flower.commands import SuperLinkConfig

    os.umask(0o077)
    config = SuperLinkConfig(keys, state, port)
    refuse_missing(config.owner)
    link.serve(config)


def refuse_missing(secret: Path) -> None:
    """Refuse a state folder without the server's secret."""
    if not secret.exists():
        raise BadInput(
            f"state = {str(secret.parent)!r}: no server was set up there; `gradveil federate server` does that"
        )
