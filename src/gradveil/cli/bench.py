"""`gradveil bench`: how long a local step takes here, beside what else could take it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gradveil.cli.output import emit_json, table
from gradveil.experiments.bench import PEERS_PYTHON, measure

Opt = typer.Option


def bench(
    peers: Annotated[bool, Opt("--peers", help="Time Opacus and the bare matrix products in the same run.")] = False,
    peers_python: Annotated[Path, Opt(help="The Python that has Opacus.", hidden=True)] = PEERS_PYTHON,
    as_json: Annotated[bool, Opt("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Time one local step of Fed-alphaCDP on this machine: batch 5, the paper's MNIST network, all cores.

    The median of five runs taken in turn with everything that it is compared with.
    """
    figures = measure(peers_python if peers else None)
    if as_json:
        return emit_json(figures)
    _show(figures)


def _show(figures: dict[str, Any]) -> None:
    names = {
        "ours": "gradveil, Fed-alphaCDP",
        "nonprivate": "gradveil, not private",
        "opacus": f"Opacus, per layer ({figures['opacus_threads']} threads)",
        "floor": "only the matrix products",
    }
    timed = [(label, figures[f"{name}_ms"]) for name, label in names.items() if figures[f"{name}_ms"] is not None]
    rows = [[label, f"{ms:.2f}", f"{ms / figures['ours_ms']:.2f}"] for label, ms in timed]
    table("One local step of a client, all cores at work", ["", "milliseconds", "times gradveil"], rows)
    typer.echo(f"{figures['devices']} devices; the first use compiled for {figures['compile_seconds']:.1f} s.")
