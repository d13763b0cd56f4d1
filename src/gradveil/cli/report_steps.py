"""What `gradveil report` does: write a page about one or several runs, and the privacy card of each."""

from pathlib import Path

import typer

from gradveil import pipeline
from gradveil.cli.output import emit_json
from gradveil.reports import evidence


def execute(runs: list[Path], out: Path | None, show_truth: bool, as_json: bool) -> None:
    """Write the page of some run folders, or of all runs in a folder, and say where it is."""
    folders = [folder for path in runs for folder in evidence.folders_in(path)]
    path = out or (runs[0] if len(runs) == 1 else Path()) / pipeline.REPORT
    written = pipeline.report(folders, path, show_truth)
    if as_json:
        return emit_json({"report": str(written), "runs": [str(f) for f in folders], "bytes": written.stat().st_size})
    typer.echo(f"report: {written}")
