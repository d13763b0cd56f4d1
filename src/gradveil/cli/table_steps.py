"""What `gradveil table` does: fill the paper's tables, published values next to ours, and write them."""

import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from pathlib import Path

import typer
from rich.text import Text

from gradveil.cli.output import bar, draw, emit_json, say
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.fields import whole
from gradveil.names import pick
from gradveil.reports.exhibits import gallery_of
from gradveil.reproduction import claims, sound_page
from gradveil.reproduction.attack_tables import FIGURES
from gradveil.reproduction.audited import AuditRecords, short_section
from gradveil.reproduction.cell import REASONS, Agreement, FilledCell, Table, counts
from gradveil.reproduction.committed import CommittedRecords, recorded_facts
from gradveil.reproduction.driver import HOUR, Driver, cached_at_paper_scale
from gradveil.reproduction.executor import Executor
from gradveil.reproduction.job_cache import JobCache
from gradveil.reproduction.results_page import Section, markdown, results
from gradveil.reproduction.scale import SCALES, Scale
from gradveil.reproduction.sound_records import SoundRecords
from gradveil.reproduction.stand_ins import DatasetFinder
from gradveil.reproduction.table_names import TABLES, lay_out
from gradveil.reproduction.table_text import cell_records, cell_text, csv_text, grid, latex_text
from gradveil.runs import store
from gradveil.runs.presets import PRESETS

MOST_SEEDS = 1000
COLORS = {Agreement.AGREES: "green", Agreement.DIFFERS: "red", Agreement.NOT_COMPARABLE: "dim"}


@dataclass(frozen=True, slots=True)
class TableRequest:
    """The options of `gradveil table`; datasets: those that may be run, None for all; docs: where the page goes."""

    name: str
    scale: str
    seeds: int
    minutes: float | None
    data_dir: Path | None
    datasets: tuple[str, ...] | None
    docs: Path | None
    out: Path
    records: Path
    as_json: bool


def execute(request: TableRequest) -> None:
    """Fill tables, write them in all formats, and show them; with `docs`, only write their page from the records."""
    if request.docs is not None:
        return _write_page(request, request.docs)
    chosen, names = _checked(request)
    cache = JobCache(request.out)
    cache.open()
    tables = {name: lay_out(name, chosen) for name in names}
    filled, driver = _fill(tables, chosen, request, cache)
    if request.name == "all":
        page = results(_sections(tables, filled, driver), _facts(chosen, driver))
        store.write(request.out / chosen.name / "results.md", page.encode())
    if request.as_json:
        emit_json({name: cell_records(cells) for name, cells in filled.items()})
    else:
        _show(filled, tables, request.out / chosen.name)
    if driver.lacking:
        raise BadInput("; ".join(driver.lacking.values()))


def _write_page(request: TableRequest, docs: Path) -> None:
    """Write the page of all results from the committed records alone: no cache, no data.

    It has accuracy at sound epsilons and audits where there are records of them, then the paper's tables at its size.
    """
    with tempfile.TemporaryDirectory() as folder:
        alone = replace(request, scale="paper", minutes=0.0, out=Path(folder))
        chosen, names = _checked(alone)
        tables = {name: lay_out(name, chosen) for name in names}
        filled, driver = _fill(tables, chosen, alone, JobCache(alone.out))
        page = results(_sections(tables, filled, driver), _facts(chosen, driver), _opening(request.records))
    store.write(docs / "results.md", page.encode())
    say(f"written: {docs / 'results.md'}")


def _opening(records: Path) -> list[str]:
    """Return the sections that go beyond the paper, of what has records."""
    accuracies, audits = SoundRecords(records).read(), AuditRecords(records).read()
    return [*([sound_page.section(accuracies)] if accuracies else []), *([short_section(audits)] if audits else [])]


def _no_data(name: str) -> Dataset:
    raise BadInput(f"records = holds no record of {name}, so that its cells cannot be found without the data")


def _checked(request: TableRequest) -> tuple[Scale, list[str]]:
    """Return the scale with its minutes, and the names of the tables."""
    chosen = pick("scale", request.scale, SCALES)
    names = list(TABLES) if request.name == "all" else [request.name]
    for name in names:
        pick("table", name, TABLES)
    for dataset in request.datasets or ():
        pick("datasets", dataset, PRESETS)
    whole("seeds", request.seeds, most=MOST_SEEDS)
    return _limited(chosen, request.minutes, names), names


def _limited(scale: Scale, minutes: float | None, names: list[str]) -> Scale:
    """Allow all tables that many minutes together; a single one has them to itself."""
    if minutes is None:
        return scale
    if not minutes >= 0:
        raise BadInput(f"minutes = {minutes:g}: must not be negative")
    part = lay_out(names[0], scale).minutes / HOUR if len(names) == 1 else 1.0
    return replace(scale, minutes=minutes / part if part else minutes)


