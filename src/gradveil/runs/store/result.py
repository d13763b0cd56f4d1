"""result.json, and where it stands in the chain of rounds: a folder behind its result was set back."""

from collections.abc import Sequence
from pathlib import Path

from gradveil.errors import BadInput
from gradveil.runs.run_records import RunResult
from gradveil.runs.store import files
from gradveil.runs.store.folder_records import decoded, read_record

RESULT = "result.json"


def whole_result(folder: Path) -> RunResult | None:
    """Read the result if there is one that nobody changed; refuse one that was sealed with another content.

    A damaged one is None: whoever shows a result refuses it (`read_result`), and going on makes it again.
    """
    path = folder / RESULT
    if not files.there(path):
        return None
    try:
        result = files.read_sealed(path)
    except BadInput:
        return None
    return decoded(RunResult, result, repr(str(path)))


def refuse_set_back(folder: Path, result: RunResult | None, heads: Sequence[str]) -> None:
    """Refuse rounds that a result does not stand on; heads: the chain's digests h_0, h_1, ..., h_T after T rounds.

    To train rounds again that were released would show each record twice, each time with other noise.
    """
    if result is None:
        return
    path, told, done = folder / RESULT, result.rounds, len(heads) - 1
    if told > done:
        raise BadInput(
            f"{str(path)!r}: tells of {told} rounds, but metrics.jsonl and the checkpoint of {done}; the folder was "
            "set back, and what was released is not drawn again"
        )
    if heads[told] != result.metrics_head:
        raise BadInput(
            f"{str(path)!r}: tells of {told} rounds that are not those of metrics.jsonl; one of them belongs to "
            "another run, and what was released is not drawn again"
        )


def read_result(folder: Path, head: str) -> RunResult | None:
    """Read the result of a run whose metrics end at `head`, or None if it is not over."""
    path = folder / RESULT
    if not files.there(path):
        return None
    result = read_record(path, RunResult)
    if result.metrics_head != head:
        raise BadInput(
            f"{str(path)!r}: tells of fewer rounds than metrics.jsonl; `gradveil run --resume` makes it again"
        )
    return result
