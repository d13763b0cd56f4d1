"""What `gradveil report` does: write a page about one or several runs, and the privacy card of each."""

from pathlib import Path

import typer

from gradveil.cli.output import emit_json
from gradveil.errors import BadInput
from gradveil.reports import card, evidence
from gradveil.reports.page import page
from gradveil.runs import store

REPORT = "report.html"


def execute(runs: list[Path], out: Path | None, show_truth: bool, as_json: bool) -> None:
    """Write the page of some run folders, or of all runs in a folder, and say where it is."""
    folders = [folder for path in runs for folder in evidence.folders_in(path)]
    place = out or (runs[0] if len(runs) == 1 else Path()) / REPORT
    written = write(folders, place, show_truth)
    if as_json:
        return emit_json({"report": str(written), "runs": [str(f) for f in folders], "bytes": written.stat().st_size})
    typer.echo(f"report: {written}")


def write(folders: list[Path], place: Path, show_truth: bool = False) -> Path:
    """Write the page of some runs, and the card of each."""
    gathered = [evidence.gather(folder) for folder in folders]
    if place.is_dir():
        raise BadInput(f"out = {str(place)!r}: is a folder; name a file such as report.html")
    for run in gathered:
        if show_truth and run.own and not any(one.exhibit for one in run.attacks):
            raise BadInput(f"show_truth: {str(run.folder)!r} holds no true record; attack it with --keep-truth first")
        card.write(run)
    hidden = any(run.own for run in gathered) and show_truth
    store.write(place, page(gathered, show_truth).encode(), owner_only=hidden)
    return place
