"""`gradveil federate`: the same plan over Flower, on one machine or on many."""

import os
from dataclasses import replace
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from gradveil import codec
from gradveil.cli import federate_steps
from gradveil.cli.choices import Tweaks
from gradveil.cli.output import emit_json
from gradveil.cli.run import plans_from
from gradveil.data.sources import load, locate
from gradveil.deployment.node import NODE, Node, NodeSettings
from gradveil.deployment.policy import STRICT
from gradveil.deployment.policy_file import written
from gradveil.errors import BadInput
from gradveil.runs import store

app = typer.Typer(help="Run a plan over Flower: on this machine, or on those that hold the data.", no_args_is_help=True)
Opt = typer.Option
OWNER_ONLY = 0o077
DEMO = {"clients": 30, "cohort": 12, "local_steps": 10}
AsJson = Annotated[bool, Opt("--json", help="Print one JSON object and nothing else.")]
Show = Annotated[bool, Opt("--show", help="Print the commands of Flower for your own supervisor, and start nothing.")]
DataDir = Annotated[Path | None, Opt(help="Folder to look for datasets in first.")]


@app.callback()
def federate(context: typer.Context) -> None:
    """Run a plan over Flower: on this machine, or on those that hold the data."""
    before = os.umask(OWNER_ONLY)  # whatever a federation writes is its owner's alone
    context.call_on_close(lambda: os.umask(before))
    if find_spec("flwr") is None or find_spec("cryptography") is None:
        raise BadInput('federate: needs Flower, which is an extra: pip install "gradveil[flower]"')


@app.command()
def keys(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
    nodes: Annotated[str, Opt(help="Names of the nodes, with commas.")] = "site-0,site-1,site-2",
    hosts: Annotated[str, Opt(help="Names and addresses of the server, with commas.")] = "localhost,127.0.0.1",
    as_json: AsJson = False,
) -> None:
    """Make a CA, the server's certificate, and one key pair a node."""
    from gradveil.engines.flower import credentials

    files = credentials.make(folder, _listed("hosts", hosts), _listed("nodes", nodes))
    if as_json:
        return emit_json({"files": [str(file) for file in files]})
    for file in files:
        typer.echo(f"{file}{'  (secret)' if file.suffix == '.key' else ''}")
    typer.echo("Give each node its own .key and ca.crt and nothing else. Keep ca.key offline: it signs certificates.")


@app.command()
def policy(
    out: Annotated[Path | None, Opt(help="A new file; printed unless given.")] = None,
    methods: Annotated[str, Opt(help="Methods that may run, with commas.")] = ",".join(STRICT.methods or ()),
    minimum_sigma: Annotated[float, Opt(help="The least noise, as a multiple of the clipping bound.")] = 1.0,
    maximum_rounds: Annotated[int, Opt(help="Rounds that are served in all.")] = 100,
    maximum_epsilon: Annotated[float, Opt(help="Epsilon against the server, over all plans.")] = 8.0,
    maximum_delta: Annotated[float, Opt(help="Delta over all plans.")] = 1e-4,
) -> None:
    """Write a strict policy for a node: what may be done with its data, each rule explained."""
    rules = replace(
        STRICT,
        methods=_listed("methods", methods),
        minimum_sigma=minimum_sigma,
        maximum_rounds=maximum_rounds,
        maximum_epsilon=maximum_epsilon,
        maximum_delta=maximum_delta,
    )
    if out is None:
        return typer.echo(written(rules), nl=False)
    if out.exists():
        raise BadInput(f"out = {str(out)!r}: exists already; name a new file")
    store.write(out, written(rules).encode(), owner_only=True)
    typer.echo(f"{out}\nRead it, change what you like, and start the node with --policy {out}")


