"""`gradveil federate`: the options; `federate_steps` does the work, and is imported only when they are right."""

import os
from dataclasses import replace
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli import federate_clients, federate_policy, options
from gradveil.cli.federate_clients import Canaries, Client, ClientColumn, ClientLists, PlanSchema
from gradveil.cli.federate_policy import listed
from gradveil.cli.options import THREATS, AsJson, DataDir, Target, is_given
from gradveil.errors import BadInput

app = typer.Typer(help="Train over Flower, on machines that hold the data.", no_args_is_help=True, add_completion=False)
Opt = typer.Option
_data = partial(typer.Option, rich_help_panel=options.DATA)
_federation = partial(typer.Option, rich_help_panel=options.FEDERATION)
_privacy = partial(typer.Option, rich_help_panel=options.PRIVACY)
_keys = partial(typer.Option, rich_help_panel=options.KEYS)
_network = partial(typer.Option, rich_help_panel=options.NETWORK)
_output = partial(typer.Option, rich_help_panel=options.OUTPUT)
OWNER_ONLY = 0o077
Show = Annotated[
    bool, _output("--show", help="Print the commands of Flower, for systemd or the like, and start nothing.")
]


@app.callback()
def federate(context: typer.Context) -> None:
    """Train over Flower, on machines that hold the data."""
    before = os.umask(OWNER_ONLY)  # whatever a federation writes is its owner's alone
    context.call_on_close(lambda: os.umask(before))
    if find_spec("flwr") is None or find_spec("cryptography") is None:
        raise BadInput('federate: needs Flower; install it with: pip install "gradveil[flower]"')


@app.command()
def key(
    name: Annotated[str, typer.Argument(help="Name of this node, such as site-0.")],
    folder: Annotated[Path, Opt(metavar="DIR", help="Folder for the two files.")] = Path("."),
    as_json: AsJson = False,
) -> None:
    """Create a node's key pair, on the node itself: NAME.key stays here, NAME.pub goes to the server."""
    from gradveil.cli import federate_keys

    federate_keys.make_key(name, folder, as_json)


@app.command()
def keys(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="New folder for the files.")],
    nodes: Annotated[
        str,
        Opt(
            help="Public keys that nodes made with `federate key`, comma-separated: site-0.pub,site-1.pub. "
            "Names without .pub: their keys are made here, for trials on one machine.",
        ),
    ],
    hosts: Annotated[str, Opt(help="Host names and addresses of the server, comma-separated.")] = "localhost,127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Create a CA, the server's certificate and the roster of the nodes' public keys."""
    from gradveil.cli import federate_keys

    federate_keys.make_credentials(folder, listed("hosts", hosts), listed("nodes", nodes), as_json)


