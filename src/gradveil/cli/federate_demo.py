"""What `gradveil federate demo` trains: the plan of its options, and the policy of its nodes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from gradveil.calibration.plan_noise import meet
from gradveil.cli.run_steps import plans_from
from gradveil.data.sources import load, locate
from gradveil.deployment.policy import STRICT, Policy
from gradveil.errors import BadInput
from gradveil.federation.plan import Plan
from gradveil.federation.secure_sum import SecureSum
from gradveil.methods import FED_SUM
from gradveil.runs.shorthand import Tweaks

_SMALL = {"clients": 30, "cohort": 12, "local_steps": 10, "rounds": 4}
MOST_NODES = 30
SUMMING = replace(STRICT, methods=(FED_SUM.name,))


def plan_for(nodes: int, settings: dict[str, Any], target_epsilon: float | None, data_dir: Path | None) -> Plan:
    """Return a small plan; fed-sum makes secure sums over the nodes, with one client on each."""
    dataset, method = settings["dataset"], settings["method"]
    if locate(dataset) != dataset:
        raise BadInput(f"dataset = {dataset!r}: the demonstration takes a built-in dataset, by name")
    if not 1 <= nodes <= MOST_NODES:
        raise BadInput(f"nodes = {nodes}: must be between 1 and {MOST_NODES}")
    small = {"clients": nodes, "secure_sum": SecureSum(nodes=nodes)} if method == FED_SUM.name else _SMALL
    plan = plans_from(None, {**small, "noise_source": "secret", **settings}, Tweaks(), data_dir, target_epsilon)[0]
    if target_epsilon is not None:
        plan = meet(plan, load(plan.dataset, data_dir=data_dir), target_epsilon)
    if (objection := policy_of(plan).objection(plan)) is not None:
        raise BadInput(f"method = {method!r}: the policy of the demonstration's nodes forbids it: {objection}")
    return plan


def policy_of(plan: Plan) -> Policy:
    """Return the policy of the nodes: strict, and for secure sums that method alone."""
    return STRICT if plan.secure_sum is None else SUMMING
