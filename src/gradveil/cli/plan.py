"""`gradveil plan`: the options; `plan_steps` does the work, and is imported only when they are right."""

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

_guarantee = partial(typer.Option, rich_help_panel=options.GUARANTEE)
_releases = partial(typer.Option, rich_help_panel=options.RELEASES)
_rule = partial(typer.Option, rich_help_panel="The paper's rule for sigma_0")


def plan(
    target_epsilon: Annotated[float, _guarantee(help="Epsilon that must not be exceeded.")],
    q: Rate,
    delta: Delta = 1e-5,
    threat_model: Annotated[str, _guarantee(help=f"{options.THREATS}.")] = "server",
    adjacency: Adjacency = "add-remove",
    solve: Annotated[
        str, _releases(help="What to find: sigma, rounds, or decay (sigma_0 for a given --sigma-end).")
    ] = "sigma",
    sigma: Annotated[
        float, _releases(help="Noise scale when solving for rounds: standard deviation divided by the sensitivity.")
    ] = 6.0,
    rounds: Annotated[int, _releases(help="Number of rounds (T), unless it is solved for.")] = 100,
    local_steps: Annotated[int, _releases(help="Number of local steps per round (L).")] = 1,
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
    clip: Annotated[float, _rule(help="Clipping bound C, in C sigma / S.")] = 4.0,
    s_dyn: Annotated[
        float | None, _rule(help="Largest l2-max seen in a run (S): also print the paper's rule for sigma_0.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find the noise, its decay or the number of rounds for a target epsilon."""
    from gradveil.calibration.query import Query
    from gradveil.cli import plan_steps

    target = plan_steps.target_of(target_epsilon, delta, adjacency, threat_model)
    query = Query(
        sigma=sigma, rate=q, rounds=rounds, local_steps=local_steps, decay=decay, sigma_end=sigma_end, layers=layers,
        batch=batch, client_size=client_size, draw=draw, sampling=sampling, client_rate=client_q,
        participations=participations, copies=copies,
    )  # fmt: skip
    plan_steps.execute(query, target, solve, clip, s_dyn, as_json)
