"""`gradveil audit`: the options; `audit_steps` does the work, and is imported only when they are right."""

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from gradveil.cli import options
from gradveil.cli.options import AsJson, DataDir
from gradveil.cli.output import doing
from gradveil.errors import BadInput, quoted

AUDIT, OTHERS = "Audit", "Mechanisms of others"
_audit = partial(typer.Option, rich_help_panel=AUDIT)
_others = partial(typer.Option, rich_help_panel=OTHERS)
OF_MECHANISMS = ("claimed_epsilon", "noise_multiplier", "clip", "units", "dimension", "delta")
OF_TARGETS = ("victims", "dataset", "data_dir")
TRAINING = {"one-run", "black-box"}
"""Levels that train, for which a function is not enough."""


def audit(
    context: typer.Context,
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
        float, _audit(help="Joint confidence over all rows of a sampling level; a probability.")
    ] = 0.95,
    releases: Annotated[
        int | None,
        _audit(help="Rounds of a client to simulate, or calls of --mechanism.", show_default="400000, or 4000 calls"),
    ] = None,
    victims: Annotated[int, _audit(help="Canaries of the levels one-run and black-box.")] = 400,
    seed: Annotated[int, _audit(help="Seed of keys and of the search for the worst neighbors.")] = 0,
    dataset: Annotated[
        str | None,
        typer.Option(
            help="With METHOD: whose settings are audited.", show_default="digits", rich_help_panel=options.DATA
        ),
    ] = None,
    data_dir: DataDir = None,
    mechanism: Annotated[
        str | None,
        _others(
            metavar="MODULE:FUNCTION",
            # The backslash keeps the brackets, which both rich and Markdown would read.
            help="Python function f(gradients \\[n, d], seed) -> noisy sum or mean; its module is imported and run.",
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
    _refuse_ignored(context, target, mechanism, level)
    with doing("starting JAX"):
        from gradveil.cli import audit_steps
    if mechanism is None:
        record = audit_steps.of_target(str(target), level, confidence, releases, victims, seed, dataset, data_dir)
    else:
        record = audit_steps.of_mechanism(
            mechanism,
            level,
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


def _refuse_ignored(context: typer.Context, target: str | None, mechanism: str | None, level: str) -> None:
    """Refuse what has no meaning for what is audited, rather than ignore it."""
    if target is None and mechanism is None:
        raise BadInput("audit: give a method, a plan file or a run folder, or a function with --mechanism")
    if target is not None and mechanism is not None:
        raise BadInput(f"{quoted(target)}: give a target or --mechanism, not both")
    for name in OF_TARGETS if target is None else OF_MECHANISMS:
        if options.is_given(context, name):
            kind = "a method, a plan or a run" if target is None else "--mechanism"
            raise BadInput(f"--{name.replace('_', '-')}: goes with {kind}; leave it out")
    for name in TRAINING.intersection(one.strip() for one in level.split(",")) if target is None else ():
        raise BadInput(f"--level {name}: trains a plan; a function is audited at the levels replay and mechanism")