def _fill(
    tables: dict[str, Table], scale: Scale, request: TableRequest, cache: JobCache
) -> tuple[dict[str, list[FilledCell]], Driver]:
    """Fill the tables in order, each written as soon as it is full.

    The claims are judged by the cells of other tables, which are filled for them if they were not asked for.
    """
    needed = [table for table in tables.values() if table.name != "claims"] or [lay_out(n, scale) for n in claims.NEEDS]
    filled, folder = {}, cache.folder / scale.name
    with bar("tables", sum(len(table.cells) for table in needed), 0) as advance:
        driver = Driver(
            Executor(
                cache,
                DatasetFinder(request.data_dir, scale.stands_in) if request.docs is None else _no_data,
                progress=lambda note: advance(note, 0),
                draw=gallery_of,
                committed=CommittedRecords(request.records),
                commits=scale.name == "paper",
            ),
            scale,
            request.seeds,
            datasets=request.datasets,
        )
        for table in needed:
            filled[table.name] = driver.fill(table, partial(_advance, advance, table.name))
            _write(folder, table, filled[table.name])
            _write_pictures(folder, table.name, filled[table.name], driver)
    if "claims" in tables:
        filled["claims"] = claims.judged(filled, None if scale.name == "paper" else "smaller")
        _write(folder, tables["claims"], filled["claims"])
    return {name: filled[name] for name in tables}, driver


def _advance(advance: Callable[[str], None], name: str, text: str) -> None:
    advance(f"{name}: {text}")


def _sections(tables: dict[str, Table], filled: dict[str, list[FilledCell]], driver: Driver) -> list[Section]:
    """Return every table for the page of all; at desk scale also what was already run as the paper does."""
    sections = [Section(name, tables[name].title, cells, tables[name].notes) for name, cells in filled.items()]
    if driver.scale.name == "desk":
        table, cells = cached_at_paper_scale(driver.executor, driver.seeds)
        sections += [Section(f"{table.name} at paper scale", table.title, cells, table.notes)] if cells else []
    return sections


def _write(folder: Path, table: Table, cells: list[FilledCell]) -> None:
    """Write a table in all formats."""
    texts = {
        "md": markdown(table.title, cells, table.notes),
        "csv": csv_text(cells),
        "tex": latex_text(table.title, cells, table.notes),
    }
    for ending, text in texts.items():
        store.write(folder / f"{table.name}.{ending}", text.encode())
    store.write_json(folder / f"{table.name}.json", {table.name: cell_records(cells)})


def _write_pictures(folder: Path, name: str, cells: list[FilledCell], driver: Driver) -> None:
    """Copy the pictures behind the cells of a figure to where they can be found by name."""
    if name not in FIGURES:
        return
    for filled in cells:
        picture = None if filled.cell.job is None else driver.picture(filled.cell.job)
        if picture is not None:
            label = "-".join((*filled.cell.row, *filled.cell.column)).replace(" ", "-")
            store.write(folder / name / f"{label}.png", picture.read_bytes())


def _facts(scale: Scale, driver: Driver) -> dict[str, str]:
    """Say what the page rests on: at the paper's size the committed records, else this machine."""
    facts = {"scale": f"{scale.name}: {SCALES[scale.name].described()}"}
    if scale.name == "paper" and driver.executor.committed is not None:
        return {**facts, **recorded_facts(driver.executor.committed, PRESETS)}
    environment = store.environment()
    versions = ", ".join(f"{name} {number}" for name, number in environment.packages.items())
    return {
        "date": date.today().isoformat(),
        "machine": f"{environment.system} {environment.machine}, devices {', '.join(environment.devices)}",
        "versions": f"Python {environment.python}, {versions}",
        **facts,
        "seeds": f"{driver.seeds}; at least three for training at the paper's size",
        "records": "of this call, and cached ones of earlier calls with the same folder",
    }


def _show(filled: dict[str, list[FilledCell]], tables: dict[str, Table], folder: Path) -> None:
    for name, cells in filled.items():
        _show_table(tables[name].title, cells)
        for note in tables[name].notes:
            say(note, "  ")
        say(", ".join(f"{n} {agreement}" for agreement, n in counts(cells).items()), "  ")
        for reason, n in Counter(f.reason for f in cells if f.reason).items():
            say(f"{n} not compared: {REASONS.get(reason, reason)}", "  ")
    typer.echo(f"written to {folder} as md, csv, json and tex", err=not sys.stdout.isatty())


def _show_table(title: str, cells: list[FilledCell]) -> None:
    laid = grid(cells)
    rows = [[Text(" / ".join(row)), *(_text(laid.at.get((row, head))) for head in laid.heads)] for row in laid.rows]
    draw(title, ["", *(" / ".join(head) for head in laid.heads)], rows)


def _text(filled: FilledCell | None) -> Text:
    return Text("") if filled is None else Text(cell_text(filled), style=COLORS[filled.agreement])
