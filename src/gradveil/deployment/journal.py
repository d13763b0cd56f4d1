"""Who was asked, and when: written before anything is sent, so that what may have been seen is never forgotten."""

import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gradveil.errors import BadInput
from gradveil.federation import server
from gradveil.federation.server import State
from gradveil.runs import store
from gradveil.runs.budget import Budget
from gradveil.runs.run_records import RoundLine

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
        whole = store.read(self.path).split(b"\n")[:-1] if self.path.exists() else []
        try:
            found = [json.loads(line) for line in whole]
            return [(int(entry["round"]), np.asarray(entry["clients"], np.int64)) for entry in found]
        except (KeyError, TypeError, ValueError, RecursionError):
            raise BadInput(f"{str(self.path)!r}: was damaged, so it cannot be told what was released") from None

    def check(self, lines: Sequence[RoundLine]) -> None:
        """Refuse a journal with fewer attempts at a round than the round's line tells of: they would be forgotten."""
        times = Counter(t for t, _ in self.entries())
        for line in lines:
            made = line.attempts or 1
            if times[line.round] < made:
                raise BadInput(
                    f"{str(self.path)!r}: holds {times[line.round]} attempts at round {line.round}, "
                    f"and {made} were made"
                )

    def _cut(self) -> None:
        """Take away a line that a kill has torn, so that the next one begins on its own."""
        whole = store.read(self.path) if self.path.exists() else b""
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
