"""`gradveil superlink` and `gradveil conductor`, which `federate server` starts: the link to the nodes, and the run."""

import os
from pathlib import Path
from typing import Annotated

import typer

from gradveil.errors import BadInput

Opt = typer.Option
Port = Annotated[int, Opt(help="The port on loopback that the SuperLink listens on.")]


def superlink(
    keys: Annotated[Path, typer.Argument(help="The folder of credentials.")],
    state: Annotated[Path, typer.Argument(help="The server's state folder.")],
    port: Port = 8000,
) -> None:
    """Run Flower's SuperLink behind a gate that nodes and its owner alone can pass; `federate server` starts it."""
    from gradveil.engines.flower import superlink as link
    from gradveil.engines.flower.commands import ServerPlaces

    os.umask(0o077)
    places = ServerPlaces(keys, state, port)
    _check(places.owner)
    link.serve(places)


def conductor(
    folder: Annotated[Path, typer.Argument(help="The run folder.")],
    keys: Annotated[Path, Opt(help="The folder of credentials.")],
    state: Annotated[Path, Opt(help="The server's state folder.")],
    port: Port = 8000,
) -> None:
    """Execute the run of a folder over the SuperLink of this host; `federate server` starts it."""
    from gradveil.engines.flower.commands import ServerPlaces
    from gradveil.experiments.federated import hosting

    os.umask(0o077)
    places = ServerPlaces(keys, state, port)
    _check(places.owner)
    hosting.execute(places, folder)


def _check(secret: Path) -> None:
    if not secret.exists():
        raise BadInput(
            f"state = {str(secret.parent)!r}: no server was set up there; `gradveil federate server` does that"
        )
