"""Servers and nodes of secure sums as processes that die by kill -9, one gap after another; messages are files.

A *step* is what outlives a process: a message that it takes or sends, a file that it opens for writing or renames. What
is only in memory ends with the process, so two kills between the same two steps cannot be told apart, and a kill in
every gap between two steps is a kill at every moment, but for a line that is torn while it is written. A process is
told in which gaps it lives on; it dies in the first other one, by SIGKILL, before the next step is made.

Run as a program, this imports the package once and forks a process for every line of JSON that it reads.
"""

import json
import os
import secrets
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from flwr.app import Message
from flwr.common.serde import recorddict_from_proto, recorddict_to_proto
from flwr.proto.recorddict_pb2 import RecordDict as ProtoRecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from gradveil.deployment import conductor
from gradveil.deployment.node import NODE, NodeSettings
from gradveil.deployment.summing import Summing
from gradveil.engines.flower import posting, sum_wire, worker
from gradveil.runs.store.lock import LOCK

ASKED, ANSWERED, HALF = "asked", "answered", ".half"
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND
BEGUN, ENDED = "begun", "ended"
BOUND = 400
"""Seconds after which a node ends by itself, whoever forgot it."""


class Mortal:
    """The steps of this process, and in which gaps it does not die; None: it dies in none.

    watched: the folder whose files are steps.
    """

    def __init__(self, watched, log, safe):
        self.watched, self.last = Path(watched), BEGUN
        self.safe = None if safe is None else {tuple(gap) for gap in safe}
        self.log = os.open(log, os.O_WRONLY | os.O_CREAT)
        sys.addaudithook(self.written)

    def step(self, name):
        """Die before this step, or remember it as the last one."""
        if self.safe is not None and (self.last, name) not in self.safe:
            self.note([self.last, name])
            os.kill(os.getpid(), signal.SIGKILL)
        self.last = name

    def note(self, what):
        """Write down the gap of a death, or that there was none."""
        os.write(self.log, json.dumps(what).encode() + b"\n")

    def written(self, event, args):
        """Take note of files that are about to be opened for writing, renamed or removed."""
        if event == "open" and isinstance(args[0], str | os.PathLike) and args[2] & WRITING:
            self._of(args[0], "open")
        elif event == "os.rename":
            self._of(args[1], "rename to")
        elif event == "os.remove" and os.path.exists(args[0]):
            self._of(args[0], "remove")

    def _of(self, path, done):
        if Path(path).is_relative_to(self.watched) and Path(path).name != LOCK:
            self.step(f"{done} {Path(path).name}")


def kind(content):
    """Give what a message is."""
    names = {sum_wire.INTRODUCE: "roll-call", sum_wire.CARD: "card", "refusal": "refusal", "masked": "answer"}
    return next((word for name, word in names.items() if name in content), "order")


def post(path, content):
    """Write a message; it is there whole or not at all."""
    half = path.with_name(path.name + HALF)
    half.write_bytes(recorddict_to_proto(content).SerializeToString())
    half.rename(path)


def read(path):
    """Read a message."""
    return recorddict_from_proto(ProtoRecordDict.FromString(path.read_bytes()))


@dataclass
class NodeName:
    """What the server is told of a node."""

    node_id: int
    name: str


@dataclass
class FolderGrid(Grid):
    """Flower's place on the server's side: messages to nodes are files of one folder, and so are the replies."""

    folder: Path
    names: tuple
    mortal: Mortal
    taken: int = field(default=0)

    run = property(lambda self: None)
    set_run = create_message = send_and_receive = get_node_ids = lambda self, *args, **kwargs: NotImplemented

    def get_nodes(self):
        return [NodeName(i, name) for i, name in enumerate(self.names)]

    def push_messages(self, messages):
        self.taken, keys = 0, []
        for message in messages:
            name = self.names[message.metadata.dst_node_id]
            self.mortal.step(f"send {kind(message.content)} to {name}")
            keys.append(f"{time.time_ns():020}-{secrets.token_hex(4)}.{name}")
            post(self.folder / f"{keys[-1]}.{ASKED}", message.content)
        return keys

    def pull_messages(self, message_ids):
        found = [self.folder / f"{key}.{ANSWERED}" for key in message_ids]
        return [self._taken(read(path)) for path in found if path.exists()]

    def _taken(self, content):
        self.taken += 1
        self.mortal.step(f"take reply {self.taken}")
        return message_of(content)


def message_of(content):
    return Message(content, dst_node_id=0, message_type=posting.MESSAGE)


def serve(mail, mortal, folder, names):
    """Be the server of a run folder until the run is over."""
    posting.POLL = 0.02
    conductor.conduct(FolderGrid(Path(mail), tuple(names), mortal), Path(folder))


def attend(mail, mortal, state, name):
    """Be a node: answer every message that has no answer yet, also one that an earlier process had taken."""
    node, parent, done = Summing.open(NodeSettings.read(Path(state) / NODE)), os.getppid(), set()
    end = time.monotonic() + BOUND
    while os.getppid() == parent and time.monotonic() < end:
        for asked in sorted(set(Path(mail).glob(f"*.{name}.{ASKED}")) - done):
            answered, content = asked.with_suffix(f".{ANSWERED}"), read(asked)
            if not answered.exists():
                mortal.step(f"take {kind(content)}")
                answer = worker.reply(message_of(content), node.handle).content
                mortal.step(f"send {kind(answer)}")
                post(answered, answer)
            done.add(asked)
        time.sleep(0.02)


def live(role, mail, log, safe, watched, **given):
    """Be a server or a node until the end, which is noted if it is not a kill."""
    for name in ("run_id", "node_id", "task_id"):
        setattr(TaskIdentity, name, 1)  # flwr makes no message without it
    mortal = Mortal(watched, log, safe)
    {"server": serve, "node": attend}[role](mail, mortal, **given)
    mortal.step(ENDED)
    mortal.note(ENDED)


def main():
    """Fork a process for each line, and say its number."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them, so the system forgets them
    for line in sys.stdin:
        if (number := os.fork()) == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            live(**json.loads(line))
            os._exit(0)
        print(number, flush=True)


if __name__ == "__main__":
    main()
