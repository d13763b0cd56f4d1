"""What `gradveil serve` does: serve the live pages of a folder of runs."""

import os
from contextlib import suppress
from pathlib import Path

import typer
import uvicorn

from gradveil.errors import BadInput
from gradveil.web.address import address, listen
from gradveil.web.app import make
from gradveil.web.guard import Rules
from gradveil.web.own_data import OwnData
from gradveil.web.run_processes import Runs
from gradveil.web.token import VARIABLE, Token, choose

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def execute(
    runs: Path | None, data: Path | None, port: int, host: str, token_file: Path | None, token: str | None
) -> None:
    """Serve the pages until interrupted; beyond this machine only with a token that the user chose."""
    if not 0 < port < 65536:
        raise BadInput(f"port = {port}: must be between 1 and 65535")
    chosen = choose(token, token_file, os.environ)
    if host not in LOOPBACK and not chosen.own:
        raise BadInput(
            f"host = {host!r}: other machines can reach it, so it needs --token-file or {VARIABLE} (or --token)"
        )
    folder = _folder(runs)
    app = make(Runs(folder.resolve(), _own_data(data)), Rules(_hosts(host, port, chosen), chosen.value))
    with listen(host, port) as listening, suppress(KeyboardInterrupt):  # which is how a server is meant to end
        _announce(folder, address(host, port), chosen)
        settings = uvicorn.Config(app, ws="none", log_level="warning", server_header=False, timeout_graceful_shutdown=2)
        uvicorn.Server(settings).run(sockets=[listening])


def _own_data(folder: Path | None) -> OwnData:
    if folder is not None and not folder.is_dir():
        raise BadInput(f"data = {str(folder)!r}: is not a folder")
    return OwnData(None if folder is None else folder.resolve())


def _hosts(host: str, port: int, token: Token) -> frozenset[str] | None:
    """Return the Host headers that are answered; who chose a token may know this machine by any name, as proxies do."""
    if token.own:
        return None
    names = {host, *LOOPBACK, "[::1]"}
    bare = names if port == 80 else set()  # a browser leaves that port out
    return frozenset({f"{name}:{port}" for name in names} | bare)


def _announce(folder: Path, url: str, token: Token) -> None:
    """Print the address to open; a token that the user chose is not repeated."""
    typer.echo(f"gradveil serves {folder} on {url}?token={'...' if token.own else token.value}", err=True)
    if token.own:
        typer.echo("gradveil: put your token in place of the dots", err=True)
    if token.warning:
        typer.echo(f"gradveil: {token.warning}", err=True)


def _folder(path: Path | None) -> Path:
    """Return the folder of runs; only the usual one is made where it is missing, any other may be a slip of the pen."""
    folder = path or Path("runs")
    try:
        if path is None and not folder.exists():
            folder.mkdir()
        if not folder.is_dir():
            raise BadInput(f"{str(folder)!r}: is not a folder")
    except (OSError, ValueError) as error:
        if isinstance(error, BadInput):
            raise
        raise BadInput(f"{str(folder)[:80]!r}: cannot be used as a folder ({error})") from None
    return folder
