"""The cohorts of all attempts, written before anything is sent, so that every possible release is accounted."""

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
JOURNAL = "attempts.jsonl"
"""The file's name in a run folder; only runs over a network have it."""


@dataclass(frozen=True, slots=True)
class Journal:
    """The file of all attempts at rounds, one per line."""

    path: Path

    def note(self, t: int, cohort: Array) -> None:
        """Write an attempt, and return when it is on disk."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"round": t, "clients": cohort.tolist()}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def entries(self) -> list[tuple[int, Array]]:
        """Return the attempts; a line torn by a crash is left out, since nothing was sent after it."""
        complete = store.read(self.path).split(b"\n")[:-1] if self.path.exists() else []
        try:
            lines = [json.loads(line) for line in complete]
            return [(int(entry["round"]), np.asarray(entry["clients"], np.int64)) for entry in lines]
        except (KeyError, TypeError, ValueError, RecursionError):
            raise BadInput(f"{str(self.path)!r}: is damaged, so what was released is not known") from None

    def check(self, lines: Sequence[RoundLine]) -> None:
        """Refuse a journal with fewer attempts at a round than the round's line of metrics counts."""
        times = Counter(t for t, _ in self.entries())
        for line in lines:
            attempts = line.attempts or 1
            if times[line.round] < attempts:
                raise BadInput(
                    f"{str(self.path)!r}: has {times[line.round]} attempts at round {line.round}, but {attempts} were "
                    "made"
                )

    def _drop_torn_line(self) -> None:
        """Remove a line that a crash has torn, so that the next one starts on a new line."""
        content = store.read(self.path) if self.path.exists() else b""
        if content and not content.endswith(b"\n"):
            store.write(self.path, content[: content.rfind(b"\n") + 1])

    def recall(self, budget: Budget, state: State) -> tuple[State, int]:
        """Count what the checkpoint lacks: failed attempts, and attempts at the round in which the run crashed.

        Returns the state with those participations, and the attempts at its round. A finished round had one attempt
        that did not fail, which the checkpoint counts.
        """
        self._drop_torn_line()
        entries = self.entries()
        times = Counter(t for t, _ in entries)
        budget.recall([t for t, n in times.items() for _ in range(n - 1 if t < state.round else n)])
        for t, clients in entries:
            state = server.counted(state, clients) if t >= state.round else state
        return state, times[state.round]
