"""Keeping a federation's processes alive: the server's until its run is over, a node's until it is told to stop."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gradveil.deployment import conductor
from gradveil.deployment.conductor import DONE, FAILED, STATUS, tell
from gradveil.engines.flower import control, processes, superlink
from gradveil.engines.flower.commands import NodePlaces, ServerPlaces
from gradveil.engines.flower.processes import Crew, Failed
from gradveil.errors import RunFailed
from gradveil.runs import store
from gradveil.runs.run_records import RoundLine

Tell = Callable[[str], None]
POLL = 0.5
CONDUCTOR = "conductor"


def prepare(places: ServerPlaces) -> None:
    """Write the server's secrets: the one that opens its gate, and the one that lets a run be executed."""
    for secret in (places.owner, places.secret):
        processes.write_secret(secret)


def open_server(hands: Crew, places: ServerPlaces, nodes: tuple[str, ...], say: Tell) -> None:
    """Start the server and make its nodes known; whoever comes before that is turned away."""
    prepare(places)
    processes.start_server(hands, places)
    say(f"the SuperLink listens on {places.address}")
    control.register(places, nodes)


def begin(hands: Crew, places: ServerPlaces, folder: Path, say: Tell) -> None:
    """Start what executes the run of a folder."""
    if store.held(folder):
        raise store.Busy(f"out = {str(folder)!r}: another process is writing this run")
    with processes.owner_only():
        tell(folder, "starting")
    hands.start(CONDUCTOR, places.conductor(folder.resolve()))
    say("the run is started; waiting for the nodes")


def execute(places: ServerPlaces, folder: Path) -> None:
    """Execute the run of a folder over a SuperLink that listens; what was delivered is forgotten after each round."""
    control.register(places, conductor.settings(folder).nodes)
    with control.run(places) as grid:
        conductor.conduct(grid, folder, lambda: superlink.prune(places.database))


def follow(hands: Crew, places: ServerPlaces, folder: Path, say: Tell) -> Iterator[RoundLine]:
    """Return every finished round until the run is over; a SuperLink that ends meanwhile is started again."""
    seen = len(store.read_metrics(folder))
    while True:
        ended = hands.processes[CONDUCTOR].poll() is not None  # asked first: what it wrote before its end is read below
        lines, status = store.read_metrics(folder), store.read_json(folder / STATUS)
        yield from lines[seen:]
        seen = len(lines)
        if status["state"] == FAILED:
            raise RunFailed(status["sentence"])
        if ended and status["state"] == DONE:
            return
        if ended:
            raise Failed(f"the run's process ended ({hands.last_words(CONDUCTOR)}); go on with --resume")
        _revive(hands, places, say)
        time.sleep(POLL)


def _revive(hands: Crew, places: ServerPlaces, say: Tell) -> None:
    if hands.processes["superlink"].poll() is not None:
        say(f"the SuperLink ended and is started again ({hands.last_words('superlink', 1)})")
        hands.start("superlink", places.superlink())
        processes.await_health(hands, places)


def tend(hands: Crew, places: NodePlaces, say: Tell, patience: float) -> None:
    """Keep a node's SuperNode and worker running for ever.

    A node that comes back is refused until the server has missed its predecessor for up to a minute, so what ends is
    started again; RunFailed with the reason if the server has not taken it within `patience` seconds.
    """
    processes.write_secret(places.secret)
    # Since when the server has not had this node, and where in the log that begins.
    lost, since = time.monotonic(), hands.length("supernode")
    life = _start(hands, places)
    while True:
        time.sleep(POLL)
        if life.connected:
            lost, since = time.monotonic(), hands.length("supernode")
        elif CONNECTED in hands.said_since("supernode", life.began):
            life = replace(life, connected=True)
            say(f"connected to {places.server}; orders are taken")
        ended = [name for name in ("supernode", "worker") if hands.processes[name].poll() is not None]
        overdue = time.monotonic() - lost > patience
        if not ended and not overdue:
            continue
        reason = _reason(hands, places, since, ended)
        if overdue:
            raise RunFailed(f"{reason}; given up after {patience:g} s (--retry)")
        say(f"{reason}; tried again in {STEADY:g} s")
        hands.stop()
        time.sleep(min(STEADY, patience))
        life = _start(hands, places)


STEADY = 5.0
CONNECTED = "SuperNode ID:"
"""What a SuperNode writes once the server has taken it."""
REFUSALS = {
    "Failed to activate SuperNode": "the server at {server} does not take the key {key}: it is not registered there, "
    "or a node with this key was there less than a minute ago",
    "address already in use": "port {runtime} of this host is taken; choose another --runtime-port",
}
"""What Flower writes when a SuperNode is refused, and what that means."""


@dataclass(frozen=True, slots=True)
class Life:
    """One start of a node's processes: where in the SuperNode's log it begins, and whether the server has taken it."""

    began: int
    connected: bool = False


def _start(hands: Crew, places: NodePlaces) -> Life:
    life = Life(hands.length("supernode"))
    hands.start("supernode", places.supernode())
    hands.start("worker", places.worker())
    return life


def _reason(hands: Crew, places: NodePlaces, since: int, ended: list[str]) -> str:
    """Say why a node is not there: from what its SuperNode wrote since it was, or by trying the server."""
    if ended == ["worker"]:
        return f"the worker ended: {hands.last_words('worker')}"
    said = hands.said_since("supernode", since)
    for mark, sentence in REFUSALS.items():
        if mark in said:
            return sentence.format(server=places.server, key=places.key, runtime=places.runtime)
    return processes.unreachable(places.server, places.ca) or (
        f"the SuperNode ended ({hands.log('supernode')} says why)" if ended else "the SuperNode is not ready yet"
    )
