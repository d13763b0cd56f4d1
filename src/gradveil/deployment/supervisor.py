"""Keeps the processes of a federation running: a server's until its run is over, a node's until it is stopped."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gradveil.deployment import conductor
from gradveil.deployment.conductor import DONE, FAILED, STATUS, write_status
from gradveil.engines.flower import control, processes, superlink
from gradveil.engines.flower.commands import NodePlaces, ServerPlaces
from gradveil.engines.flower.processes import Crew, Failed
from gradveil.errors import RunFailed
from gradveil.runs import store
from gradveil.runs.run_records import RoundLine

Reporter = Callable[[str], None]
POLL = 0.5
CONDUCTOR = "conductor"


def prepare(places: ServerPlaces) -> None:
    """Write the server's secrets: the one that opens its gate, and the one that lets a run be executed."""
    for secret in (places.owner, places.secret):
        processes.write_secret(secret)


def open_server(crew: Crew, places: ServerPlaces, nodes: tuple[str, ...], report: Reporter) -> None:
    """Start the server and register its nodes; a node that connects earlier is refused."""
    prepare(places)
    processes.start_server(crew, places)
    report(f"the SuperLink listens on {places.address}")
    control.register(places, nodes)


def begin(crew: Crew, places: ServerPlaces, folder: Path, report: Reporter) -> None:
    """Start the process that executes the run of a folder."""
    if store.held(folder):
        raise store.Busy(f"out = {str(folder)!r}: another process is writing this run")
    with processes.owner_only():
        write_status(folder, "starting")
    crew.start(CONDUCTOR, places.conductor(folder.resolve()))
    report("the run is started; waiting for the nodes")


def execute(places: ServerPlaces, folder: Path) -> None:
    """Execute the run of a folder over a running SuperLink; delivered messages are erased after each round."""
    control.register(places, conductor.settings(folder).nodes)
    with control.run(places) as grid:
        conductor.conduct(grid, folder, lambda: superlink.prune(places.database))


def follow(crew: Crew, places: ServerPlaces, folder: Path, report: Reporter) -> Iterator[RoundLine]:
    """Yield every finished round until the run is over; a SuperLink that ends meanwhile is restarted."""
    seen = len(store.read_metrics(folder))
    while True:
        ended = crew.processes[CONDUCTOR].poll() is not None  # polled first: what it wrote before its end is read below
        lines, status = store.read_metrics(folder), store.read_json(folder / STATUS)
        yield from lines[seen:]
        seen = len(lines)
        if status["state"] == FAILED:
            raise RunFailed(status["sentence"])
        if ended and status["state"] == DONE:
            return
        if ended:
            raise Failed(f"the run's process ended ({crew.last_lines(CONDUCTOR)}); restart with --resume")
        _revive(crew, places, report)
        time.sleep(POLL)


def _revive(crew: Crew, places: ServerPlaces, report: Reporter) -> None:
    if crew.processes["superlink"].poll() is not None:
        report(f"the SuperLink ended and is restarted ({crew.last_lines('superlink', 1)})")
        crew.start("superlink", places.superlink())
        processes.await_health(crew, places)


def tend(crew: Crew, places: NodePlaces, report: Reporter, patience: float) -> None:
    """Keep a node's SuperNode and worker running until the process is stopped.

    The server refuses a node that returns until it has missed the old one for up to a minute, so its processes are
    restarted; RunFailed with the reason if the server does not accept it within `patience` seconds.
    """
    processes.write_secret(places.secret)
    # When this node lost the server, and where in the log that is.
    lost_at, log_offset = time.monotonic(), crew.length("supernode")
    start = _start(crew, places)
    while True:
        time.sleep(POLL)
        if start.connected:
            lost_at, log_offset = time.monotonic(), crew.length("supernode")
        elif CONNECTED in crew.log_since("supernode", start.log_offset):
            start = replace(start, connected=True)
            report(f"connected to {places.server}; ready for orders")
        ended = [name for name in ("supernode", "worker") if crew.processes[name].poll() is not None]
        overdue = time.monotonic() - lost_at > patience
        if not ended and not overdue:
            continue
        reason = _reason(crew, places, log_offset, ended)
        if overdue:
            raise RunFailed(f"{reason}; gave up after {patience:g} s (--retry)")
        report(f"{reason}; retrying in {STEADY:g} s")
        crew.stop()
        time.sleep(min(STEADY, patience))
        start = _start(crew, places)


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


def _start(crew: Crew, places: NodePlaces) -> NodeStart:
    start = NodeStart(crew.length("supernode"))
    crew.start("supernode", places.supernode())
    crew.start("worker", places.worker())
    return start


def _reason(crew: Crew, places: NodePlaces, log_offset: int, ended: list[str]) -> str:
    """Return why a node is not connected: from its SuperNode's log since it was, or by connecting to the server."""
    if ended == ["worker"]:
        return f"the worker ended: {crew.last_lines('worker')}"
    log = crew.log_since("supernode", log_offset)
    for mark, sentence in REFUSALS.items():
        if mark in log:
            return sentence.format(server=places.server, key=places.key, runtime=places.runtime)
    return processes.unreachable(places.server, places.ca) or (
        f"the SuperNode ended ({crew.log('supernode')} says why)" if ended else "the SuperNode is not ready yet"
    )
