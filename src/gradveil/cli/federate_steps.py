"""What `gradveil federate` does and says while processes run; imported only where Flower is needed."""

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from gradveil import codec, pipeline
from gradveil.cli import federate_clients, run_summary
from gradveil.cli.output import emit_json
from gradveil.cli.run_steps import plans_from
from gradveil.deployment.node_clients import holders_of
from gradveil.deployment.policy import Policy
from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.runs import store
from gradveil.runs.run_records import RoundLine, RunResult
from gradveil.runs.shorthand import divided

if TYPE_CHECKING:
    from gradveil.deployment.conductor import Federation
    from gradveil.engines.flower.commands import SuperLinkConfig, SuperNodeConfig
    from gradveil.engines.flower.processes import Crew


def say(sentence: str) -> None:
    """Tell on standard error how things go."""
    typer.echo(sentence, err=True)


def run_folder(out: Path, resume: bool) -> Path:
    """Return the folder of a new run, or of one to resume."""
    exists = (out / store.PLAN).exists()
    if resume and not exists:
        raise BadInput(f"out = {str(out)!r}: holds no run to continue")
    if exists and not resume:
        raise BadInput(f"out = {str(out)!r}: already holds a run; add --resume to continue it, or give a new folder")
    return out


def plan_of(
    path: Path | None, data_dir: Path | None, nodes: tuple[str, ...], lists: tuple[str, ...], schema: Path | None
) -> tuple[Plan, tuple[int, ...] | None]:
    """Read a plan, and return it with the node of each client where nodes listed their clients.

    Unless it says otherwise its noise is secret, drawn by the nodes, and all rows of a table are tested on.
    """
    if path is None:
        raise BadInput("a plan is needed: gradveil federate server PLAN.toml")
    table = store.read_toml(path)
    settings: dict[str, Any] = {} if "noise_source" in table else {"noise_source": "secret"}
    if schema is not None:
        settings["schema"] = str(existing("schema", schema))
    if (schema is not None or "schema" in table) and "dataset" in table and "test" not in table:
        settings["test"] = str(table["dataset"])
    client_lists, given = federate_clients.gathered(lists, nodes, table) if lists else ({}, {})
    fields, tweaks = divided(settings)
    plan = plans_from(path, fields | given, tweaks, data_dir)[0]
    return plan, holders_of(plan, client_lists, nodes) if lists else None


def existing(name: str, path: Path) -> Path:
    """Return the whole path of a file that is there."""
    if not path.exists():
        raise BadInput(f"{name} = {str(path)!r}: does not exist")
    return path.resolve()


def checked_keys(folder: Path) -> Path:
    """Return the whole path of a folder of credentials."""
    from gradveil.engines.flower import credentials

    for name in (credentials.CA, credentials.SERVER, credentials.SERVER_KEY):
        if not (folder / name).exists():
            raise BadInput(f"keys = {str(folder)!r}: has no {name}; make it with `gradveil federate keys`")
    return folder.resolve()


def show_server(config: "SuperLinkConfig", folder: Path) -> None:
    """Write what the server's commands read, and print them."""
    from gradveil.deployment import supervisor

    supervisor.prepare(config)
    _print_settings(config.state / "flwr")
    for command in (config.superlink(), config.conductor(folder.resolve())):
        typer.echo(shlex.join(command))


def show_node(config: "SuperNodeConfig") -> None:
    """Write what a node's commands read, and print them."""
    from gradveil.engines.flower.processes import write_secret

    write_secret(config.secret)
    _print_settings(config.state / "flwr")
    for command in (config.supernode(), config.worker()):
        typer.echo(shlex.join(command))


