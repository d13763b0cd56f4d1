"""What Flower is given to run: a folder with two small modules, whose server half calls the installed package."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import tomli_w
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from gradveil.__about__ import __version__

NAME, PUBLISHER = "gradveil-federation", "gradveil"
_SERVER = '''"""The server half: the installed gradveil does the work."""

from {module} import app

__all__ = ["app"]
'''
_CLIENT = '''"""The client half: nodes of gradveil run their own installation instead, and any other is told so."""

from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    raise RuntimeError("start this node with `gradveil federate node`")
'''


def server_app(conduct: Callable[[Grid, dict[str, Any]], None]) -> ServerApp:
    """Make a ServerApp of a function that is given the grid and the run's configuration."""
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        conduct(grid, dict(context.run_config))

    return app


def write_app(folder: Path, module: str) -> None:
    """Write the app folder that `flwr run` takes; its server half is `app` of the installed module."""
    package = folder / "gradveil_app"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").write_text('"""The shim of gradveil for Flower."""\n')
    (package / "server.py").write_text(_SERVER.format(module=module))
    (package / "client.py").write_text(_CLIENT)
    (folder / "pyproject.toml").write_text(tomli_w.dumps(_project()))


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
        "tool": {"flwr": {"app": {"publisher": PUBLISHER, "components": components, "config": {"folder": ""}}}},
    }
