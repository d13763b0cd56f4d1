"""`gradveil bench`: how fast a local step and an attack are here, compared with Opacus and PyTorch."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from gradveil.cli.options import AsJson
from gradveil.cli.output import emit_json, table
from gradveil.errors import BadInput

Opt = typer.Option
CHECKOUT = Path(__file__).resolve().parents[3]
PEERS_PYTHON = CHECKOUT / ".venv-peers" / "bin" / "python"


def bench(
    peers: Annotated[
        bool, Opt("--peers", help="Also time Opacus, the matrix products alone and an attack in PyTorch.")
    ] = False,
    peers_python: Annotated[Path, Opt(help="The Python that has Opacus and PyTorch.", hidden=True)] = PEERS_PYTHON,
    as_json: AsJson = False,
) -> None:
    """Measure the speed of a local step and of an attack on this machine.

    Step: Fed-alphaCDP, batch 5, the paper's MNIST network, median of five runs. Attack: CPL on single digits, an
    untrained network, no protection, median of three runs, against as many processes of PyTorch as there are cores.
    """
    python = peers_python if peers else None
    figures = _measures("local_step")(python) | _measures("attack_speed")(python)
    if as_json:
        return emit_json(figures)
    _show_steps(figures)
    _show_attacks(figures)


def _measures(script: str) -> Any:
    """Return `measure` of a module in benchmarks/, a folder of the repository that is not in the wheel."""
    if not (CHECKOUT / "benchmarks" / f"{script}.py").is_file():
        raise BadInput("bench: needs a checkout of gradveil's repository, whose benchmarks/ folder it runs")
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    return import_module(f"benchmarks.{script}").measure


def _show_steps(figures: dict[str, Any]) -> None:
    names = {
        "ours": "gradveil, Fed-alphaCDP",
        "nonprivate": "gradveil, not private",
        "opacus": f"Opacus, per layer ({figures['opacus_threads']} threads)",
        "floor": "matrix products alone",
    }
    timed = [(label, figures[f"{name}_ms"]) for name, label in names.items() if figures[f"{name}_ms"] is not None]
    rows = [[label, f"{ms:.2f}", f"{ms / figures['ours_ms']:.2f}"] for label, ms in timed]
    table("One local step of a client, all cores used", ["", "milliseconds", "relative to gradveil"], rows)
    typer.echo(f"{figures['devices']} devices; compiling took {figures['compile_seconds']:.1f} s.")


def _show_attacks(figures: dict[str, Any]) -> None:
    names = {
        "ours": "gradveil",
        "peer": f"PyTorch, as DLG does it ({figures['attack_peer_processes']} processes)",
    }
    tried = [(label, f"attack_{name}") for name, label in names.items() if figures[f"attack_{name}_vpm"] is not None]
    rows = [[label, *_row(key, figures)] for label, key in tried]
    title = (
        f"The CPL attack on {figures['attack_victims']} victims, {figures['attack_data']}, "
        f"{figures['attack_cores']} cores"
    )
    table(title, ["", "victims per minute and core", "success", "relative to gradveil"], rows)


def _row(key: str, figures: dict[str, Any]) -> list[str]:
    relative = figures[f"{key}_vpm"] / figures["attack_ours_vpm"]
    return [f"{figures[f'{key}_vpm_per_core']:.0f}", f"{figures[f'{key}_success']:.0%}", f"{relative:.2f}"]
