"""What `gradveil tune` was asked for, before anything heavy is imported to do it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneRequest:
    """The options of `gradveil tune`."""

    dataset: str
    target: str | None
    schema: Path | None
    data_dir: Path | None
    on: str
    method: str
    trials: int
    target_epsilon: float
    threat_model: str
    delta: float
    seed: int
    noise_source: str | None
    clients: int | None
    out: Path
    as_json: bool
