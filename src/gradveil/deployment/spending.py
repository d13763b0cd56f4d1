"""The privacy budget that a node has spent, over all plans and restarts: written before anything is sent."""

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from gradveil import codec
from gradveil.accounting.accountant import account
from gradveil.accounting.release import Ledger
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.deployment.policy import Policy
from gradveil.federation import ledger as translator
from gradveil.federation.plan import Plan
from gradveil.runs import store

SERVER = "server"
"""The adversary of a node: it sees every update with its client's name."""


@dataclass(frozen=True, slots=True)
class Served:
    """What one plan has spent: the rounds that each client served, and layers and copies for the accountants."""

    plan: Plan
    layers: int
    copies: int
    rounds: dict[str, list[int]]

    def with_round(self, t: int, clients: list[int]) -> "Served":
        """Add a round of these clients."""
        added = {str(c): [*self.rounds.get(str(c), []), t] for c in clients}
        return Served(self.plan, self.layers, self.copies, self.rounds | added)

    @property
    def participations(self) -> int:
        """The most rounds of any client."""
        return max(map(len, self.rounds.values()), default=0)

    def epsilon(self) -> float:
        """Return epsilon against the server for the most rounds of any client, the costliest that any client served.

        It is infinite if only the server adds noise.
        """
        times: Counter[int] = Counter()
        for served in self.rounds.values():
            times |= Counter(served)
        releases = [r for t in times.elements() for r in translator.releases(self.plan, t, self.layers, self.copies)]
        ledger = Ledger(tuple(releases), self.participations, self.plan.noise_source.value)
        return account(ledger, self.plan.delta, ADD_REMOVE, SERVER).epsilon


@dataclass(frozen=True, slots=True)
class Spending:
    """The file of a node's spending."""

    path: Path

    def read(self) -> dict[str, Served]:
        """Return what was served, by plan and shard."""
        stored = store.read_sealed(self.path) if self.path.exists() else {"plans": {}}
        return {
            digest: Served(codec.decode(Plan, served["plan"]), served["layers"], served["copies"], served["rounds"])
            for digest, served in stored["plans"].items()
        }

    def write(self, plans: dict[str, Served]) -> None:
        """Write the file atomically, readable by its owner alone."""
        plain = {
            digest: {"plan": codec.encode(s.plan), "layers": s.layers, "copies": s.copies, "rounds": s.rounds}
            for digest, s in plans.items()
        }
        store.write_sealed(self.path, {"plans": plain}, owner_only=True)

    def spend(self, policy: Policy, name: str, new: Served, t: int, clients: list[int]) -> str | None:
        """Write a round if the policy allows it, else return why not. What is spent under other names adds up."""
        plans = self.read()
        plans[name] = plans.get(name, new).with_round(t, clients)
        objection = _objection(policy, plans)
        if objection is None:
            self.write(plans)
        return objection


def _objection(policy: Policy, plans: dict[str, Served]) -> str | None:
    served = sum(s.participations for s in plans.values())
    if policy.maximum_rounds is not None and served > policy.maximum_rounds:
        return f"this node has served its {policy.maximum_rounds} rounds"
    if policy.maximum_epsilon is None:
        return None
    spent, delta = math.fsum(s.epsilon() for s in plans.values()), math.fsum(s.plan.delta for s in plans.values())
    if delta > policy.maximum_delta:
        return f"delta = {delta:g} would be spent in all, and this node allows {policy.maximum_delta:g}"
    if math.isinf(spent):
        return "no finite epsilon holds against the server, and this node requires one"
    if spent > policy.maximum_epsilon:
        return f"epsilon = {spent:.3g} would be spent in all, and this node allows {policy.maximum_epsilon:g}"
    return None
