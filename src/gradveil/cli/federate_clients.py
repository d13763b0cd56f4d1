"""`gradveil federate clients`, and how a server uses what nodes told of their clients."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradveil.cli.options import DATA, FEDERATION, OUTPUT, AsJson, DataDir
from gradveil.cli.output import emit_json
from gradveil.errors import BadInput

if TYPE_CHECKING:
    from gradveil.deployment.node_clients import ClientList

_data = partial(typer.Option, rich_help_panel=DATA)
_federation = partial(typer.Option, rich_help_panel=FEDERATION)
Client = Annotated[str | None, _data(help="Name of the one client that this node is, with all rows of the data.")]
ClientColumn = Annotated[
    str | None, _data(help="Table: the column that names each row's client, where this node is several clients.")
]

ClientLists = Annotated[
    str,
    _federation(
        help="Files written by `federate clients`, one for each node, comma-separated: site-0.json,site-1.json.",
        show_default="clients of one size",
    ),
]
PlanSchema = Annotated[
    Path | None,
    _data(help="Table: how its columns become features; sent to the nodes in the plan.", show_default="the plan's"),
]

Canaries = Annotated[
    int,
    _federation(
        help="Number of synthetic canary records for `gradveil audit --level one-run`; "
        "the policies of the nodes must allow them."
    ),
]


def clients(
    data: Annotated[str, _data(help="The path of this node's own data.")],
    out: Annotated[
        Path,
        typer.Option(
            metavar="NODE.json",
            help="New file, with this node's name and .json; send it to the server.",
            rich_help_panel=OUTPUT,
        ),
    ],
    client: Client = None,
    client_column: ClientColumn = None,
    schema: Annotated[
        Path | None, _data(help="Table: how its columns become features, the same on every node.")
    ] = None,
    target: Annotated[str | None, _data(help="Table: the column to predict.", show_default="the schema's")] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """List a node's clients with their numbers of rows, for the server. No epsilon covers what this reveals."""
    from gradveil import codec
    from gradveil.data.sources import locate
    from gradveil.deployment import node_clients
    from gradveil.runs import store

    if out.suffix != ".json" or out.exists():
        raise BadInput(f"out = {str(out)!r}: must be a new file, with this node's name and .json")
    dataset = node_clients.node_data(
        locate(data), data_dir=data_dir, target=target, schema=schema, client=client, client_column=client_column
    )
    listed = node_clients.client_list(dataset)
    store.write_json(out, codec.encode(listed))
    if as_json:
        emit_json({"clients": listed.clients, "out": str(out)})
        return
    for name, rows in listed.clients.items():
        typer.echo(f"{name}: {rows} rows")
    typer.echo(f"{out}: send it to the server. It reveals these names and numbers of rows, which no epsilon covers.")


def gathered(
    paths: tuple[str, ...], nodes: tuple[str, ...], planned: dict[str, Any]
) -> tuple[dict[str, "ClientList"], dict[str, Any]]:
    """Read the lists of all nodes and what they say of a plan; BadInput if the plan file says it too."""
    from gradveil.deployment import node_clients

    lists, given = node_clients.gathered([Path(path) for path in paths], nodes)
    for name in given:
        if name in planned:
            raise BadInput(f"{name}: is given by the nodes, by --clients; leave it out of the plan")
    return lists, given
