"""`gradveil run --resume`: which run, and which options may be given with it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gradveil.errors import BadInput
from gradveil.runs import demo, store

HONORED = "--rounds, --attack, --no-attack, --watch, --data-dir, --engine and --json"


def refuse_with_resume(options: Mapping[str, Any]) -> None:
    """Refuse what would change a run that has begun; `given` is by the names of options."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise BadInput(f"{name}: cannot be changed by --resume; only {HONORED} can be given with it")


def folders_of(out: Path | None) -> list[Path]:
    """Find the run, or the runs of a demonstration, that --out holds."""
    if out is None:
        raise BadInput("--resume: needs --out, the folder of the run to continue")
    several = [out / method.name for method in demo.METHODS if store.exists(out / method.name / store.PLAN)]
    folders = [out] if store.exists(out / store.PLAN) else several
    if not folders:
        raise BadInput(f"out = {str(out)!r}: holds no run to continue")
    return folders
