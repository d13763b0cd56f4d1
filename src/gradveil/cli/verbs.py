"""The commands by name, in the order in which people need them; each is imported when it is asked for."""

from difflib import get_close_matches
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
        command: Any = typer.main.get_command(verb if isinstance(verb, typer.Typer) else _alone(verb))
        command.name, command.hidden = cmd_name, cmd_name in HIDDEN
        for one in (command, *getattr(command, "commands", {}).values()):
            one.help = flowing(one.help or "")
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the verb that was typed; a slip is told the verbs that are meant, which typer does not know by name."""
        if args and self.get_command(ctx, args[0]) is None:
            close = get_close_matches(args[0], [name for name in VERBS if name not in HIDDEN])
            meant = f" Did you mean {', '.join(map(repr, close))}?" if close else ""
            ctx.fail(f"No such command {args[0]!r}.{meant}")
        return super().resolve_command(ctx, args)


def flowing(text: str) -> str:
    """Return the paragraphs of a docstring without line breaks of their own, so that help fills its lines."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _alone(verb: Any) -> typer.Typer:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(verb)
    return app
