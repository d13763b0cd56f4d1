"""`gradveil plan`: noise or rounds that meet a target epsilon, before training."""

from typing import Annotated, Any

import typer

from gradveil.accounting.caveats import CENTRAL_IS_NO_TARGET
from gradveil.accounting.threats import is_presumption
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.calibration.query import Query
from gradveil.calibration.solver import MOST_ROUNDS, Target, curve, solve_decay, solve_rounds, solve_sigma
from gradveil.cli.account import check
from gradveil.cli.choices import pick
from gradveil.cli.output import emit_json, table
from gradveil.errors import BadInput
from gradveil.fields import real

Opt = typer.Option
SOLVERS = {"sigma": solve_sigma, "rounds": solve_rounds, "decay": solve_decay}


def plan(
    target_epsilon: Annotated[float, Opt(help="The epsilon that must not be exceeded.")],
    q: Annotated[float, Opt(help="Rate at which a batch samples the client's examples, B / |D_i|.")],
    delta: Annotated[float, Opt(help="delta.")] = 1e-5,
    solve: Annotated[str, Opt(help="sigma, rounds, or decay (sigma_0 for a given --sigma-end).")] = "sigma",
    rounds: Annotated[int, Opt(help="T.")] = 100,
    local_steps: Annotated[int, Opt(help="L.")] = 1,
    sigma: Annotated[float, Opt(help="Noise scale, where it is not what is solved for.")] = 6.0,
    decay: Annotated[str, Opt(help="A name from `gradveil list decays`.")] = "constant",
    sigma_end: Annotated[float | None, Opt(help="Where the decay ends.")] = None,
    layers: Annotated[int, Opt(help="Tensors that are clipped separately; 1 for flat clipping.")] = 1,
    batch: Annotated[int | None, Opt(help="B, needed for --draw each or mean and for whole clients.")] = None,
    client_size: Annotated[int | None, Opt(help="|D_i|, the examples of a client; B is then q times it.")] = None,
    draw: Annotated[str, Opt(help="Noise for each unit, the sum, or the mean.")] = "sum",
    sampling: Annotated[str, Opt(help="fixed-pass, poisson or replacement.")] = "poisson",
    client_q: Annotated[float, Opt(help="Rate at which a round samples clients, K / N.")] = 1.0,
    participations: Annotated[int | None, Opt(help="Rounds of the busiest client (default: all).")] = None,
    copies: Annotated[int, Opt(help="Clients that hold the most copied record.")] = 1,
    adjacency: Annotated[str, Opt(help="add-remove or replace-one.")] = ADD_REMOVE,
    threat_model: Annotated[str, Opt(help="A name from `gradveil list threats`.")] = "server",
    clip: Annotated[float, Opt(help="C, for --s-dyn.")] = 4.0,
    s_dyn: Annotated[float | None, Opt(help="Largest l2-max seen: gives the paper's rule for sigma_0.")] = None,
    as_json: Annotated[bool, Opt("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Find the noise scale, the decay or the number of rounds that meets a target epsilon."""
    solver = pick("solve", solve, SOLVERS)
    threat = check(delta, adjacency, threat_model)
    if len(threat) != 1:
        raise BadInput("threat_model = 'client': name client-central or client-server, since one target is solved for")
    rule = _paper_rule(clip, sigma, s_dyn)
    target = Target(target_epsilon, delta, adjacency, threat[0])
    asked = Query(
        sigma=sigma,
        rate=q,
        rounds=rounds,
        local_steps=local_steps,
        decay=decay,
        sigma_end=sigma_end,
        layers=layers,
        batch=batch,
        client_size=client_size,
        draw=draw,
        sampling=sampling,
        client_rate=client_q,
        participations=participations,
        copies=copies,
    )
    if is_presumption(asked.ledger(), target.threat_model):
        raise BadInput(f"threat_model = 'central': {CENTRAL_IS_NO_TARGET}")
    _show(_answer(solver(asked, target), target, solve, rule), as_json)


def _paper_rule(clip: float, sigma: float, s_dyn: float | None) -> float | None:
    """Return the paper's rule for the first noise scale, sigma_0 >= C sigma / S_dyn."""
    real("clip", clip)
    return None if s_dyn is None else clip * sigma / real("s_dyn", s_dyn)


def _answer(found: Query, target: Target, solve: str, rule: float | None) -> dict[str, Any]:
    sigmas = found.sigmas()
    return {
        "solve": solve,
        "sigma": found.sigma,
        "sigma_last": float(sigmas[-1, -1]),
        "sigma_end": found.sigma_end,
        "decay": found.decay,
        "rounds": found.rounds,
        "local_steps": found.local_steps,
        "search_ended": solve == "rounds" and found.rounds == MOST_ROUNDS,
        "target_epsilon": target.epsilon,
        "guarantee": target.cost(found).plain(),
        "curve": [{"rounds": t, "guarantee": held.plain()} for t, held in curve(found, target)],
        "paper_rule_sigma_0": rule,
    }


def _show(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return emit_json(answer)
    held = answer["guarantee"]
    typer.echo(
        f"sigma {answer['sigma']:.4g} ({answer['decay']}, {answer['sigma_last']:.4g} in the last step) over "
        f"{answer['rounds']} rounds of {answer['local_steps']} steps: epsilon {held['epsilon']:.4g} at delta "
        f"{held['delta']:g} for one {held['unit']}, threat model {held['threat_model']}, {held['adjacency']}."
    )
    rows = [[str(p["rounds"]), f"{p['guarantee']['epsilon']:.4g}"] for p in answer["curve"]]
    table("Spent by then, same delta and threat model", ["rounds", "epsilon"], rows)
    if answer["search_ended"]:
        typer.echo(f"More rounds may fit: the search ends at {MOST_ROUNDS}.")
    if answer["paper_rule_sigma_0"] is not None:
        typer.echo(f"The paper's rule asks for sigma_0 of at least {answer['paper_rule_sigma_0']:.4g}.")
