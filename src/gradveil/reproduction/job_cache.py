"""Where results are kept: one record a job, named by the job's hash, so that tables share and resume them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gradveil import codec
from gradveil.errors import BadInput
from gradveil.reproduction.jobs import AttackJob, GuaranteeJob, Job, TimingJob, TrainingJob, TuningJob
from gradveil.runs import store

Stored = dict[str, Any]
PROVENANCE = ("made", "by")
"""Keys of a stored record that say when and with which versions it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRecord:
    """A run that was trained, or that diverged: then there is no accuracy, and the curve ends early.

    accuracy_error: standard error over test examples. held_out: accuracy on the split for choices. search: the learning
    rates that were tried, each with its accuracy on that split. guarantees: as `Guarantee.plain` gives them.
    """

    accuracy: float | None
    held_out: float | None
    rounds: int
    learning_rate: float
    curve: tuple[float, ...]
    diverged: bool
    guarantees: tuple[dict[str, Any], ...] = ()
    accuracy_error: float | None = None
    majority: float | None = None
    seconds: float | None = None
    sensitivity: tuple[float | None, ...] = ()
    plan_sha256: str | None = None
    search: tuple[tuple[float, float], ...] = ()
    search_rounds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedVictim:
    """How near an attack came to one victim; gain is the distance to the public mean less that to the guess."""

    success: bool
    rmse: float
    rmse_unclamped: float
    iterations: int
    gain: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackScores:
    """What cells use of an attack's record; of_ten: how often the true record was picked out of ten, if tried.

    trials: how often it was tried. verdict: whether a leak was found; None in records of version 0.1.
    """

    victims: tuple[CachedVictim, ...]
    of_ten: float | None
    trials: int = 0
    verdict: str | None = None


@dataclass(frozen=True, slots=True)
class TimingRecord:
    """Seconds of one local iteration of one client."""

    seconds: float


@dataclass(frozen=True, slots=True)
class GuaranteesRecord:
    """What a sound accountant guarantees for a plan, as `Guarantee.plain` gives it."""

    guarantees: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class ValueRecord:
    """A number or a text that was counted, looked up or computed."""

    value: int | float | str


JobRecord = TrainingRecord | AttackScores | TimingRecord | GuaranteesRecord | ValueRecord


def record_of(job: Job, stored: Stored) -> JobRecord:
    """Read what is stored of a job; raises BadInput naming the key that is missing or wrong."""
    match job:
        case AttackJob():
            return _scores(stored)
        case TrainingJob() | TuningJob():
            record_type: type[Any] = TrainingRecord
        case TimingJob():
            record_type = TimingRecord
        case GuaranteeJob():
            record_type = GuaranteesRecord
        case _:
            record_type = ValueRecord
    record: JobRecord = codec.decode(record_type, {k: v for k, v in stored.items() if k not in PROVENANCE})
    return record


def _scores(stored: Stored) -> AttackScores:
    """Take from an attack's record, which tells much more, what is measured."""
    try:
        victims = [{name: victim[name] for name in CachedVictim.__slots__} for victim in stored["per_victim"]]
        ten = [candidates for candidates in stored["candidates"] if candidates["n"] == 10]
        tried = [(one["success"], one.get("trials", len(victims))) for one in ten] or [(None, 0)]
    except (KeyError, TypeError) as error:
        raise BadInput(f"this is no record of an attack ({error})") from None
    of_ten, trials = tried[0]
    fields = {"victims": victims, "of_ten": of_ten, "trials": trials, "verdict": stored.get("verdict")}
    scores: AttackScores = codec.decode(AttackScores, fields)
    return scores


@dataclass(frozen=True, slots=True)
class JobCache:
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

    def read(self, job: Job, key: str) -> JobRecord | None:
        """Return the record of a job if it is there; one that cannot be read is refused in one sentence."""
        path = self.folder / "records" / f"{key}.json"
        if not path.exists():
            return None
        stored = store.read_json(path)
        try:
            return record_of(job, stored)
        except BadInput as error:
            raise BadInput(f"{str(path)!r}: {error}; delete this file, and the record is computed again") from None

    def write(self, key: str, stored: Stored) -> None:
        """Write a record, whole or not at all."""
        store.write_json(self.folder / "records" / f"{key}.json", stored)

    def picture(self, key: str) -> Path:
        """Name the picture that belongs to the record of an attack."""
        return self.folder / "pictures" / f"{key}.png"

    def run_folder(self, key: str) -> Path:
        """Name the folder of the run behind a record."""
        return self.folder / "runs" / key
