"""Runs as they were read last, without what their attacks have to show: a list of many runs reads only what changed."""

import threading
from collections import OrderedDict
from pathlib import Path

from gradveil.reports.evidence import Evidence, gather
from gradveil.web.special_files import Signature, signature

MOST = 1000
"""Runs that are kept."""


class Summaries:
    """Run folders by the sizes and times of their files."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._read: OrderedDict[Path, tuple[Signature, Evidence]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, folder: Path) -> Evidence:
        """Return a run as it is now; it is read if a file of it changed since the last time."""
        now = signature(folder)
        with self._lock:
            before, run = self._read.get(folder, (None, None))
            if run is not None and before == now:
                self._read.move_to_end(folder)
                return run
        run = gather(folder, exhibits=False)
        with self._lock:
            self._read[folder] = now, run  # if it changed while it was read, the signature differs the next time
            while len(self._read) > self._most:
                self._read.popitem(last=False)
        return run
