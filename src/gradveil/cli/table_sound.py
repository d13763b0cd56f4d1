"""What `gradveil table sound` does: run what is missing among the records, then show them or write the page."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import typer

from gradveil import codec
from gradveil.cli.output import emit_json, say, table
from gradveil.data import sources
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.fields import whole
from gradveil.names import pick
from gradveil.reports.sound_figure import figure_text
from gradveil.reproduction.sound_cells import DATASETS, SEEDS
from gradveil.reproduction.sound_page import LIST_HEADS, listed, page
from gradveil.reproduction.sound_records import SoundRecords
from gradveil.reproduction.sound_runs import SoundDriver
from gradveil.runs import store

MOST_SEEDS = 1000


@dataclass(frozen=True, slots=True)
class SoundRequest:
    """The options of `gradveil table sound`: datasets with commas, None for all; docs: where the page is written."""

    datasets: str | None
    seeds: int | None
    minutes: float | None
    data_dir: Path | None
    out: Path
    docs: Path | None
    as_json: bool


def execute(request: SoundRequest) -> None:
    """Fill the table and show it; with `docs`, only write its page and its figure."""
    datasets, records = _named(request.datasets), SoundRecords(request.out)
    if request.docs is not None:
        return _write(request.docs, records)
    driver = _driver(request, records)
    driver.fill(datasets)
    rows = [record for record in records.read() if record.dataset in datasets]
    if request.as_json:
        emit_json({"sound": [codec.record(record) for record in rows], "lacking": list(driver.lacking.values())})
    else:
        table("Test accuracy at an epsilon that holds", list(LIST_HEADS), listed(rows, datasets))
        say("fed-alpha-cdp and its kin have no finite epsilon; docs/sound.md has the paper's figures beside these")
        say(f"records: {records.path}")
    if driver.lacking and request.datasets is not None:
        raise BadInput("; ".join(driver.lacking.values()))
    for name, sentence in driver.lacking.items():
        typer.echo(f"gradveil: {name} is left out: {sentence}", err=True)


def _driver(request: SoundRequest, records: SoundRecords) -> SoundDriver:
    """Check the options that say how much is run, and that records can be written before the first takes its time."""
    seeds = SEEDS if request.seeds is None else request.seeds
    whole("seeds", seeds, most=MOST_SEEDS)
    if request.minutes is not None and not request.minutes >= 0:
        raise BadInput(f"minutes = {request.minutes:g}: must not be negative")
    records.write(records.read())

    @lru_cache(maxsize=1)
    def load(name: str, train_all: bool = False) -> Dataset:
        return sources.load(name, data_dir=request.data_dir, train_all=train_all)

    return SoundDriver(records, load, seeds, request.minutes, lambda note: typer.echo(note, err=True))


def _named(datasets: str | None) -> list[str]:
    names = list(DATASETS) if datasets is None else [name.strip() for name in datasets.split(",")]
    for name in names:
        pick("datasets", name, {known: known for known in DATASETS})
    return names


def _write(folder: Path, records: SoundRecords) -> None:
    """Write the page and the figure of all records."""
    rows = records.read()
    if not rows:
        raise BadInput(f"out = {str(records.folder)!r}: holds no {records.path.name} with a record")
    store.write(folder / "sound.md", page(rows).encode())
    store.write(folder / "sound.svg", figure_text(rows).encode())
    say(f"written: {folder / 'sound.md'}, {folder / 'sound.svg'}")
