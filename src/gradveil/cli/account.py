"""`gradveil account`: what noise and sampling cost, without training anything."""

from typing import Annotated

import typer

from gradveil import codec
from gradveil.accounting.as_paper import plain_event
from gradveil.accounting.steps import rounded
from gradveil.accounting.threats import THREATS, guarantees, presumed
from gradveil.accounting.tight import ADD_REMOVE, REPLACE_ONE
from gradveil.calibration.query import Query
from gradveil.cli.output import emit_json, table
from gradveil.cli.run_summary import show_guarantees, show_presumed
from gradveil.errors import BadInput, shown
from gradveil.federation.plan import delta_of
from gradveil.fields import whole
from gradveil.runs.epsilon_records import GuaranteeRecord, PresumedEpsilon

Opt = typer.Option


def account(
    sigma: Annotated[float, Opt(help="Noise scale; the first one where it decays.")],
    q: Annotated[float, Opt(help="Rate at which a batch samples the client's examples, B / |D_i|.")],
    delta: Annotated[float, Opt(help="delta.")] = 1e-5,
    steps: Annotated[int | None, Opt(help="Releases in all; or give --rounds and --local-steps.")] = None,
    rounds: Annotated[int | None, Opt(help="T.")] = None,
    local_steps: Annotated[int | None, Opt(help="L.")] = None,
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
    threat_model: Annotated[str | None, Opt(help="A name from `gradveil list threats` (default: all).")] = None,
    as_json: Annotated[bool, Opt("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Say what noise and sampling cost: by every accountant, and against every adversary."""
    total, length = counts(steps, rounds, local_steps)
    threats = check(delta, adjacency, threat_model)
    question = Query(
        sigma=sigma,
        rate=q,
        rounds=total,
        local_steps=length,
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
    plain = plain_event(question.plain_steps(), delta)
    held = [GuaranteeRecord.of(g) for g in guarantees(question.ledger(), delta, adjacency, threats)]
    figures = presumed(question.ledger(), delta, adjacency) if "central" in (threats or THREATS) else []
    hoped = [codec.decode(PresumedEpsilon, figure) for figure in figures]
    _, cost = rounded(question.plain_steps())
    if as_json:
        told = {"guarantees": codec.record(held), "presumed": codec.record(hoped)}
        return emit_json({**plain, "delta": delta, "rounding_cost": cost, **told})
    _show(plain, held, cost)
    show_presumed(hoped)


def counts(steps: int | None, rounds: int | None, local_steps: int | None) -> tuple[int, int]:
    """Settle T and L from what was given; --steps alone is one long participation."""
    for name, value in (("steps", steps), ("rounds", rounds), ("local_steps", local_steps)):
        if value is not None:
            whole(name, value)
    if steps is not None and rounds is not None:
        raise BadInput(f"steps = {steps}, rounds = {rounds}: give --steps, or --rounds and --local-steps, not both")
    if rounds is None and local_steps is None:
        if steps is None:
            raise BadInput("steps: give --steps, or --rounds and --local-steps")
        return 1, steps
    total = rounds if rounds is not None else max((steps or 1) // (local_steps or 1), 1)
    length = local_steps if local_steps is not None else max((steps or total) // total, 1)
    if steps is not None and total * length != steps:
        raise BadInput(f"steps = {steps}: is not rounds x local_steps = {total} x {length}")
    return total, length


def check(delta: float, adjacency: str, threat_model: str | None) -> tuple[str, ...]:
    """Refuse what no accountant understands; returns the threat models asked for ("client" means both)."""
    delta_of(delta)
    if adjacency not in (ADD_REMOVE, REPLACE_ONE):
        raise BadInput(f"adjacency = {shown(adjacency)}: must be {ADD_REMOVE} or {REPLACE_ONE}")
    if threat_model in (None, *THREATS):
        return () if threat_model is None else (str(threat_model),)
    if threat_model == "client":
        return ("client-central", "client-server")
    raise BadInput(f"threat_model = {shown(threat_model)}: must be one of {', '.join(THREATS)}")


def _show(plain: dict[str, float | None], held: list[GuaranteeRecord], cost: float) -> None:
    meaning = {
        "base": "sum of the steps' epsilons; the paper's loosest",
        "advanced": "advanced composition; the paper's",
        "zcdp": "zCDP with q^2 for sampling; the paper's, sound for small q only",
        "moments": "Renyi divergences, classic conversion; the paper's figures",
        "rdp": "the same divergences, improved conversion",
        "pld": "privacy loss distribution: the tightest, flat clipping assumed",
    }
    rows = [[name, f"{v:.4g}" if v is not None else "none finite", meaning[name]] for name, v in plain.items()]
    table(
        "The plain event: every step Poisson-sampled at q, noise sigma on the sum", ["accountant", "epsilon", ""], rows
    )
    show_guarantees("such a run", held)
    typer.echo("Quote server (or type2-known if batches may be known): they assume least about what stays secret.")
    if cost:
        typer.echo(f"Noise scales were rounded down to 100 levels, which raised sum q^2/sigma^2 by {cost:.2%}.")
