"""`gradveil account`: the options; `account_steps` does the work, and is imported only when they are right."""

from functools import partial
from typing import Annotated

import typer

from gradveil.cli import options
from gradveil.cli.options import (  # fmt: skip
    Adjacency,
    AsJson,
    BatchSampling,
    BatchSize,
    ClientRate,
    ClientSize,
    Copies,
    Delta,
    Layers,
    NoiseDecay,
    NoiseDraw,
    NoiseEnd,
    Participations,
    Rate,
)

_releases = partial(typer.Option, rich_help_panel=options.RELEASES)


def account(
    sigma: Annotated[
        float, _releases(help="Noise scale: standard deviation divided by the sensitivity; sigma_0 if it decays.")
    ],
    q: Rate,
    steps: Annotated[
        int | None, _releases(help="Number of noisy steps in all; or give --rounds and --local-steps.")
    ] = None,
    rounds: Annotated[int | None, _releases(help="Number of rounds (T).")] = None,
    local_steps: Annotated[int | None, _releases(help="Number of local steps per round (L).")] = None,
    decay: NoiseDecay = "constant",
    sigma_end: NoiseEnd = None,
    layers: Layers = 1,
    draw: NoiseDraw = "sum",
    batch: BatchSize = None,
    client_size: ClientSize = None,
    sampling: BatchSampling = "poisson",
    client_q: ClientRate = 1.0,
    participations: Participations = None,
    copies: Copies = 1,
    delta: Delta = 1e-5,
    adjacency: Adjacency = "add-remove",
    threat_model: Annotated[
        str | None, typer.Option(help=f"{options.THREATS}.", show_default="all", rich_help_panel=options.GUARANTEE)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compute the epsilon of noise and sampling, without training.

    Compares six accountants, then gives the guarantee against each adversary.
    """
    from gradveil.calibration.query import Query
    from gradveil.cli import account_steps

    total, length = account_steps.counts(steps, rounds, local_steps)
    threats = account_steps.check(delta, adjacency, threat_model)
    query = Query(
        sigma=sigma, rate=q, rounds=total, local_steps=length, decay=decay, sigma_end=sigma_end, layers=layers,
        batch=batch, client_size=client_size, draw=draw, sampling=sampling, client_rate=client_q,
        participations=participations, copies=copies,
    )  # fmt: skip
    account_steps.execute(query, delta, adjacency, threats, as_json)
