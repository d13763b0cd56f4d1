"""`gradveil list`: the names that other commands take, with what each means."""

from typing import Annotated

import typer

from gradveil import names
from gradveil.cli.options import AsJson
from gradveil.cli.output import emit_json, table

KINDS = ("methods", "attacks", "decays", "threats", "datasets", "tables")


def show(
    what: Annotated[str, typer.Argument(metavar="[KIND]", help=f"{', '.join(KINDS[:-1])} or {KINDS[-1]}.")] = "methods",
    as_json: AsJson = False,
) -> None:
    """List the names that other commands take, and what they mean."""
    listed = listing(names.pick("list", what, {kind: kind for kind in KINDS}))
    if as_json:
        return emit_json({what: [{"name": name, "meaning": meaning} for name, meaning in listed.items()]})
    table(what, ["name", "meaning"], [[name, meaning] for name, meaning in listed.items()])


def listing(kind: str) -> dict[str, str]:
    """Return one listing: name -> meaning. Only words are imported, not what they name."""
    match kind:
        case "datasets":
            from gradveil.data.catalog import SOURCES

            return {source.name: source.meaning for source in SOURCES}
        case "tables":
            from gradveil.reproduction.table_names import NOT_OF_THE_PAPER, TABLES

            return {name: entry.meaning for name, entry in TABLES.items()} | NOT_OF_THE_PAPER
        case "threats":
            return {name: f"an adversary who {sees}" for name, sees in names.THREATS.items()}
        case "attacks":
            needs = {name: f"{meaning}; needs --server malicious" for name, meaning in names.MALICIOUS.items()}
            return names.ATTACKS | names.INFERENCES | needs
        case _:
            return {"methods": names.METHODS, "decays": names.DECAYS}[kind]
