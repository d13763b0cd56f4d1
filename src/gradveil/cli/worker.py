"""`gradveil worker`, which `federate node` starts: it trains for the SuperNode of this host."""

import logging
from pathlib import Path
from typing import Annotated

import typer

from gradveil.errors import BadInput


def worker(
    state: Annotated[Path, typer.Argument(help="The node's state folder.")],
    runtime: Annotated[str, typer.Option(help="host:port of the SuperNode.")],
) -> None:
    """Train for the SuperNode of this host; `federate node` starts it."""
    from gradveil.deployment.node import NODE, NodeSettings
    from gradveil.deployment.summing import Summing
    from gradveil.engines.flower import worker as executor

    logging.basicConfig(format="%(asctime)s %(message)s")
    secret = state / "superexec.secret"
    if not secret.exists():
        raise BadInput(f"state = {str(state)!r}: no node was set up there; `gradveil federate node` does that")
    node = Summing.open(NodeSettings.read(state / NODE))
    executor.serve(runtime, secret.read_bytes(), node.handle)
