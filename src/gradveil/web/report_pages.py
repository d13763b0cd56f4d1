"""Reports of runs, made once: a page is kept under the digests of the files that it was made from."""

import threading
from collections import OrderedDict
from collections.abc import Sequence

from gradveil.reports.page import page
from gradveil.web.refusals import readable
from gradveil.web.run_processes import Runs
from gradveil.web.special_files import digest

MOST_COMPARED = 12
"""Runs on one page."""
CACHE_LIMIT = 64 * 2**20
"""Letters of all pages that are kept."""
Key = tuple[tuple[str, str], ...]
"""Names of runs with the digests of what they were when a page was asked for."""


class ReportPages:
    """The reports of a folder of runs, and the last of them that were made."""

    def __init__(self, runs: Runs, limit: int = CACHE_LIMIT) -> None:
        self._runs, self._limit = runs, limit
        self._pages: OrderedDict[Key, str] = OrderedDict()
        self._lock = threading.Lock()

    def key(self, names: Sequence[str]) -> Key:
        """Say which page is asked for: these runs as they are now."""
        return tuple((name, self._digest(name)) for name in names)

    def _digest(self, name: str) -> str:
        with readable(name):
            return digest(self._runs.folder(name))

    def cached(self, key: Key) -> str | None:
        """Return a page that was made before."""
        with self._lock:
            if key in self._pages:
                self._pages.move_to_end(key)
            return self._pages.get(key)

    def make(self, key: Key) -> str:
        """Make a page; it is kept if its runs did not change meanwhile. A user's own records are not in it."""
        names = [name for name, _ in key]
        gathered = [self._runs.evidence(name) for name in names]
        with readable(", ".join(names)):
            text = page(gathered)
        if self.key(names) == key:
            self._store(key, text)
        return text

    def _store(self, key: Key, text: str) -> None:
        with self._lock:
            self._pages[key] = text
            while sum(map(len, self._pages.values())) > self._limit and len(self._pages) > 1:
                self._pages.popitem(last=False)
