"""What `gradveil account` does: the epsilon of noise and sampling, without training anything."""

from gradveil import codec
from gradveil.accounting.accountant import guarantees, presumed
from gradveil.accounting.as_paper import plain_event
from gradveil.accounting.steps import rounded
from gradveil.accounting.threats import THREATS
from gradveil.accounting.tight import ADD_REMOVE, REPLACE_ONE
from gradveil.calibration.query import Query
from gradveil.cli.guarantee_output import show_guarantees, show_presumed
from gradveil.cli.output import emit_json, say, table
from gradveil.errors import BadInput, quoted
from gradveil.federation.plan import delta_of
from gradveil.fields import whole
from gradveil.runs.epsilon_records import GuaranteeRecord, PresumedEpsilon


def execute(query: Query, delta: float, adjacency: str, threats: tuple[str, ...], as_json: bool) -> None:
    """Account by every accountant, and against every adversary or those named."""
    plain = plain_event(query.plain_steps(), delta)
    records = [GuaranteeRecord.of(g) for g in guarantees(query.ledger(), delta, adjacency, threats)]
    presumed_figures = presumed(query.ledger(), delta, adjacency) if "central" in (threats or THREATS) else []
    figures = [codec.decode(PresumedEpsilon, figure) for figure in presumed_figures]
    _, cost = rounded(query.plain_steps())
    if as_json:
        guaranteed = {"guarantees": codec.record(records), "presumed": codec.record(figures)}
        return emit_json({**plain, "delta": delta, "rounding_cost": cost, **guaranteed})
    _show(plain, records, cost)
    show_presumed(figures)


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
        raise BadInput(f"adjacency = {quoted(adjacency)}: must be {ADD_REMOVE} or {REPLACE_ONE}")
    if threat_model in (None, *THREATS):
        return () if threat_model is None else (str(threat_model),)
    if threat_model == "client":
        return ("client-central", "client-server")
    raise BadInput(f"threat_model = {quoted(threat_model)}: must be one of {', '.join(THREATS)}")


def _show(plain: dict[str, float | None], records: list[GuaranteeRecord], cost: float) -> None:
    meaning = {
        "base": "basic composition: the sum over steps (paper's)",
        "advanced": "advanced composition (paper's)",
        "zcdp": "zCDP with q^2 for sampling, sound only for small q (paper's)",
        "moments": "RDP with the classic conversion (paper's main figures)",
        "rdp": "RDP with the improved conversion",
        "pld": "privacy loss distribution: the tightest; flat clipping",
    }
    rows = [[name, f"{v:.4g}" if v is not None else "none", meaning[name]] for name, v in plain.items()]
    table("Accountants for Poisson sampling at rate q and noise on the sum", ["accountant", "epsilon", "method"], rows)
    show_guarantees("Guarantees of such a run", records)
    say("Report `server` (or `type2-known` if batches may become known); these rely on the fewest secrets.")
    if cost:
        say(f"Noise scales were rounded down to 100 levels, which raised the sum of q^2/sigma^2 by {cost:.2%}.")
