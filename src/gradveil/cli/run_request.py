"""What `gradveil run` was asked for, before anything heavy is imported to do it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """The options of `gradveil run`.

    settings: changes of the plan by their short names. attack: None attacks the demonstration and no other run.
    watch: round numbers with commas. target_epsilon: what the noise of the plan is scaled to.
    """

    plan_file: Path | None
    settings: dict[str, Any]
    data_dir: Path | None
    out: Path | None
    watch: str
    attack: bool | None
    keep_truth: bool
    resume: bool
    dry_run: bool
    target_epsilon: float | None
    engine: str
    as_json: bool
