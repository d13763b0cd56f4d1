"""What a run did, round by round, bound to its plans and its data.

metrics.jsonl is a chain. With h_0 the digest of data.json, which holds the digest of the plan that the run began with,
line t carries

    h_{t+1} = SHA-256(h_t, digest of the plan of round t, the line)

so a line that is edited, left out or moved, another plan and other data all break it. The checkpoint carries the h of
its round, so a file that was cut at its end is noticed too.

A run may be given more rounds, or fewer. plan.toml is the plan in force; plans.json says under how many planned rounds
earlier stretches were trained, since the noise of a decay depends on that number.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from gradveil import codec
from gradveil.errors import BadInput, quoted
from gradveil.federation.plan import Plan
from gradveil.runs.run_records import Earlier, RoundLine
from gradveil.runs.store import files
from gradveil.runs.store.files import Record
from gradveil.runs.store.folder_records import DataRecord, EarlierPlans, decoded, read_record, write_record

PLAN, DATA, METRICS, PLANS = "plan.toml", "data.json", "metrics.jsonl", "plans.json"
CHAIN = "chain"


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The checked history of a run folder: earlier plans, one line per round, and the chain's digests h_0, h_1, ...

    torn: bytes after the last whole line, as a kill leaves them.
    """

    plan: Plan
    earlier: tuple[Earlier, ...]
    lines: list[RoundLine]
    heads: list[str]
    torn: bytes


def plan_at(plan: Plan, earlier: Sequence[Earlier], t: int) -> Plan:
    """Return the plan that round t was, or will be, trained under: only `rounds` differs from the one in force."""
    rounds = next((stretch.rounds for stretch in earlier if t < stretch.until), plan.rounds)
    return plan if rounds == plan.rounds else replace(plan, rounds=rounds)


@lru_cache(maxsize=64)
def plan_digest(plan: Plan) -> str:
    """Return the digest of a plan in which 1 and 1.0 are one number, as they are after a file was read."""
    return files.digest(json.loads(json.dumps(codec.encode(plan)), parse_int=float))


def link(head: str, plan: Plan, line: Record) -> str:
    """Return the chain's digest after one more line."""
    return files.digest([head, plan_digest(plan), {key: value for key, value in line.items() if key != CHAIN}])


def linked(head: str, plan: Plan, line: RoundLine) -> RoundLine:
    """Return a line with its place in the chain."""
    return replace(line, chain=link(head, plan, line.plain()))


def read_history(folder: Path, plan: Plan) -> History:
    """Read and check what a folder says was done; `plan` is the plan in force."""
    data, earlier = read_data(folder), read_earlier(folder)
    begun = replace(plan, rounds=earlier[0].rounds) if earlier else plan
    if plan_digest(begun) != data.plan:
        raise BadInput(
            f"{str(folder / PLAN)!r}: is not the plan that this run began with; a run cannot be resumed with another "
            "plan (for more rounds restore the file and add --rounds to --resume)"
        )
    texts, torn = _split(files.read(folder / METRICS) if files.exists(folder / METRICS) else b"")
    lines, heads = [], [files.digest(codec.record(data))]
    for t, text in enumerate(texts):
        record = _parsed(folder, t, text)
        heads.append(link(heads[-1], plan_at(plan, earlier, t), record))
        if record.get(CHAIN) != heads[-1]:
            raise BadInput(
                f"{_where(folder, t)}: does not follow from the plan and the lines before it; metrics.jsonl or "
                "plan.toml was damaged or edited"
            )
        lines.append(decoded(RoundLine, record, _where(folder, t)))
    return History(plan, earlier, lines, heads, torn)


def _split(content: bytes) -> tuple[list[bytes], bytes]:
    *lines, rest = content.split(b"\n")
    return lines, rest


def _where(folder: Path, t: int) -> str:
    return f"{str(folder / METRICS)!r}, line {t + 1}"


def _parsed(folder: Path, t: int, text: bytes) -> Record:
    """Parse a line without decoding it: its digest is that of the JSON as written."""
    record = files.parsed(text, _where(folder, t))
    if record.get("round") != t:
        raise BadInput(f"{_where(folder, t)}: is of round {quoted(record.get('round'))} where {t} is expected")
    return record


def read_metrics(folder: Path) -> list[RoundLine]:
    """Read the complete lines without checking the chain, for those who follow a run while it trains."""
    path = folder / METRICS
    texts, _ = _split(files.read(path) if files.exists(path) else b"")
    return [decoded(RoundLine, _parsed(folder, t, text), _where(folder, t)) for t, text in enumerate(texts)]


def append_metrics(folder: Path, line: RoundLine) -> None:
    """Add one round's line, on disk when this returns."""
    files.append(folder / METRICS, _text(line))


def complete(folder: Path, history: History, missing: RoundLine | None) -> None:
    """Add the line that a kill kept from being written; the checkpoint of its round holds it."""
    text = b"" if missing is None else _text(missing)
    if not text.startswith(history.torn):
        raise BadInput(f"{str(folder / METRICS)!r}: ends in a torn line that belongs to no round")
    if text:
        files.append(folder / METRICS, text[len(history.torn) :])


def _text(line: RoundLine) -> bytes:
    return (json.dumps(line.plain(), allow_nan=False) + "\n").encode()


def read_data(folder: Path) -> DataRecord:
    """Read what a run was trained on."""
    path = folder / DATA
    if "plan" not in (content := files.read_json(path)) and "sha256" in content:
        raise BadInput(
            f"{str(folder)!r}: was written by gradveil 0.1, which did not bind what was trained to its plan; "
            "train it again"
        )
    return read_record(path, DataRecord)


def read_earlier(folder: Path) -> tuple[Earlier, ...]:
    """Read under how many planned rounds earlier stretches were trained."""
    path = folder / PLANS
    return read_record(path, EarlierPlans).earlier if files.exists(path) else ()


def write_earlier(folder: Path, earlier: Sequence[Earlier]) -> None:
    """Write under how many planned rounds earlier stretches were trained."""
    write_record(folder / PLANS, EarlierPlans(tuple(earlier)))