@app.command()
def server(
    context: typer.Context,
    plan_file: Annotated[Path | None, typer.Argument(metavar="[PLAN.toml]", help="A plan.")] = None,
    keys: Annotated[Path, Opt(help="The folder that `federate keys` made.")] = Path("keys"),
    nodes: Annotated[str, Opt(help="Names of the nodes, with commas, in the order of their shards.")] = "",
    out: Annotated[Path | None, Opt(help="The run folder.")] = None,
    state: Annotated[Path | None, Opt(help="Flower's database and logs; beside the run unless given.")] = None,
    port: Annotated[int, Opt(help="The port on loopback that the SuperLink listens on.")] = 8000,
    deadline: Annotated[float, Opt(help="Seconds that a round may take.")] = 120.0,
    patience: Annotated[float, Opt(help="Seconds to wait for nodes.")] = 300.0,
    attempts: Annotated[int, Opt(help="How often a round is tried.")] = 3,
    max_update_norm: Annotated[
        float | None, Opt(help="Refuse updates beyond this norm, beside the limit that follows from the plan.")
    ] = None,
    data_dir: DataDir = None,
    resume: Annotated[
        bool, Opt("--resume", help="Go on with the run in --out; other options may change with it.")
    ] = False,
    show: Show = False,
    as_json: AsJson = False,
) -> None:
    """Train a plan on the nodes that hold the data. What this place has of the dataset is used for testing only."""
    from gradveil.deployment import conductor
    from gradveil.engines.flower.commands import ServerPlaces

    folder = federate_steps.run_folder(out, plan_file, resume)
    places = ServerPlaces(
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
        given = {name: value for name, value in changes.items() if _given(context, name)}
        federate_steps.take_up(folder, plan_file, _listed("nodes", nodes) if nodes else None, given)
    else:
        held = conductor.Federation(nodes=_listed("nodes", nodes), **changes)  # type: ignore[arg-type]
        plan = federate_steps.plan_of(plan_file, data_dir)
        conductor.lay_out(plan, load(plan.dataset, data_dir=data_dir, target=plan.target), folder, held)
    if show:
        return federate_steps.show_server(places, folder)
    federate_steps.serve(places, folder, as_json)


def _given(context: typer.Context, name: str) -> bool:
    """Whether an option was given rather than left at its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@app.command()
def node(
    data: Annotated[str, Opt(help="A dataset's name, or a CSV, npz or image folder of your own.")],
    server: Annotated[str, Opt(metavar="HOST:PORT", help="Where the server is.")],
    key: Annotated[Path, Opt(help="This node's private key.")],
    ca: Annotated[Path, Opt(help="The CA's certificate.")],
    policy: Annotated[
        Path | None, Opt(help="What may be done with the data: a file that `federate policy` writes. Required.")
    ] = None,
    shard: Annotated[str | None, Opt(help="Which part of a named dataset is held here, such as 0/3.")] = None,
    target: Annotated[str | None, Opt(help="The column to predict, for a CSV file.")] = None,
    state: Annotated[Path, Opt(help="Where this node keeps what was spent of its data.")] = Path("node-state"),
    runtime_port: Annotated[int, Opt(help="A free port on loopback; nodes of one host need different ones.")] = 9094,
    data_dir: DataDir = None,
    retry: Annotated[float, Opt(help="Seconds to go on trying while the server refuses this node.")] = 120.0,
    show: Show = False,
) -> None:
    """Hold data, and train on order as far as the policy allows. Runs until it is stopped."""
    from gradveil.engines.flower.commands import NodePlaces

    if policy is None:
        raise BadInput("policy: a node needs one, or it would answer any order; `gradveil federate policy` writes one")
    if not server.rpartition(":")[2].isdigit() or ":" not in server:
        raise BadInput(f"server = {server!r}: must be HOST:PORT")
    settings = NodeSettings(
        data=locate(data),
        state=str(state.resolve()),
        policy=str(federate_steps.existing("policy", policy)),
        shard=shard,
        target=target,
        data_dir=None if data_dir is None else str(data_dir.resolve()),
    )
    places = NodePlaces(
        federate_steps.existing("ca", ca), federate_steps.existing("key", key), state.resolve(), server, runtime_port
    )
    opened = Node.open(settings)
    store.write_json(places.state / NODE, codec.encode(settings))
    if show:
        return federate_steps.show_node(places)
    federate_steps.say(
        f"{opened.dataset.name}: {len(opened.dataset.train)} examples to train on; {opened.policy.described()}"
    )
    federate_steps.tend(places, retry)


@app.command()
def demo(
    nodes: Annotated[int, Opt(help="How many nodes.")] = 3,
    dataset: Annotated[str, Opt(help="A dataset's name.")] = "digits",
    method: Annotated[str, Opt(help="A name from `gradveil list methods`.")] = "fed-cdp",
    rounds: Annotated[int, Opt(help="T.")] = 4,
    seed: Annotated[int, Opt(help="Decides the first weights and who holds what.")] = 0,
    data_dir: DataDir = None,
    out: Annotated[Path | None, Opt(help="The run folder.")] = None,
    as_json: AsJson = False,
) -> None:
    """Run a small plan over a SuperLink and SuperNodes on this machine, with TLS and keys made for the occasion."""
    from gradveil.deployment import conductor

    if locate(dataset) != dataset:
        raise BadInput(f"dataset = {dataset!r}: the demonstration takes a dataset by its name")
    if not 1 <= nodes <= DEMO["clients"]:
        raise BadInput(f"nodes = {nodes}: must lie between 1 and {DEMO['clients']}")
    given = {**DEMO, "rounds": rounds, "dataset": dataset, "method": method, "seed": seed, "noise_source": "secret"}
    plan = plans_from(None, given, Tweaks(), data_dir)[0]
    folder = out or Path("runs") / f"federate-{datetime.now().strftime('%Y%m%d-%H%M%S')}"
    where = None if data_dir is None else str(data_dir.resolve())
    held = conductor.Federation(nodes=tuple(f"site-{i}" for i in range(nodes)), data_dir=where)
    federate_steps.run_folder(folder, None, resume=False)
    if (objection := STRICT.objection(plan)) is not None:
        raise BadInput(f"method = {method!r}: the nodes of the demonstration hold to the strict policy: {objection}")
    conductor.lay_out(plan, load(plan.dataset, data_dir=data_dir), folder, held)
    federate_steps.demonstrate(plan.dataset, held, folder, as_json)


def _listed(name: str, text: str) -> tuple[str, ...]:
    """Read names with commas between them."""
    found = tuple(part.strip() for part in text.split(",") if part.strip())
    if not found:
        raise BadInput(f"{name}: name at least one")
    return found
