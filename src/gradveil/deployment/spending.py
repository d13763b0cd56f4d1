"""What a node has given away of its data, over all plans and restarts: written down before anything is sent."""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from gradveil import codec
from gradveil.accounting.threats import Ledger, account
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.deployment.policy import Policy
from gradveil.federation import ledger as translator
from gradveil.federation.plan import Plan
from gradveil.runs import store

SERVER = "server"
"""The adversary that a node guards against: it sees every update with its client's name."""


@dataclass(frozen=True, slots=True)
class Served:
    """One plan's share of the spending: which rounds each client served; layers and copies as the accountants ask."""

    plan: Plan
    layers: int
    copies: int
    rounds: dict[str, list[int]]

    def with_round(self, t: int, clients: list[int]) -> "Served":
        """Add a round of these clients."""
        added = {str(c): [*self.rounds.get(str(c), []), t] for c in clients}
        return Served(self.plan, self.layers, self.copies, self.rounds | added)

    @property
    def most(self) -> int:
        """The rounds of the busiest client."""
        return max(map(len, self.rounds.values()), default=0)

    def epsilon(self) -> float:
        """Account the busiest client against the server, in the costliest of the rounds that any client served.

        Noise that only the server adds hides nothing from it: infinity.
        """
        times: Counter[int] = Counter()
        for served in self.rounds.values():
            times |= Counter(served)
        releases = [r for t in times.elements() for r in translator.releases(self.plan, t, self.layers, self.copies)]
        held = Ledger(tuple(releases), self.most, self.plan.noise_source.value)
        return account(held, self.plan.delta, ADD_REMOVE, SERVER).epsilon


@dataclass(frozen=True, slots=True)
class Spending:
    """The file of a node's spending."""

    path: Path

    def read(self) -> dict[str, Served]:
        """Read what was served, by plan and place."""
        stored = store.read_sealed(self.path) if self.path.exists() else {"plans": {}}
        return {
            digest: Served(codec.decode(Plan, one["plan"]), one["layers"], one["copies"], one["rounds"])
            for digest, one in stored["plans"].items()
        }

    def write(self, plans: dict[str, Served]) -> None:
        """Write it whole or not at all, for its owner alone."""
        plain = {
            digest: {"plan": codec.encode(s.plan), "layers": s.layers, "copies": s.copies, "rounds": s.rounds}
            for digest, s in plans.items()
        }
        store.write_sealed(self.path, {"plans": plain}, owner_only=True)

    def spend(self, policy: Policy, name: str, fresh: Served, t: int, clients: list[int]) -> str | None:
        """Write a round down if the policy affords it; else say why not. Whatever bears another name adds up."""
        plans = self.read()
        plans[name] = plans.get(name, fresh).with_round(t, clients)
        objection = _objection(policy, plans)
        if objection is None:
            self.write(plans)
        return objection


def _objection(policy: Policy, plans: dict[str, Served]) -> str | None:
    served = sum(s.most for s in plans.values())
    if policy.maximum_rounds is not None and served > policy.maximum_rounds:
        return f"this node has served its {policy.maximum_rounds} rounds"
    if policy.maximum_epsilon is None:
        return None
    spent, delta = math.fsum(s.epsilon() for s in plans.values()), math.fsum(s.plan.delta for s in plans.values())
    if delta > policy.maximum_delta:
        return f"delta = {delta:g} would be spent in all, and this node allows {policy.maximum_delta:g}"
    if math.isinf(spent):
        return "no finite epsilon holds against the server, and this node asks for one"
    if spent > policy.maximum_epsilon:
        return f"epsilon = {spent:.3g} would be spent in all, and this node allows {policy.maximum_epsilon:g}"
    return None
