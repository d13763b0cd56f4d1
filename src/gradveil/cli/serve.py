"""`gradveil serve`: the live page of a folder of runs."""

from pathlib import Path
from typing import Annotated

import typer
import uvicorn

from gradveil.errors import BadInput
from gradveil.web.address import check_address
from gradveil.web.app import make
from gradveil.web.guard import Rules
from gradveil.web.shelf import Runs

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def serve(
    runs: Annotated[Path | None, typer.Argument(help="The folder of runs; `runs` unless given.")] = None,
    port: Annotated[int, typer.Option(help="The port to listen on.")] = 8765,
    host: Annotated[
        str, typer.Option(help="The address to listen on; any but this machine needs --token.")
    ] = "127.0.0.1",
    token: Annotated[str | None, typer.Option(help="What every visitor must bring, at least 16 letters.")] = None,
) -> None:
    """Show runs in the browser: live, side by side, started and stopped from a form; and a lab for leaks."""
    if not 0 < port < 65536:
        raise BadInput(f"port = {port}: must lie between 1 and 65535")
    if host not in LOOPBACK and token is None:
        raise BadInput(f"host = {host!r}: others can reach it, so it needs --token")
    if token is not None and len(token) < 16:
        raise BadInput("token: must have at least 16 letters")
    folder = _folder(runs)
    check_address(host, port)
    # Whoever must bring a token may know this machine by any name.
    names = {host, *LOOPBACK, "[::1]"}
    bare = names if port == 80 else set()  # a browser leaves that port out
    served = None if token else frozenset({f"{name}:{port}" for name in names} | bare)
    typer.echo(f"gradveil serves {folder} on http://{host}:{port}/" + ("?token=..." if token else ""), err=True)
    uvicorn.run(
        make(Runs(folder.resolve()), Rules(served, token)),
        host=host,
        port=port,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=2,
    )


def _folder(given: Path | None) -> Path:
    """Give the folder of runs; only the usual one is made where it is missing, any other may be a slip of the pen."""
    folder = given or Path("runs")
    if given is None and not folder.exists():
        folder.mkdir()
    if not folder.is_dir():
        raise BadInput(f"{str(folder)!r}: is not a folder")
    return folder
