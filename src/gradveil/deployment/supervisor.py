"""Keeps the processes of a federation running: a server's until its run is over, a node's until it is stopped."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gradveil.deployment import conductor
from gradveil.deployment.conductor import DONE, FAILED, STATUS, write_status
from gradveil.engines.flower import control, processes, superlink
from gradveil.engines.flower.commands import SuperLinkConfig, SuperNodeConfig
from gradveil.engines.flower.processes import Crew, Failed
from gradveil.errors import RunFailed
from gradveil.runs import store
from gradveil.runs.run_records import RoundLine

Reporter = Callable[[str], None]
POLL = 0.5
CONDUCTOR = "conductor"


def prepare(config: SuperLinkConfig) -> None:
    """Write the server's secrets: the one that opens its gate, and the one that lets a run be executed."""
    for secret in (config.owner, config.secret):
        processes.write_secret(secret)


def open_server(crew: Crew, config: SuperLinkConfig, nodes: tuple[str, ...], report: Reporter) -> None:
    """Start the server and register its nodes; a node that connects earlier is refused."""
    prepare(config)
    processes.start_server(crew, config)
    report(f"the SuperLink listens on {config.address}")
    control.register(config, nodes)


def begin(crew: Crew, config: SuperLinkConfig, folder: Path, report: Reporter) -> None:
    """Start the process that executes the run of a folder."""
    if store.is_locked(folder):
        raise store.Busy(f"out = {str(folder)!r}: another process is writing this run")
    with processes.owner_only():
        write_status(folder, "starting")
    crew.start(CONDUCTOR, config.conductor(folder.resolve()))
    report("the run is started; waiting for the nodes")


def execute(config: SuperLinkConfig, folder: Path) -> None:
    """Execute the run of a folder over a running SuperLink; delivered messages are erased after each round."""
    control.register(config, conductor.settings(folder).nodes)
    with control.run(config) as grid:
        conductor.conduct(grid, folder, lambda: superlink.prune(config.database))


def follow(crew: Crew, config: SuperLinkConfig, folder: Path, report: Reporter) -> Iterator[RoundLine]:
    """Yield every finished round until the run is over; a SuperLink that ends meanwhile is restarted."""
    line_count = len(store.read_metrics(folder))
    while True:
        ended = crew.processes[CONDUCTOR].poll() is not None  # polled first: what it wrote before its end is read below
        lines, status = store.read_metrics(folder), store.read_json(folder / STATUS)
        yield from lines[line_count:]
        line_count = len(lines)
        if status["state"] == FAILED:
            raise RunFailed(status["sentence"])
        if ended and status["state"] == DONE:
            return
        if ended:
            raise Failed(f"the run's process ended ({crew.last_lines(CONDUCTOR)}); restart with --resume")
        _revive(crew, config, report)
        time.sleep(POLL)


def _revive(crew: Crew, config: SuperLinkConfig, report: Reporter) -> None:
    if crew.processes["superlink"].poll() is not None:
        report(f"the SuperLink ended and is restarted ({crew.last_lines('superlink', 1)})")
        crew.start("superlink", config.superlink())
        processes.await_health(crew, config)


def tend(crew: Crew, config: SuperNodeConfig, report: Reporter, patience: float) -> None:
    """Keep a node's SuperNode and worker running until the process is stopped.

    The server refuses a node that returns until it has missed the old one for up to a minute, so its processes are
    restarted; RunFailed with the reason if the server does not accept it within `patience` seconds.
    """
    processes.write_secret(config.secret)
    # When this node lost the server, and where in the log that is.
    lost_at, log_offset = time.monotonic(), crew.length("supernode")
    start = _start(crew, config)
    while True:
        time.sleep(POLL)
        if start.connected:
            lost_at, log_offset = time.monotonic(), crew.length("supernode")
        elif CONNECTED in crew.log_since("supernode", start.log_offset):
            start = replace(start, connected=True)
            report(f"connected to {config.server}; ready for orders")
        ended = [name for name in ("supernode", "worker") if crew.processes[name].poll() is not None]
        overdue = time.monotonic() - lost_at > patience
        if not ended and not overdue:
            continue
        reason = _reason(crew, config, log_offset, ended)
        if overdue:
            raise RunFailed(f"{reason}; gave up after {patience:g} s (--retry)")
        report(f"{reason}; retrying in {STEADY:g} s")
        crew.stop()
        time.sleep(min(STEADY, patience))
        start = _start(crew, config)


STEADY = 5.0
CONNECTED = "SuperNode ID:"
"""What a SuperNode logs once the server has accepted it."""
REFUSALS = {
    "Failed to activate SuperNode": "the server at {server} does not accept the key {key}: it is not registered there, "
    "or a node with this key was connected less than a minute ago",
    "address already in use": "port {runtime} of this host is taken; choose another --runtime-port",
}
"""What Flower logs when a SuperNode is refused, and what that means."""


@dataclass(frozen=True, slots=True)
class NodeStart:
    """One start of a node's processes: its offset in the SuperNode's log, and whether the server has accepted it."""

    log_offset: int
    connected: bool = False


def _start(crew: Crew, config: SuperNodeConfig) -> NodeStart:
    start = NodeStart(crew.length("supernode"))
    crew.start("supernode", config.supernode())
    crew.start("worker", config.worker())
    return start


def _reason(crew: Crew, config: SuperNodeConfig, log_offset: int, ended: list[str]) -> str:
    """Return why a node is not connected: from its SuperNode's log since it was, or by connecting to the server."""
    if ended == ["worker"]:
        return f"the worker ended: {crew.last_lines('worker')}"
    log = crew.log_since("supernode", log_offset)
    for mark, sentence in REFUSALS.items():
        if mark in log:
            return sentence.format(server=config.server, key=config.key, runtime=config.runtime)
    return processes.unreachable(config.server, config.ca) or (
        f"the SuperNode ended ({crew.log('supernode')} says why)" if ended else "the SuperNode is not ready yet"
    )
