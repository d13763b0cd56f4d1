"""What `gradveil plan` does: find noise or rounds that meet a target epsilon, before training."""

from typing import Any

from gradveil.accounting.accountant import is_presumption
from gradveil.accounting.caveats import CENTRAL_IS_NO_TARGET
from gradveil.calibration.query import Query
from gradveil.calibration.solver import MOST_ROUNDS, Target, curve, solve_decay, solve_rounds, solve_sigma
from gradveil.cli.account_steps import check
from gradveil.cli.output import emit_json, say, table
from gradveil.errors import BadInput
from gradveil.fields import real
from gradveil.names import pick

SOLVERS = {"sigma": solve_sigma, "rounds": solve_rounds, "decay": solve_decay}


def execute(query: Query, target: Target, solve: str, clip: float, s_dyn: float | None, as_json: bool) -> None:
    """Solve for what was asked and show it with the guarantee that it has."""
    solver = pick("solve", solve, SOLVERS)
    rule = _paper_rule(clip, query.sigma, s_dyn)
    if is_presumption(query.ledger(), target.threat_model):
        raise BadInput(f"threat_model = 'central': {CENTRAL_IS_NO_TARGET}")
    _show(_answer(solver(query, target), target, solve, rule), as_json)


def target_of(epsilon: float, delta: float, adjacency: str, threat_model: str) -> Target:
    """Return the guarantee to be met; there is one adversary in it."""
    threats = check(delta, adjacency, threat_model)
    if len(threats) != 1:
        raise BadInput("threat_model = 'client': give client-central or client-server; a target has one adversary")
    return Target(epsilon, delta, adjacency, threats[0])


def _paper_rule(clip: float, sigma: float, s_dyn: float | None) -> float | None:
    """Return the paper's rule for the first noise scale, sigma_0 >= C sigma / S_dyn."""
    real("clip", clip)
    return None if s_dyn is None else clip * sigma / real("s_dyn", s_dyn)


def _answer(solution: Query, target: Target, solve: str, rule: float | None) -> dict[str, Any]:
    sigmas = solution.sigmas()
    return {
        "solve": solve,
        "sigma": solution.sigma,
        "sigma_last": float(sigmas[-1, -1]),
        "sigma_end": solution.sigma_end,
        "decay": solution.decay,
        "rounds": solution.rounds,
        "local_steps": solution.local_steps,
        "search_ended": solve == "rounds" and solution.rounds == MOST_ROUNDS,
        "target_epsilon": target.epsilon,
        "guarantee": target.cost(solution).plain(),
        "curve": [{"rounds": t, "guarantee": guarantee.plain()} for t, guarantee in curve(solution, target)],
        "paper_rule_sigma_0": rule,
    }


def _show(answer: dict[str, Any], as_json: bool) -> None:
    if as_json:
        return emit_json(answer)
    guarantee = answer["guarantee"]
    say(
        f"sigma {answer['sigma']:.4g} ({answer['decay']}, {answer['sigma_last']:.4g} in the last step), "
        f"{answer['rounds']} rounds of {answer['local_steps']} local steps: epsilon {guarantee['epsilon']:.4g} at "
        f"delta {guarantee['delta']:g} for one {guarantee['unit']} against {guarantee['threat_model']} "
        f"({guarantee['adjacency']} neighbors)."
    )
    rows = [[str(p["rounds"]), f"{p['guarantee']['epsilon']:.4g}"] for p in answer["curve"]]
    table("Epsilon over rounds", ["rounds", "epsilon"], rows)
    if answer["search_ended"]:
        say(f"More rounds may be possible: the search ends at {MOST_ROUNDS}.")
    if answer["paper_rule_sigma_0"] is not None:
        say(f"The paper's rule asks for sigma_0 of at least {answer['paper_rule_sigma_0']:.4g}.")
