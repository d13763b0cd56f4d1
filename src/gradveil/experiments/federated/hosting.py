"""Keeping a federation's processes alive: the server's until its run is over, a node's until it is told to stop."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from gradveil import store
from gradveil.engines.flower import apps, processes
from gradveil.engines.flower.commands import NodePlaces, ServerPlaces
from gradveil.engines.flower.processes import Crew, Failed
from gradveil.errors import AnswerIsNo
from gradveil.experiments.federated.conduct import DONE, FAILED, STATUS, tell

Line = dict[str, Any]
Tell = Callable[[str], None]
POLL = 0.5
CONDUCTOR = "gradveil.experiments.federated.conduct"
SILENCE = 180.0
"""Seconds that a run may take to begin."""


def prepare(places: ServerPlaces) -> None:
    """Write what Flower's commands read: its configuration, the app and the secret of what executes runs."""
    places.state.mkdir(parents=True, exist_ok=True)
    store.write(places.state / "flwr" / "config.toml", places.configuration().encode())
    apps.write_app(places.state / "app", CONDUCTOR)
    processes.write_secret(places.state / "superexec.secret")


def open_server(hands: Crew, places: ServerPlaces, nodes: tuple[str, ...], say: Tell) -> None:
    """Start the server and make its nodes known; whoever comes before that is turned away."""
    prepare(places)
    processes.start_server(hands, places)
    say(f"the SuperLink listens on {places.address}")
    processes.register(hands, places, nodes)


def begin(hands: Crew, places: ServerPlaces, folder: Path, say: Tell) -> None:
    """Submit the run of a folder."""
    tell(folder, "starting")
    processes.submit(hands, places, folder.resolve())
    say("the run is submitted; waiting for the nodes")


def follow(hands: Crew, places: ServerPlaces, folder: Path, say: Tell) -> Iterator[Line]:
    """Give every finished round until the run is over; a SuperLink that ends meanwhile is started again."""
    seen, began, was_held = len(store.read_metrics(folder)), time.monotonic(), False
    while True:
        lines = store.read_metrics(folder)
        yield from lines[seen:]
        seen = len(lines)
        status = store.read_json(folder / STATUS)
        if status["state"] == DONE and not store.held(folder):
            return
        if status["state"] == FAILED:
            raise AnswerIsNo(status["sentence"])
        held = store.held(folder)
        if (was_held and not held and _still(folder)) or (not was_held and time.monotonic() - began > SILENCE):
            raise Failed(f"the run's process ended ({hands.last_words('superexec')}); go on with --resume")
        was_held = was_held or held
        _revive(hands, places, say)
        time.sleep(POLL)


def _still(folder: Path) -> bool:
    """Whether a run that nobody holds has not said how it ended: it may be about to, so it is asked again."""
    time.sleep(2.0)
    return store.read_json(folder / STATUS)["state"] not in (DONE, FAILED) and not store.held(folder)


def _revive(hands: Crew, places: ServerPlaces, say: Tell) -> None:
    if hands.processes["superlink"].poll() is not None:
        say(f"the SuperLink ended and is started again ({hands.last_words('superlink', 1)})")
        hands.start("superlink", places.superlink())
        processes.await_health(hands, places)
    if hands.processes["superexec"].poll() is not None:
        say(f"the SuperExec ended and is started again ({hands.last_words('superexec', 1)})")
        hands.start("superexec", places.superexec())


def tend(hands: Crew, places: NodePlaces, say: Tell, patience: float) -> None:
    """Keep a node's SuperNode and worker running for ever.

    A node that comes back is refused until the server has missed its predecessor for up to a minute, so what ends is
    started again; AnswerIsNo if it does not stay up within `patience` seconds.
    """
    processes.write_secret(places.state / "superexec.secret")
    log = hands.log("supernode")
    began = log.stat().st_size if log.exists() else 0  # what it said in earlier lives does not count
    failing, started, connected = time.monotonic(), _start(hands, places), False
    while True:
        time.sleep(POLL)
        if not connected and CONNECTED in hands.log("supernode").read_bytes()[began:].decode(errors="replace"):
            connected = True
            say(f"connected to {places.server}; orders are taken")
        ended = [name for name in ("supernode", "worker") if hands.processes[name].poll() is not None]
        if not ended:
            failing = time.monotonic() if time.monotonic() - started > 2 * STEADY else failing
            continue
        reason = hands.last_words(ended[0])
        if time.monotonic() - failing > patience:
            raise AnswerIsNo(f"the {ended[0]} does not stay up: {reason}")
        say(f"the {ended[0]} ended and is started again in {STEADY:g} s: {reason}")
        hands.stop()
        time.sleep(STEADY)
        started = _start(hands, places)


STEADY = 5.0
CONNECTED = "SuperNode ID:"
"""What a SuperNode writes once the server has taken it."""


def _start(hands: Crew, places: NodePlaces) -> float:
    hands.start("supernode", places.supernode())
    hands.start("worker", places.worker())
    return time.monotonic()