@app.command()
def roster(
    file: Annotated[Path, typer.Argument(metavar="ROSTER.json", help="A roster; a new file with --nodes.")],
    nodes: Annotated[
        str, Opt(help="Write a roster of these public keys: site-0.pub,site-1.pub.", show_default="none")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Show the fingerprint of a roster, which all nodes and the server compare by telephone."""
    from gradveil.cli import federate_keys

    federate_keys.show_roster(file, listed("nodes", nodes) if nodes else (), as_json)


app.command()(federate_policy.policy)
app.command()(federate_clients.clients)


@app.command()
def server(
    context: typer.Context,
    out: Annotated[Path, _output(help="Run folder: a new one, or with --resume the one to continue.")],
    plan_file: Annotated[Path | None, typer.Argument(metavar="[PLAN.toml]", help="Plan file, for a new run.")] = None,
    keys: Annotated[Path, _keys(help="Folder made by `federate keys`.")] = Path("keys"),
    nodes: Annotated[
        str,
        _federation(
            help="Names of the nodes, comma-separated, in the order of their shards; needed for a new run.",
            show_default="those of the run to resume",
        ),
    ] = "",
    state: Annotated[
        Path | None, _output(help="Folder for Flower's database and logs.", show_default="OUT-flower")
    ] = None,
    port: Annotated[int, _network(help="Port of Flower's SuperLink, on loopback.")] = 8000,
    deadline: Annotated[float, _network(help="Most seconds that a round may take.")] = 120.0,
    patience: Annotated[float, _network(help="Most seconds to wait for nodes to connect.")] = 300.0,
    attempts: Annotated[int, _network(help="Most attempts at a round before the run fails.")] = 3,
    max_update_norm: Annotated[
        float | None,
        _privacy(
            help="Reject updates with a larger L2 norm, in addition to the plan's own limit.", show_default="none"
        ),
    ] = None,
    clients: ClientLists = "",
    schema: PlanSchema = None,
    canaries: Canaries = 0,
    data_dir: DataDir = None,
    resume: Annotated[
        bool, _output("--resume", help="Continue the run in --out; deadlines and limits may be changed.")
    ] = False,
    show: Show = False,
    as_json: AsJson = False,
) -> None:
    """Run the server: train a plan on nodes that hold the data.

    The server's own copy of the dataset is used for testing only.
    """
    from gradveil.cli import federate_steps
    from gradveil.data.sources import load
    from gradveil.deployment import conductor
    from gradveil.engines.flower.commands import SuperLinkConfig

    folder = federate_steps.run_folder(out, resume)
    config = SuperLinkConfig(
        federate_steps.checked_keys(keys), (state or folder.with_name(f"{folder.name}-flower")).resolve(), port
    )
    changes = {
        "deadline": deadline,
        "patience": patience,
        "attempts": attempts,
        "max_update_norm": max_update_norm,
        "data_dir": None if data_dir is None else str(data_dir.resolve()),
    }
    if resume:
        for name in ("clients", "schema", "canaries"):
            if is_given(context, name):
                raise BadInput(f"{name}: --resume continues with those of {str(folder)!r}; leave it out")
        changed = {name: value for name, value in changes.items() if is_given(context, name)}
        federate_steps.resume(folder, plan_file, listed("nodes", nodes) if nodes else None, changed)
    else:
        federation = conductor.Federation(nodes=listed("nodes", nodes), **changes)  # type: ignore[arg-type]
        lists = listed("clients", clients) if clients else ()
        plan, holders = federate_steps.plan_of(plan_file, data_dir, federation.nodes, lists, schema)
        federation = replace(federation, holders=holders, canaries=canaries)
        conductor.lay_out(plan, load(plan.dataset, data_dir=data_dir, **plan.loading), folder, federation)
    if show:
        return federate_steps.show_server(config, folder)
    federate_steps.serve(config, folder, as_json)


@app.command()
def node(
    data: Annotated[str, _data(help="A name from `gradveil data list`, or the path of your own data.")],
    server: Annotated[str, _network(metavar="HOST:PORT", help="Address of the server.")],
    key: Annotated[Path, _keys(help="This node's private key, NAME.key of `federate key`.")],
    ca: Annotated[Path, _keys(help="Certificate of the CA, which the server's operator made with `federate keys`.")],
    policy: Annotated[
        Path,
        _keys(help="Policy file: what the server may do with the data; `gradveil federate policy` writes one."),
    ],
    roster: Annotated[
        Path | None,
        _keys(help="Roster of all nodes' keys, pinned in --state at the first start.", show_default="as pinned"),
    ] = None,
    new_roster: Annotated[bool, _keys("--new-roster", help="Replace the pinned roster by that of --roster.")] = False,
    shard: Annotated[
        str | None, _data(metavar="I/N", help="Hold part I of N of a built-in dataset, such as 0/3.")
    ] = None,
    target: Target = None,
    schema: Annotated[
        Path | None, _data(help="Table: how its columns become features; must be the schema of the plan.")
    ] = None,
    client: Client = None,
    client_column: ClientColumn = None,
    state: Annotated[Path, _output(help="Folder for the record of privacy spent on this data.")] = Path("node-state"),
    runtime_port: Annotated[int, _network(help="Free port on loopback; nodes on one host need different ones.")] = 9094,
    data_dir: DataDir = None,
    retry: Annotated[float, _network(help="Seconds to keep trying while the server refuses this node.")] = 120.0,
    show: Show = False,
) -> None:
    """Run a node: hold data and train as far as its policy allows, until stopped."""
    from gradveil import codec
    from gradveil.cli import federate_keys, federate_steps
    from gradveil.data.sources import locate
    from gradveil.deployment.node import NODE, Node, NodeSettings
    from gradveil.engines.flower.commands import SuperNodeConfig
    from gradveil.runs import store

    if not server.rpartition(":")[2].isdigit() or ":" not in server:
        raise BadInput(f"server = {server!r}: must be HOST:PORT")
    settings = NodeSettings(
        data=locate(data),
        state=str(state.resolve()),
        policy=str(federate_steps.existing("policy", policy)),
        shard=shard,
        target=target,
        schema=None if schema is None else str(federate_steps.existing("schema", schema)),
        client=client,
        client_column=client_column,
        data_dir=None if data_dir is None else str(data_dir.resolve()),
        key=str(federate_steps.existing("key", key)),
    )
    config = SuperNodeConfig(
        federate_steps.existing("ca", ca), federate_steps.existing("key", key), state.resolve(), server, runtime_port
    )
    opened = Node.open(settings)
    pinned = federate_keys.pinned_roster(config.state, roster, new_roster, config.key, opened.policy)
    store.write_json(config.state / NODE, codec.encode(settings))
    if pinned is not None:
        federate_steps.say(f"roster of {len(pinned.keys)} nodes, fingerprint {pinned.fingerprint}")
    if show:
        return federate_steps.show_node(config)
    federate_steps.say(
        f"{opened.dataset.name}: {len(opened.dataset.train)} examples to train on; {opened.policy.described()}"
    )
    federate_steps.tend(config, retry)


@app.command()
def demo(
    nodes: Annotated[int, _federation(help="Number of nodes.")] = 3,
    dataset: Annotated[str, _data(help="A name from `gradveil data list`.")] = "digits",
    method: Annotated[
        str, _privacy(help="A name from `gradveil list methods`; fed-sum makes secure sums, over at least 3 nodes.")
    ] = "fed-cdp",
    rounds: Annotated[
        int | None, _federation(help="Number of rounds (T).", show_default="4; preset for fed-sum")
    ] = None,
    target_epsilon: Annotated[
        float | None,
        _privacy(help="Scale the noise so that all rounds together spend at most this epsilon.", show_default="none"),
    ] = None,
    threat_model: Annotated[
        str | None, _privacy(help=f"{THREATS}; the target holds against it.", show_default="server")
    ] = None,
    seed: Annotated[int, _federation(help="Seed of the initial weights and of the split among clients.")] = 0,
    data_dir: DataDir = None,
    out: Annotated[Path | None, _output(help="Run folder.", show_default="a new one in runs/")] = None,
    as_json: AsJson = False,
) -> None:
    """Train over a SuperLink and SuperNodes on this machine, with TLS and new keys."""
    from gradveil.cli import federate_demo, federate_steps
    from gradveil.data.sources import load
    from gradveil.deployment import conductor

    given = {"dataset": dataset, "method": method, "seed": seed, "rounds": rounds, "threat_model": threat_model}
    settings = {name: value for name, value in given.items() if value is not None}
    plan = federate_demo.plan_for(nodes, settings, target_epsilon, data_dir)
    folder = out or Path("runs") / f"federate-{datetime.now().strftime('%Y%m%d-%H%M%S')}"
    where = None if data_dir is None else str(data_dir.resolve())
    federation = conductor.Federation(nodes=tuple(f"site-{i}" for i in range(nodes)), data_dir=where)
    federate_steps.run_folder(folder, resume=False)
    conductor.lay_out(plan, load(plan.dataset, data_dir=data_dir), folder, federation)
    federate_steps.demonstrate(plan, federate_demo.policy_of(plan), federation, folder, as_json)
