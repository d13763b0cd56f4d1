"""`gradveil table`: the paper's tables, published values beside ours."""

import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table as RichTable
from rich.text import Text

from gradveil.cli.output import bar, console, emit_json
from gradveil.data.dataset import Dataset
from gradveil.data.sources import load
from gradveil.errors import BadInput
from gradveil.fields import whole
from gradveil.names import pick
from gradveil.reports import results
from gradveil.reports import tables as written
from gradveil.reports.exhibits import gallery_of
from gradveil.reproduction import claims
from gradveil.reproduction.attack_figures import FIGURES
from gradveil.reproduction.cell import REASONS, Filled, Table, Verdict, counts
from gradveil.reproduction.driver import HOUR, Driver
from gradveil.reproduction.job_cache import Shelf
from gradveil.reproduction.scale import SCALES, Scale
from gradveil.reproduction.stand_in import stand_in
from gradveil.reproduction.table_catalog import TABLES
from gradveil.reproduction.workshop import Workshop
from gradveil.runs import store

Opt = typer.Option
MOST_SEEDS = 1000
COLOURS = {Verdict.AGREES: "green", Verdict.DIFFERS: "red", Verdict.NOT_COMPARABLE: "dim"}


def table(
    name: Annotated[str, typer.Argument(help="A name from `gradveil list tables`, or all.")],
    scale: Annotated[str, Opt(help="smoke (seconds), desk (an hour on two cores) or paper.")] = "desk",
    seeds: Annotated[int, Opt(help="Repeats of everything that draws; the table shows mean and spread.")] = 1,
    minutes: Annotated[
        float | None, Opt(help="Time to compute for, instead of the scale's; 0 shows what was computed before.")
    ] = None,
    data_dir: Annotated[Path | None, Opt(help="Folder to look for datasets in first.")] = None,
    out: Annotated[Path, Opt(help="Folder for the tables and the records behind them.")] = Path("runs/tables"),
    as_json: Annotated[bool, Opt("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Reproduce tables of the paper, the published value beside ours.

    Records are kept under --out by the hash of their plan: an interrupted table goes on where it stood, and cells that
    tables share are computed once.
    """
    chosen = pick("scale", scale, SCALES)
    names = list(TABLES) if name == "all" else [name]
    for one in names:
        pick("table", one, TABLES)
    whole("seeds", seeds, most=MOST_SEEDS)
    chosen = _limited(chosen, minutes, names)
    shelf = Shelf(out)
    shelf.open()
    laid = {one: TABLES[one][0](chosen) for one in names}
    filled, driver = _fill(laid, chosen, seeds, shelf, Finder(data_dir, chosen.stands_in))
    if name == "all":
        pages = [(one, laid[one].title, cells, laid[one].notes) for one, cells in filled.items()]
        page = results.results([*pages, *_at_paper_scale(driver, seeds)], _facts(chosen, seeds))
        store.write(out / chosen.name / "results.md", page.encode())
    if as_json:
        emit_json({one: written.plain(cells) for one, cells in filled.items()})
    else:
        _show(filled, laid, out / chosen.name)
    if driver.lacking:
        raise BadInput("; ".join(driver.lacking.values()))


def _limited(scale: Scale, minutes: float | None, names: list[str]) -> Scale:
    """Return all tables that many minutes together; a single one has them to itself."""
    if minutes is None:
        return scale
    if not minutes >= 0:
        raise BadInput(f"minutes = {minutes:g}: must not be negative")
    share = TABLES[names[0]][0](scale).minutes / HOUR if len(names) == 1 else 1.0
    return replace(scale, minutes=minutes / share if share else minutes)


@dataclass(slots=True)
class Finder:
    """Finds datasets by name, once each; a missing one is stood in for if the scale allows it."""

    folder: Path | None
    stands_in: bool
    found: dict[str, Dataset | BadInput] = field(default_factory=dict)

    def __call__(self, name: str) -> Dataset:
        """Return a dataset; raises BadInput where there is none."""
        if name not in self.found:
            self.found[name] = self._find(name)
        found = self.found[name]
        if isinstance(found, BadInput):
            raise found
        return found

    def _find(self, name: str) -> Dataset | BadInput:
        """Look once: a search for what is not there takes its time."""
        try:
            return load(name, data_dir=self.folder, allow_download=not self.stands_in)
        except BadInput as error:
            return stand_in(name) if self.stands_in else error


def _fill(
    laid: dict[str, Table], scale: Scale, seeds: int, shelf: Shelf, data: Finder
) -> tuple[dict[str, list[Filled]], Driver]:
    """Fill the tables in order, each written as soon as it is full.

    The claims are judged by the cells of other tables, which are filled for them if they were not asked for.
    """
    wanted = [one for one in laid.values() if one.name != "claims"] or [TABLES[n][0](scale) for n in claims.NEEDS]
    filled = {}
    with bar("tables", sum(len(one.cells) for one in wanted), 0) as advance:
        workshop = Workshop(shelf, data, tell=lambda note: advance(note, 0), draw=gallery_of)
        driver = Driver(workshop, scale, seeds)
        for one in wanted:
            filled[one.name] = driver.fill(one, partial(_advance, advance, one.name))
            _write(shelf.folder / scale.name, one, filled[one.name])
            _show_pictures(shelf.folder / scale.name, one.name, filled[one.name], driver)
    if "claims" in laid:
        filled["claims"] = claims.judged(filled, None if scale.name == "paper" else "smaller")
        _write(shelf.folder / scale.name, laid["claims"], filled["claims"])
    return {name: filled[name] for name in laid}, driver


def _advance(advance: Callable[[str], None], name: str, text: str) -> None:
    advance(f"{name}: {text}")


def _at_paper_scale(driver: Driver, seeds: int) -> list[tuple[str, str, list[Filled], tuple[str, ...]]]:
    """Add what was already run as the paper does; none of it is run for the page."""
    paper = SCALES["paper"]
    if driver.scale.name != "desk":
        return []
    table = TABLES["noise-scale"][0](paper)
    shelved = Driver(driver.workshop, paper, seeds).shelved(table)
    return [(f"{table.name} at paper scale", table.title, shelved, table.notes)] if shelved else []


def _write(folder: Path, laid: Table, cells: list[Filled]) -> None:
    """Write a table in all formats."""
    texts = {
        "md": results.markdown(laid.title, cells, laid.notes),
        "csv": written.csv(cells),
        "tex": written.latex(laid.title, cells, laid.notes),
    }
    for ending, text in texts.items():
        store.write(folder / f"{laid.name}.{ending}", text.encode())
    store.write_json(folder / f"{laid.name}.json", {laid.name: written.plain(cells)})


def _show_pictures(folder: Path, name: str, cells: list[Filled], driver: Driver) -> None:
    """Copy the pictures behind the cells of a figure to where they can be found by name."""
    if name not in FIGURES:
        return
    for filled in cells:
        picture = None if filled.cell.work is None else driver.picture(filled.cell.work)
        if picture is not None:
            label = "-".join((*filled.cell.row, *filled.cell.column)).replace(" ", "-")
            store.write(folder / name / f"{label}.png", picture.read_bytes())


def _facts(scale: Scale, seeds: int) -> dict[str, str]:
    environment = store.environment()
    versions = ", ".join(f"{name} {number}" for name, number in environment.packages.items())
    return {
        "date": date.today().isoformat(),
        "machine": f"{environment.system} {environment.machine}, devices {', '.join(environment.devices)}",
        "versions": f"Python {environment.python}, {versions}",
        "scale": f"{scale.name}: {SCALES[scale.name].described()}",
        "seeds": f"{seeds}, and three for what is trained as the paper does",
        "records": "of this call and of earlier ones that were given the same folder",
    }


def _show(filled: dict[str, list[Filled]], laid: dict[str, Table], folder: Path) -> None:
    for name, cells in filled.items():
        _show_one(laid[name].title, cells)
        for note in laid[name].notes:
            typer.echo(f"  {note}")
        typer.echo("  " + ", ".join(f"{n} {verdict}" for verdict, n in counts(cells).items()))
        for reason, n in Counter(f.reason for f in cells if f.reason).items():
            typer.echo(f"  {n} not compared: {REASONS.get(reason, reason)}")
    typer.echo(f"written to {folder} as md, csv, json and tex", err=not sys.stdout.isatty())


def _show_one(title: str, cells: list[Filled]) -> None:
    grid = written.grid(cells)
    drawn = RichTable("", *(" / ".join(head) for head in grid.heads), title=title, title_justify="left")
    for row in grid.rows:
        drawn.add_row(" / ".join(row), *(_text(grid.at.get((row, head))) for head in grid.heads))
    console().print(drawn)


def _text(cell: Any) -> Text:
    return Text("") if cell is None else Text(written.shown(cell), style=COLOURS[cell.verdict])
