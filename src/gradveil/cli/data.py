"""`gradveil data`: which datasets there are and where, whether files are the published ones, how a table is read."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gradveil.cli.options import AsJson, DataDir, Target
from gradveil.cli.output import emit_json, table
from gradveil.errors import RunFailed

if TYPE_CHECKING:
    from gradveil.data.sources import Check

app = typer.Typer(
    help="List, download and verify datasets; show how a table of yours is read.",
    no_args_is_help=True,
    add_completion=False,
)

Names = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names of datasets.", show_default="all")]


@app.command("list")
def list_datasets(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the built-in datasets: contents, origin, license and size."""
    from gradveil.data import sources

    listed = sources.describe()
    available = {source.name: sources.where(source.name, data_dir) is not None for source in listed}
    keys = ("name", "meaning", "origin", "caution", "size")
    answer = [{key: getattr(source, key) for key in keys} | {"here": available[source.name]} for source in listed]
    rows = [
        [
            source.name,
            f"{source.meaning}\nfrom: {source.origin}; license: {source.caution}",
            source.size,
            "yes" if available[source.name] else "no",
        ]
        for source in listed
    ]
    _show(as_json, {"datasets": answer}, ["name", "meaning", "size", "downloaded"], rows)


File = Annotated[Path, typer.Argument(metavar="FILE", help="A table of your own: .csv, .parquet or .arrow.")]


@app.command()
def show(file: File, target: Target = None, as_json: AsJson = False) -> None:
    """Show how each column of your table is read, and how many features it costs; prints private values."""
    from gradveil.cli import data_steps

    data_steps.show(file, target, as_json)


@app.command()
def schema(file: File, target: Target = None) -> None:
    """Draft a schema of your table as TOML; values taken from the private rows are marked. Edit them, then run."""
    from gradveil.cli import data_steps

    data_steps.schema(file, target)


@app.command()
def fetch(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of datasets to download.")],
    data_dir: Annotated[Path | None, typer.Option(help="Folder to download into.", show_default="the cache")] = None,
    as_json: AsJson = False,
) -> None:
    """Download datasets; each file is checked against its published digest."""
    from gradveil.data import sources

    for name in names:
        sources.named(name)
    folders = {name: str(sources.fetch(name, data_dir)) for name in names}
    _show(as_json, {"fetched": folders}, ["name", "folder"], [[*item] for item in folders.items()])


@app.command()
def where(names: Names = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Show the folder that each dataset is read from."""
    from gradveil.data import sources

    paths = {name: sources.where(name, data_dir) for name in _chosen(names)}
    folders = {name: None if path is None else str(path) for name, path in paths.items()}
    rows = [[name, folder or "not downloaded yet"] for name, folder in folders.items()]
    _show(as_json, {"places": folders}, ["name", "folder"], rows)


@app.command()
def verify(names: Names = None, data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Check every local file against its published digest; exit 1 if one differs."""
    from gradveil.data import sources

    checks = {name: sources.verify(name, data_dir) for name in _chosen(names)}
    states = {name: _state(files) for name, files in checks.items()}
    answer = {
        "ok": "differs" not in states.values(),
        "datasets": {
            name: {"state": states[name], "files": [asdict(check) for check in files]} for name, files in checks.items()
        },
    }
    rows = [[name, check.file, _state([check])] for name, files in checks.items() for check in files]
    rows += [[name, "none: comes with a package", "ships"] for name, files in checks.items() if not files]
    _show(as_json, answer, ["name", "file", "state"], rows)
    wrong = [check for files in checks.values() for check in files if check.actual is not None and not check.ok]
    if wrong:
        raise RunFailed(
            f"{wrong[0].file} is not the published file: its digest is {wrong[0].actual} where {wrong[0].expected} is "
            "expected" + (f" (and {len(wrong) - 1} more files differ)" if len(wrong) > 1 else "")
        )


def _chosen(names: list[str] | None) -> list[str]:
    from gradveil.data import sources

    return [sources.named(name).name for name in names or [source.name for source in sources.describe()]]


def _state(checks: "list[Check]") -> str:
    if not checks:
        return "ships"
    if any(check.actual is not None and not check.ok for check in checks):
        return "differs"
    if all(check.ok for check in checks):
        return "ok"
    return "absent" if all(check.actual is None for check in checks) else "incomplete"


def _show(as_json: bool, answer: dict[str, Any], titles: list[str], rows: list[list[str]]) -> None:
    """Print the answer on standard output: as one strict JSON object, or its rows as a table."""
    if as_json:
        emit_json(answer)
    else:
        table(None, titles, rows)
