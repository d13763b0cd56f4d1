"""How long rounds take by the clock, as a page sees them end: whoever started the run, its file of rounds tells."""

import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

MOST = 1000
"""Runs that are kept."""


@dataclass(frozen=True, slots=True)
class PaceStart:
    """Rounds that a running run had done when it was seen first, or after the first that ended since, and when."""

    done: int
    ended: float | None = None


class Paces:
    """Seconds a round of the runs that are at work, each since it was last seen to start."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._seen: OrderedDict[Path, PaceStart] = OrderedDict()
        self._lock = threading.Lock()

    def seen(self, folder: Path, running: bool, done: int, ended: float) -> float | None:
        """Return the seconds a round of a run whose last round ended then; None until two ended while it was watched.

        The round under way when a run is first seen does not count: it may compile, or go on after a long stop.
        """
        with self._lock:
            before = self._seen.pop(folder, None)
            if not running:
                return None
            if before is None or done < before.done:
                before = PaceStart(done)
            elif before.ended is None and done > before.done:
                before = PaceStart(done, ended)
            self._seen[folder] = before
            while len(self._seen) > self._most:
                self._seen.popitem(last=False)
        if before.ended is None or done == before.done:
            return None
        return (ended - before.ended) / (done - before.done)
