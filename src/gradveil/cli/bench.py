"""`gradveil bench`: how fast a local step and attacks are here, compared with Opacus and PyTorch."""

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from gradveil.cli.options import OUTPUT, SCOPE, AsJson
from gradveil.cli.output import emit_json, table
from gradveil.errors import BadInput

_scope = partial(typer.Option, rich_help_panel=SCOPE)
CHECKOUT = Path(__file__).resolve().parents[3]
PEERS_PYTHON = CHECKOUT / ".venv-peers" / "bin" / "python"


def bench(
    peers: Annotated[
        bool, _scope("--peers", help="Also time Opacus, the matrix products alone and attacks in PyTorch.")
    ] = False,
    datasets: Annotated[
        str,
        _scope(
            help="Datasets whose example shape and network a step is timed with, comma-separated.",
            show_default="all four",
        ),
    ] = "mnist,cifar10,lfw,adult",
    batches: Annotated[str, _scope(help="Batch sizes to time a step with, comma-separated.")] = "5,32,256",
    scaling: Annotated[
        bool,
        _scope("--scaling", help="Instead, measure how seconds and memory grow with clients, parameters and rows."),
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder for the figure of --scaling.", rich_help_panel=OUTPUT)] = Path(),
    peers_python: Annotated[
        Path, typer.Option(help="The Python that has Opacus and PyTorch.", hidden=True)
    ] = PEERS_PYTHON,
    as_json: AsJson = False,
) -> None:
    """Measure the speed of a local step and of attacks on this machine.

    Step: Fed-alphaCDP with the paper's networks on made-up data, median of five runs. Attacks: CPL, DLG and GradInv on
    single digits, an untrained network, no protection, median of three runs, against as many processes of PyTorch as
    there are cores.
    """
    if scaling:
        return _scaling(out, as_json)
    python, cases = peers_python if peers else None, _script("step_cases").chosen(datasets, batches)
    figures = _script("local_step").measure(python, cases=cases) | _script("attack_speed").measure(python)
    if as_json:
        return emit_json(figures)
    _show_steps(figures)
    _show_attacks(figures)


def _script(name: str) -> Any:
    """Return a module in benchmarks/, a folder of the repository that is not in the wheel."""
    if not (CHECKOUT / "benchmarks" / f"{name}.py").is_file():
        raise BadInput("bench: needs a checkout of gradveil's repository, whose benchmarks/ folder it runs")
    if str(CHECKOUT) not in sys.path:
        sys.path.insert(0, str(CHECKOUT))
    return import_module(f"benchmarks.{name}")


def _scaling(out: Path, as_json: bool) -> None:
    """Measure how cost grows; write scaling.svg into the folder."""
    if not out.is_dir():
        raise BadInput(f"out = {str(out)!r}: is not a folder")
    script, file = _script("scaling"), out / "scaling.svg"
    points = script.measure(lambda line: typer.echo(line, err=True))
    script.draw(points, file)
    if as_json:
        return emit_json({"points": points, "figure": str(file)})
    rows = [
        [
            script.TITLES[p["what"]],
            f"{p['size']:,}",
            f"{p['cpu_seconds']:.3f}",
            _or_dash(p["order"]),
            f"{p['megabytes']:.0f}",
        ]
        for p in points
    ]
    table("How cost grows", ["", "size", "processor seconds", "growth exponent", "MB at most"], rows)
    typer.echo(f"Figure: {file}")


def _show_steps(figures: dict[str, Any]) -> None:
    rows = figures["steps"]
    named = {"ours": "gradveil", "nonprivate": "not private", "opacus": "Opacus", "floor": "products"}
    times = [[_case(row), *(_or_dash(row[f"{name}_ms"]) for name in named)] for row in rows]
    table("Milliseconds of one local step of a client, all cores used", ["", *named.values()], times)
    pairs = {
        "ours_over_nonprivate": "gradveil / not private",
        "ours_over_floor": "gradveil / products",
        "opacus_over_ours": "Opacus / gradveil",
    }
    ratios = [[_case(row), *(f"{_or_dash(row[key])} ({_or_dash(row[f'{key}_cpu'])})" for key in pairs)] for row in rows]
    table("Ratios; in brackets those of processor time, which other work disturbs less", ["", *pairs.values()], ratios)
    ways = sorted({row["opacus_way"] for row in rows if row["opacus_way"]})
    if ways:
        typer.echo(f"Opacus is the fastest of its ways, here {'; '.join(ways)}.")
    typer.echo(f"{figures['devices']} devices; compiling the first took {figures['compile_seconds']:.1f} s.")


def _case(row: dict[str, Any]) -> str:
    return f"{row['dataset']}, B = {row['batch']}"


def _or_dash(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"


def _show_attacks(figures: dict[str, Any]) -> None:
    rows = [row for attack in figures["attacks"] for row in _attack_rows(attack)]
    about = f"{figures['attack_victims']} victims, {figures['attack_data']}"
    title = f"Attacks on {about}, for each of {figures['attack_cores']} cores. Ratio: gradveil is so many times faster"
    headers = ["", "victims a minute", "success", "ratio", "processor time"]
    table(title, headers, rows)


def _attack_rows(figures: dict[str, Any]) -> list[list[str]]:
    """Give a row for ours, and one for PyTorch if it was run."""
    named = {"ours": "gradveil", "peer": "PyTorch"}
    ratios = {"ours": ("", ""), "peer": (figures["attack_ours_over_peer"], figures["attack_peer_cpu_over_ours"])}
    return [
        [
            f"{figures['attack']}: {label}",
            f"{figures[f'attack_{who}_vpm_per_core']:.0f}",
            f"{figures[f'attack_{who}_success']:.0%}",
            *(ratio and f"{ratio:.2f}" for ratio in ratios[who]),
        ]
        for who, label in named.items()
        if figures[f"attack_{who}_vpm"] is not None
    ]
