"""What `gradveil report` does: write a page about one or several runs, and the privacy card of each."""

from pathlib import Path

import typer

from gradveil import pipeline
from gradveil.cli.output import emit_json
from gradveil.reports import evidence, pdf


def execute(runs: list[Path], out: Path | None, show_truth: bool, as_pdf: bool, as_json: bool) -> None:
    """Write the page of some run folders, or of all runs in a folder, and say where it is."""
    if as_pdf:
        pdf.browser()  # refused before anything is written
    folders = [folder for path in runs for folder in evidence.folders_in(path)]
    path = out or (runs[0] if len(runs) == 1 else Path()) / pipeline.REPORT
    written = pipeline.report(folders, path, show_truth)
    printed = _printed(written) if as_pdf else None
    if as_json:
        answer = {"report": str(written), "runs": [str(f) for f in folders], "bytes": written.stat().st_size}
        return emit_json(answer | ({} if printed is None else {"pdf": str(printed)}))
    typer.echo(f"report: {written}")
    if printed is not None:
        typer.echo(f"PDF: {printed}")


def _printed(page: Path) -> Path:
    """Print a page beside itself; who may not read the page may not read its print."""
    return pdf.print_page(page, page.with_suffix(".pdf"), owner_only=page.stat().st_mode & 0o077 == 0)
