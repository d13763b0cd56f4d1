"""One message to each of several nodes, and their replies as they come, until all are there or the time is over."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from flwr.app import Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.inflatable.inflatable_utils import ObjectPushError

from gradveil.engines.flower import wire

POLL = 0.3
MESSAGE = "train"
GRACE = 25.0
"""Seconds that a reply stays valid after the deadline: Flower waits up to 20 before it asks a SuperLink again."""


class Posted(NamedTuple):
    """What came of one message: its reply or why there is none, after how long, and the bytes both ways."""

    content: RecordDict | None
    fault: str
    seconds: float
    down: int
    up: int


@dataclass(frozen=True, slots=True)
class Posting:
    """Sends messages to nodes by their registered names."""

    grid: Grid
    clock: Callable[[], float] = time.monotonic

    def online(self, names: tuple[str, ...]) -> dict[str, int]:
        """Return Flower's ids of those nodes that are connected."""
        return {node.name: node.node_id for node in self.grid.get_nodes() if node.name in names}

    def exchange(
        self,
        contents: Mapping[str, RecordDict],
        deadline: float,
        group: str,
        enough: Callable[[Mapping[str, Posted], float], bool] = lambda posted, seconds: False,
    ) -> dict[str, Posted]:
        """Send each node its message; return what came of each by the deadline.

        enough: whether to wait no longer, by what is there so far and the seconds since the start.
        """
        started, ids = self.clock(), self.online(tuple(contents))
        sizes = {name: wire.size(content) for name, content in contents.items()}
        posted = {name: Posted(None, "not connected", 0.0, 0, 0) for name in contents if name not in ids}
        keys = {name: self._send(node, contents[name], deadline, group) for name, node in ids.items()}
        posted |= {
            name: Posted(None, "the order was lost", 0.0, sizes[name], 0) for name, key in keys.items() if not key
        }
        over = False
        while (waiting := [name for name in keys if name not in posted]) and not over:
            # Polled once more after the deadline: while the SuperLink was away, Flower may have waited that long.
            over = (since := self.clock() - started) >= deadline or enough(posted, since)
            for name in waiting:  # one by one: what a reply says of itself was written by the node
                for reply in self.grid.pull_messages([keys[name]]):
                    posted[name] = _received(reply, self.clock() - started, sizes[name])
            time.sleep(POLL)
        late = {name: Posted(None, f"no reply within {since:.0f} s", since, sizes[name], 0) for name in waiting}
        return late | posted

    def _send(self, node: int, content: RecordDict, deadline: float, group: str) -> str:
        """Send a message; return Flower's key of it, empty if it is lost because the SuperLink crashed halfway."""
        message = Message(content, dst_node_id=node, message_type=MESSAGE, group_id=group, ttl=deadline + GRACE)
        try:
            (key,) = self.grid.push_messages([message])
        except ObjectPushError:
            return ""
        return key or ""


def _received(reply: Message, seconds: float, down: int) -> Posted:
    if reply.has_error():
        return Posted(None, f"Flower error {reply.error.code}", seconds, down, 0)
    try:
        return Posted(reply.content, "", seconds, down, wire.size(reply.content))
    except Exception as error:  # whatever a node sends, the others go on
        return Posted(None, f"rejected: cannot be read ({type(error).__name__})", seconds, down, 0)