def _print_settings(home: Path) -> None:
    from gradveil.engines.flower import commands

    for name, value in commands.settings(home).items():
        typer.echo(f"export {name}={shlex.quote(value)}")
    typer.echo(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH")


def resume(folder: Path, plan_file: Path | None, nodes: tuple[str, ...] | None, changes: dict[str, Any]) -> None:
    """Continue a run with other deadlines and limits; its plan and its nodes stay as they are."""
    from gradveil.deployment import conductor

    federation = conductor.settings(folder)
    if plan_file is not None:
        raise BadInput(f"plan = {str(plan_file)!r}: --resume continues the plan of {str(folder)!r}; leave it out")
    if nodes is not None and nodes != federation.nodes:
        raise BadInput(
            f"nodes = {','.join(nodes)!r}: --resume continues with {','.join(federation.nodes)}, which hold the shards"
        )
    store.write_json(folder / conductor.SETTINGS, codec.encode(replace(federation, **changes)))


def serve(config: "SuperLinkConfig", folder: Path, as_json: bool) -> None:
    """Train a run to its end, and show what came out."""
    from gradveil.deployment import conductor, supervisor
    from gradveil.engines.flower.processes import crew

    federation = conductor.settings(folder)
    if conductor.unbounded(store.read_plan(folder), federation):
        say("the plan does not clip updates, so one node can ruin the model; set a limit with --max-update-norm")
    with _terminated(), crew(config.state / "logs", config.state / "flwr") as group:
        supervisor.open_server(group, config, federation.nodes, say)
        _train(group, config, folder)
    _conclude(folder, as_json)


def demonstrate(plan: Plan, policy: Policy, federation: "Federation", folder: Path, as_json: bool) -> None:
    """Train a run on nodes of this machine, and show what came out."""
    from gradveil.deployment import supervisor
    from gradveil.deployment.local import local

    sums = plan.secure_sum is not None
    with _terminated(), local(federation.nodes, plan.dataset, policy, federation.data_dir, sums) as deployment:
        supervisor.open_server(deployment.crew, deployment.server, federation.nodes, say)
        for name in federation.nodes:
            deployment.start_node(name)
        _train(deployment.crew, deployment.server, folder)
    _conclude(folder, as_json)


def tend(config: "SuperNodeConfig", retry: float) -> None:
    """Keep a node running until it is stopped."""
    from gradveil.deployment import supervisor
    from gradveil.engines.flower.processes import crew

    with _terminated(), crew(config.state / "logs", config.state / "flwr") as group:
        supervisor.tend(group, config, say, retry)


def _train(group: "Crew", config: "SuperLinkConfig", folder: Path) -> None:
    from gradveil.deployment import conductor, retry_cost, supervisor

    plan = store.read_plan(folder)
    if plan.secure_sum is not None:
        say(retry_cost.sentence(plan, conductor.budget_of(plan, conductor.data_of(folder))))
    supervisor.begin(group, config, folder, say)
    for line in supervisor.follow(group, config, folder, say):
        say(_round_summary(line))


def _round_summary(line: RoundLine) -> str:
    """Say in a line how a round went, node by node."""
    parts = [f"round {line.round + 1}: {run_summary.note(line)}"]
    parts += [f"{line.attempts} attempts, all of them spent"] if (line.attempts or 1) > 1 else []
    if (nodes := line.nodes) is not None:
        each = [f"{name} {seconds:.1f} s" for name, seconds in nodes.seconds.items()]
        each += [f"{name} missing ({fault})" for name, fault in nodes.missing.items()]
        parts += [", ".join(each), f"{nodes.bytes_down / 1e6:.2f} MB down, {nodes.bytes_up / 1e6:.2f} MB up"]
    return "; ".join(parts)


def _conclude(folder: Path, as_json: bool) -> None:
    from gradveil.deployment.conductor import open_run

    pipeline.report([folder], folder / pipeline.REPORT)
    result = store.read_record(folder / store.RESULT, RunResult)
    if as_json:
        return emit_json(result.plain() | {"beside": []})
    run_summary.show([open_run(None, folder)], [result])


@contextmanager
def _terminated() -> Iterator[None]:
    """Let a polite kill end the block as Ctrl-C does, so that everything that was started is stopped."""

    def stop(number: int, frame: object) -> NoReturn:
        sys.exit(128 + number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
