"""Where results are kept: one record a work, named by the work's hash, so that tables share and resume them."""

from dataclasses import dataclass
from pathlib import Path

from gradveil.errors import BadInput
from gradveil.reproduction.works import Record
from gradveil.runs import store


@dataclass(frozen=True, slots=True)
class Shelf:
    """A folder of records (records/HASH.json), pictures of attacks (pictures/HASH.png) and run folders (runs/HASH)."""

    folder: Path

    def open(self) -> None:
        """Make the folder, or say that it cannot be written."""
        try:
            (self.folder / "records").mkdir(parents=True, exist_ok=True)
            probe = self.folder / ".probe"
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise BadInput(f"out = {str(self.folder)!r}: cannot be written ({error.strerror})") from None

    def find(self, key: str) -> Record | None:
        """Give a record if it is there."""
        path = self.folder / "records" / f"{key}.json"
        return store.read_json(path) if path.exists() else None

    def keep(self, key: str, record: Record) -> None:
        """Write a record, whole or not at all."""
        store.write_json(self.folder / "records" / f"{key}.json", record)

    def picture(self, key: str) -> Path:
        """Name the picture that belongs to the record of an attack."""
        return self.folder / "pictures" / f"{key}.png"

    def run_folder(self, key: str) -> Path:
        """Name the folder of the run behind a record."""
        return self.folder / "runs" / key
