"""What data.json, environment.json, watch.json and plans.json of a run folder hold.

A seal says that nobody changed a file, not that it is the right one: `read_record` refuses any other content.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.fields import MOST, whole
from gradveil.runs.run_records import Earlier
from gradveil.runs.store import files

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitSizes:
    """Examples in each split; 0 where there is none."""

    train: int
    validation: int
    test: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataRecord:
    """What a run was trained on, without a record of it, and the digest of the plan that it began with.

    sha256: null for a user's own data, whose digest has a key that only the folder's owner can read.
    """

    name: str
    own: bool
    sha256: str | None
    keyed_digest: str | None
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    examples: SplitSizes
    notes: tuple[str, ...]
    plan: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRecord:
    """What a result depends on besides the plan: versions and devices; nothing that names a person or host."""

    python: str
    system: str
    machine: str
    packages: dict[str, str]
    devices: tuple[str, ...]
    xla_flags: str

    def __post_init__(self) -> None:
        if "gradveil" not in self.packages:
            raise BadInput("packages.gradveil: this key is missing")


@dataclass(frozen=True, slots=True)
class WatchedRounds:
    """The rounds whose checkpoints are to be kept, counted as rounds done."""

    rounds: tuple[int, ...]

    def __post_init__(self) -> None:
        for t in self.rounds:
            whole("rounds", t, 0, MOST)


@dataclass(frozen=True, slots=True)
class EarlierPlans:
    """Under how many planned rounds earlier stretches were trained."""

    earlier: tuple[Earlier, ...]


def decoded(cls: type[T], value: files.Record, where: str) -> T:
    """Read a record from plain data; `where` is named in front of what is wrong with it."""
    try:
        return codec.decode(cls, value)
    except BadInput as error:
        raise BadInput(f"{where}: {error}") from None


def read_record(path: Path, cls: type[T]) -> T:
    """Read a sealed file; refuse one that was changed, or that holds something else."""
    return decoded(cls, files.read_sealed(path), repr(str(path)))


def write_record(path: Path, value: object, owner_only: bool = False) -> None:
    """Write a record with its seal."""
    files.write_sealed(path, codec.record(value), owner_only)
