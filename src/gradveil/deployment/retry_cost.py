"""What a failed attempt at a round of a secure sum costs, said before the run begins."""

from gradveil.federation.plan import Plan
from gradveil.runs.budget import Budget

TOGETHER = ("aggregate", "central-visible", "alone")
"""Adversaries whose epsilons are named in one line."""


def retry_costs(plan: Plan, budget: Budget) -> dict[str, float]:
    """Return the epsilon of the whole plan if one round is repeated, by what that round sums; "" is none."""
    whom, rounds = plan.threat_model, plan.rounds
    costs = {"": budget.epsilon(rounds, rounds, whom)}
    for t in range(min(len(plan.preparation) + 1, rounds)):
        stage = plan.stage(t)
        budget.recall([t])
        costs["gradient" if stage is None else stage.name] = budget.epsilon(rounds, rounds + 1, whom)
    budget.recall([])
    return costs


def sentence(plan: Plan, budget: Budget) -> str:
    """Say what is spent if all nodes answer every time, against whom, and what a repeated round would make of it."""
    costs, rounds = retry_costs(plan, budget), plan.rounds
    each = ", ".join(f"{whom} {budget.epsilon(rounds, rounds, whom):.3g}" for whom in TOGETHER)
    dearer = ", ".join(f"{stage} {epsilon:.3g}" for stage, epsilon in costs.items() if stage)
    limit = "" if plan.max_epsilon is None else f"; the run ends before it spends more than {plan.max_epsilon:g}"
    return (
        f"epsilon if every node answers every time: {each}. A failed attempt is spent too: with one repeated round it "
        f"is, against {plan.threat_model}, {dearer}{limit}"
    )
