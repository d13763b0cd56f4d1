"""result.json and its place in the chain of rounds: a folder with fewer rounds than its result was rolled back."""

from collections.abc import Sequence
from pathlib import Path

from gradveil.errors import BadInput
from gradveil.runs.run_records import RunResult
from gradveil.runs.store import files
from gradveil.runs.store.folder_records import decoded, read_record

RESULT = "result.json"


def undamaged_result(folder: Path) -> RunResult | None:
    """Read the result if there is one that nobody changed; refuse one that was sealed with another content.

    A damaged one is None: `read_result`, for showing it, refuses it, and `--resume` writes it again.
    """
    path = folder / RESULT
    if not files.exists(path):
        return None
    try:
        result = files.read_sealed(path)
    except BadInput:
        return None
    return decoded(RunResult, result, repr(str(path)))


def refuse_rolled_back(folder: Path, result: RunResult | None, heads: Sequence[str]) -> None:
    """Refuse a history that does not lead to the result; heads: the chain's digests h_0, h_1, ..., h_T after T rounds.

    To train rounds again that were released would show each record twice, each time with other noise.
    """
    if result is None:
        return
    path, reported, done = folder / RESULT, result.rounds, len(heads) - 1
    if reported > done:
        raise BadInput(
            f"{str(path)!r}: reports {reported} rounds, but metrics.jsonl and the checkpoint have {done}; the folder "
            "was rolled back, and a released round must not be drawn again"
        )
    if heads[reported] != result.metrics_head:
        raise BadInput(
            f"{str(path)!r}: reports {reported} rounds that are not those of metrics.jsonl; one of the two files "
            "belongs to another run, and a released round must not be drawn again"
        )


def read_result(folder: Path, head: str) -> RunResult | None:
    """Read the result of a run whose metrics end at `head`, or None if it is not over."""
    path = folder / RESULT
    if not files.exists(path):
        return None
    result = read_record(path, RunResult)
    if result.metrics_head != head:
        raise BadInput(
            f"{str(path)!r}: reports fewer rounds than metrics.jsonl has; `gradveil run --resume` writes it again"
        )
    return result
