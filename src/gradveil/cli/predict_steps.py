"""What `gradveil predict` does: read new examples block by block, and write the class of each and all probabilities."""

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from gradveil.cli.output import bar, emit_json
from gradveil.errors import BadInput
from gradveil.inference.new_examples import read_new
from gradveil.inference.trained import BLOCK, Trained, read_trained
from gradveil.runs import store


def execute(run: Path, new: Path, out: Path | None, as_json: bool) -> None:
    """Predict all examples of a file; with --json, say what was written."""
    if as_json and out is None:
        raise BadInput("--json: needs --out, since the predictions would stand on standard output too")
    model = read_trained(run)
    number = model.encoding.target_range is not None
    counts: Counter[str] = Counter({} if number else {name: 0 for name in model.classes})
    text = "".join((_numbers if number else _lines)(model, new, counts))
    if out is None:
        sys.stdout.write(text)
        return
    store.write(out, text.encode())
    if as_json:
        predictions = {} if number else {"predictions": dict(counts)}
        emit_json({"out": str(out), "rows": sum(counts.values())} | predictions)


def _lines(model: Trained, new: Path, counts: "Counter[str]") -> Iterator[str]:
    """Yield the CSV, the head first and then block by block; counts what was predicted."""
    examples = read_new(new, model.encoding, model.plan.client_column)
    yield _csv([["prediction", *(f"p_{name}" for name in model.classes)]])
    with bar("predicting", len(examples), 0) as advance:
        for at in range(0, len(examples), BLOCK):
            probabilities = model.predict_proba(examples[at : at + BLOCK])
            names = [model.classes[number] for number in probabilities.argmax(axis=1)]
            counts.update(names)
            yield _csv([[name, *(f"{p:.6g}" for p in row)] for name, row in zip(names, probabilities, strict=True)])
            advance("", len(names))


def _numbers(model: Trained, new: Path, counts: "Counter[str]") -> Iterator[str]:
    """Yield the CSV of predicted numbers; counts the rows."""
    examples = read_new(new, model.encoding, model.plan.client_column)
    yield _csv([["prediction"]])
    with bar("predicting", len(examples), 0) as advance:
        for at in range(0, len(examples), BLOCK):
            values = model.predict(examples[at : at + BLOCK])
            counts["rows"] += len(values)
            yield _csv([[f"{value:.9g}"] for value in values])
            advance("", len(values))


def _csv(rows: list[list[str]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
