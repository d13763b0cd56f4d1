"""The file of the records behind the table of sound accuracy: JSON lines, sorted, rewritten whole after each run."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.reproduction.sound_cells import DATASETS, ROWS, SoundRecord
from gradveil.runs import store

NAME = "sound.jsonl"


@dataclass(frozen=True, slots=True)
class SoundRecords:
    """The file `sound.jsonl` of a folder."""

    folder: Path

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / NAME

    def read(self) -> tuple[SoundRecord, ...]:
        """Return all records; a file that is not there has none, and a line that is none is refused by its number."""
        if not store.exists(self.path):
            return ()
        lines = store.read(self.path).decode(errors="replace").splitlines()
        return tuple(self._record(number, line) for number, line in enumerate(lines, 1))

    def _record(self, number: int, line: str) -> SoundRecord:
        try:
            record: SoundRecord = codec.decode(SoundRecord, store.parsed(line, "record"))
        except BadInput as error:
            rule = "delete this line, and its run is done again"
            raise BadInput(f"{str(self.path)!r}, line {number}: is no record ({error}); {rule}") from None
        return record

    def write(self, records: Iterable[SoundRecord]) -> None:
        """Write all records, whole or not at all, in the order of the table."""
        texts = [json.dumps(codec.record(record), allow_nan=False) for record in sorted(records, key=_place)]
        store.write(self.path, "".join(f"{text}\n" for text in texts).encode())


def _place(record: SoundRecord) -> tuple[object, ...]:
    """Order as the table does; names that it does not have come last."""
    datasets, rows = (*DATASETS, record.dataset), (*ROWS, (record.method, record.threat_model))
    row = rows.index((record.method, record.threat_model))
    return datasets.index(record.dataset), record.dataset, row, record.target_epsilon, record.seed
