"""`gradveil list`: the names that other verbs take, with what each means."""

from typing import Annotated

import typer

from gradveil.accounting.threats import SEES
from gradveil.attacks.zoo import ATTACKS
from gradveil.cli.choices import pick
from gradveil.cli.output import emit_json, table
from gradveil.data.sources import describe
from gradveil.methods import DECAYS, METHODS
from gradveil.reproduction.table_catalog import TABLES


def show(
    what: Annotated[str, typer.Argument(help="methods, attacks, decays, threats, datasets or tables.")] = "methods",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """List the names that other verbs take, with what each means."""
    listed = pick("list", what, listings())
    if as_json:
        return emit_json({what: [{"name": name, "meaning": meaning} for name, meaning in listed.items()]})
    table(what, ["name", "meaning"], [[name, meaning] for name, meaning in listed.items()])


def listings() -> dict[str, dict[str, str]]:
    """Return every listing: name -> meaning."""
    return {
        "methods": {name: entry.meaning for name, entry in METHODS.items()},
        "attacks": {name: entry.meaning for name, entry in ATTACKS.items()},
        "decays": DECAYS,
        "threats": {name: f"an adversary who sees {seen}" for name, seen in SEES.items()},
        "tables": {name: meaning for name, (_, meaning) in TABLES.items()},
        "datasets": {source.name: source.meaning for source in describe()},
    }
