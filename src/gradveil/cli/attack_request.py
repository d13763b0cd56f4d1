"""What `gradveil attack` was asked for, before anything heavy is imported to do it."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRequest:
    """The options of `gradveil attack`; `rounds` are numbers with commas, `name` is the attack's."""

    run: Path | None
    dataset: str | None
    target: str | None
    data_dir: Path | None
    method: str | None
    surface: str
    name: str
    server: str
    victims: int | None
    iterations: int | None
    prior: str | None
    view: str
    rounds: str
    batch: int | None
    local_steps: int | None
    cohort: int | None
    network: str | None
    readings: int
    told_labels: bool
    rule: str
    restarts: int | None
    lr: float | None
    clip: str | None
    sigma: float | None
    decay: str | None
    sigma_end: float | None
    draw: str | None
    sensitivity: str | None
    keep_truth: bool
    seed: int
    out: Path | None
    as_json: bool
