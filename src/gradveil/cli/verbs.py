"""The commands by name, in the order in which people need them; each is imported when it is asked for."""

from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

VERBS = {
    "run": "run.run",
    "tune": "tune.tune",
    "attack": "attack.attack",
    "audit": "audit.audit",
    "account": "account.account",
    "plan": "plan.plan",
    "predict": "predict.predict",
    "export": "export.export",
    "report": "report.report",
    "serve": "serve.serve",
    "table": "table.table",
    "data": "data.app",
    "list": "list.show",
    "federate": "federate.app",
    "bench": "bench.bench",
    "worker": "worker.worker",
    "superlink": "superlink.superlink",
    "conductor": "conductor.conductor",
}
HIDDEN = frozenset({"worker", "superlink", "conductor"})


class Verbs(TyperGroup):
    """The verbs of the command line by name."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Name the verbs, in the order that help shows them."""
        return list(VERBS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Import one verb; None if there is none of this name."""
        if cmd_name not in VERBS:
            return None
        module, _, name = VERBS[cmd_name].partition(".")
        verb = getattr(import_module(f"gradveil.cli.{module}"), name)
        command = typer.main.get_command(verb if isinstance(verb, typer.Typer) else _alone(verb))
        command.name, command.hidden = cmd_name, cmd_name in HIDDEN
        return command


def _alone(verb: Any) -> typer.Typer:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(verb)
    return app
