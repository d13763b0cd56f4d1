"""Who was asked, and when: written before anything is sent, so that what may have been seen is never forgotten."""

import json
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradveil import store
from gradveil.experiments.budget import Budget
from gradveil.federation import server
from gradveil.federation.server import State

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Journal:
    """The file of all attempts at rounds, one a line."""

    path: Path

    def note(self, t: int, cohort: Array) -> None:
        """Write an attempt down; returns when it is on disk."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"round": t, "clients": cohort.tolist()}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def entries(self) -> list[tuple[int, Array]]:
        """Read the attempts; a line torn by a kill was not followed by a message and is left out."""
        whole = self.path.read_text(encoding="utf-8").split("\n")[:-1] if self.path.exists() else []
        return [(int(e["round"]), np.asarray(e["clients"], np.int64)) for e in map(json.loads, whole)]

    def _cut(self) -> None:
        """Take away a line that a kill has torn, so that the next one begins on its own."""
        whole = self.path.read_bytes() if self.path.exists() else b""
        if whole and not whole.endswith(b"\n"):
            store.write(self.path, whole[: whole.rfind(b"\n") + 1])

    def recall(self, budget: Budget, state: State) -> tuple[State, int]:
        """Count what the checkpoint does not know: attempts that failed, and those at the round that it was killed in.

        Gives the state with those participations, and how often its round was tried. A finished round had one attempt
        that did not fail, which the checkpoint counts.
        """
        self._cut()
        entries = self.entries()
        times = Counter(t for t, _ in entries)
        budget.recall([t for t, n in times.items() for _ in range(n - 1 if t < state.round else n)])
        for t, clients in entries:
            state = server.counted(state, clients) if t >= state.round else state
        return state, times[state.round]
