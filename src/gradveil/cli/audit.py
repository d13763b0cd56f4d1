"""`gradveil audit`: the options; `audit_steps` does the work, and is imported only when they are right."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli import options
from gradveil.cli.options import AsJson, DataDir
from gradveil.cli.output import doing

AUDIT, OTHERS = "Audit", "Mechanisms of others"
_audit = partial(typer.Option, rich_help_panel=AUDIT)
_others = partial(typer.Option, rich_help_panel=OTHERS)


def audit(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[METHOD|PLAN.toml|RUN]",
            help="A method, a plan file or a run folder; or give --mechanism.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[
        str,
        _audit(
            help="Levels, with commas: replay (the same keys twice), mechanism (thousands of releases), "
            "one-run (canaries in a training run), black-box (its final model alone)."
        ),
    ] = "replay,mechanism",
    confidence: Annotated[
        float, _audit(help="Confidence of levels that draw, of all rows of a level together; a probability.")
    ] = 0.95,
    releases: Annotated[
        int | None,
        _audit(help="Rounds of a client to simulate, or calls of --mechanism.", show_default="400000, or 4000 calls"),
    ] = None,
    victims: Annotated[int, _audit(help="Canaries of the levels one-run and black-box.")] = 400,
    seed: Annotated[int, _audit(help="Seed of keys and of the search for the worst neighbors.")] = 0,
    dataset: Annotated[
        str, typer.Option(help="With METHOD: whose settings are audited.", rich_help_panel=options.DATA)
    ] = "digits",
    data_dir: DataDir = None,
    mechanism: Annotated[
        str | None,
        _others(
            metavar="MODULE:FUNCTION",
            help="Audit a function of units [n, d] and a seed that returns a release; its module is imported.",
        ),
    ] = None,
    claimed_epsilon: Annotated[float | None, _others(help="Epsilon that is claimed of one release.")] = None,
    noise_multiplier: Annotated[
        float | None, _others(help="Noise multiplier z that is claimed: noise on the sum divided by C.")
    ] = None,
    clip: Annotated[float, _others(help="Bound C that the mechanism clips units to (L2 norm).")] = 1.0,
    units: Annotated[int, _others(help="Number of units in a lot.")] = 16,
    dimension: Annotated[int, _others(help="Number of coordinates of a unit.")] = 32,
    delta: Annotated[float, _others(help="Delta of the claimed epsilon.")] = 1e-5,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write JUnit XML.", rich_help_panel=options.OUTPUT)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a lower bound on every epsilon that is claimed; exit code 1 if one is refuted.

    Give a method, a plan file or a run folder, which then keeps the record, or a mechanism of your own.
    """
    with doing("starting JAX"):
        from gradveil.cli import audit_steps
    if mechanism is None:
        record = audit_steps.of_target(target, level, confidence, releases, victims, seed, dataset, data_dir)
    else:
        record = audit_steps.of_mechanism(
            target,
            mechanism,
            claimed_epsilon,
            noise_multiplier,
            clip,
            units,
            dimension,
            delta,
            confidence,
            releases,
            seed,
        )
    audit_steps.show(record, junit, as_json)
