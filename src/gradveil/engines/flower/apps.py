"""The app that Flower asks for. It runs nothing: servers and nodes run their own installation."""

from typing import Any

import tomli_w
from flwr.cli.build import build_fab_from_files

from gradveil.__about__ import __version__

NAME, PUBLISHER = "gradveil-federation", "gradveil"
_SERVER = '''"""The server half: a server of gradveil runs its own installation instead, and any other is told so."""

from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    raise RuntimeError("start this run with `gradveil federate server`")
'''
_CLIENT = '''"""The client half: nodes of gradveil run their own installation instead, and any other is told so."""

from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    raise RuntimeError("start this node with `gradveil federate node`")
'''


def fab() -> bytes:
    """Return the app as Flower's bundle; without one it starts no run."""
    files = {
        "gradveil_app/__init__.py": b'"""The shim of gradveil for Flower."""\n',
        "gradveil_app/server.py": _SERVER.encode(),
        "gradveil_app/client.py": _CLIENT.encode(),
        "pyproject.toml": tomli_w.dumps(_project()).encode(),
    }
    content: bytes = build_fab_from_files(files)[0]
    return content


def _project() -> dict[str, Any]:
    components = {"serverapp": "gradveil_app.server:app", "clientapp": "gradveil_app.client:app"}
    return {
        "project": {
            "name": NAME,
            "version": __version__,
            "description": "Runs a plan of gradveil over Flower.",
            "license": "Apache-2.0",
            "dependencies": [],
        },
        "tool": {"flwr": {"app": {"publisher": PUBLISHER, "components": components}}},
    }
