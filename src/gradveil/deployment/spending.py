"""The privacy budget that a node has spent, over all plans and restarts: written before anything is sent."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gradveil import codec
from gradveil.accounting.accountant import account
from gradveil.accounting.release import Ledger
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.deployment.policy import SERVER, Policy
from gradveil.federation import ledger as translator
from gradveil.federation.plan import Plan
from gradveil.runs import store

ALONE = "alone"


@dataclass(frozen=True, slots=True)
class Served:
    """What one plan has spent: the rounds that each client served, and what the accountants need to know.

    layers, copies: as for the ledger. numbers: how many are noised in each round of a secure sum.
    """

    plan: Plan
    layers: int
    copies: int
    rounds: dict[str, list[int]]
    numbers: tuple[int, ...] = (0,)

    def with_round(self, t: int, clients: list[int]) -> "Served":
        """Add a round of these clients."""
        added = {str(c): [*self.rounds.get(str(c), []), t] for c in clients}
        return replace(self, rounds=self.rounds | added)

    @property
    def participations(self) -> int:
        """The most rounds of any client."""
        return max(map(len, self.rounds.values()), default=0)

    def epsilon(self, adversary: str = SERVER) -> float:
        """Return epsilon for the most rounds of any client, the costliest that any client served.

        Against the server, which sees every update, unless the plan makes secure sums: then against `adversary`. It is
        infinite if only the server adds noise.
        """
        whom = SERVER if self.plan.secure_sum is None else adversary
        times: Counter[int] = Counter()
        for served in self.rounds.values():
            times |= Counter(served)
        rounds = [
            translator.releases(self.plan, t, self.layers, self.copies, numbers=self.numbers) for t in times.elements()
        ]
        releases = tuple(release for released in rounds for release in released)
        ledger = Ledger(releases, self.participations, self.plan.noise_source.value)
        return account(ledger, self.plan.delta, ADD_REMOVE, whom).epsilon


@dataclass(frozen=True, slots=True)
class Spending:
    """The file of a node's spending."""

    path: Path

    def read(self) -> dict[str, Served]:
        """Return what was served, by plan and shard."""
        stored = store.read_sealed(self.path) if self.path.exists() else {"plans": {}}
        return {
            digest: Served(
                codec.decode(Plan, served["plan"]),
                served["layers"],
                served["copies"],
                served["rounds"],
                tuple(served.get("numbers", (0,))),
            )
            for digest, served in stored["plans"].items()
        }

    def write(self, plans: dict[str, Served]) -> None:
        """Write the file atomically, readable by its owner alone."""
        plain = {
            digest: {
                "plan": codec.encode(s.plan),
                "layers": s.layers,
                "copies": s.copies,
                "rounds": s.rounds,
                "numbers": list(s.numbers),
            }
            for digest, s in plans.items()
        }
        store.write_sealed(self.path, {"plans": plain}, owner_only=True)

    def spend(self, policy: Policy, name: str, new: Served, t: int, clients: list[int]) -> str | None:
        """Write a round if the policy allows it, else return why not. What is spent under other names adds up."""
        plans = self._with_rounds(name, new, [t], clients)
        objection = _objection(policy, plans)
        if objection is None:
            self.write(plans)
        return objection

    def forecast(self, policy: Policy, name: str, new: Served, rounds: Sequence[int], clients: list[int]) -> str | None:
        """Return why the policy would not allow all these rounds; None if it would. Nothing is written."""
        return _objection(policy, self._with_rounds(name, new, rounds, clients))

    def _with_rounds(self, name: str, new: Served, rounds: Sequence[int], clients: list[int]) -> dict[str, Served]:
        plans = self.read()
        plans[name] = plans.get(name, new)
        for t in rounds:
            plans[name] = plans[name].with_round(t, clients)
        return plans


def _objection(policy: Policy, plans: dict[str, Served]) -> str | None:
    served = sum(s.participations for s in plans.values())
    if policy.maximum_rounds is not None and served > policy.maximum_rounds:
        return f"this node has served its {policy.maximum_rounds} rounds"
    if (limit := policy.maximum_alone_epsilon) is not None:
        alone = math.fsum(s.epsilon(ALONE) for s in plans.values())
        if alone > limit:
            return f"epsilon = {alone:.3g} would be spent if all other nodes collude, and this node allows {limit:g}"
    if policy.maximum_epsilon is None:
        return None
    spent = math.fsum(s.epsilon(policy.adversary) for s in plans.values())
    delta = math.fsum(s.plan.delta for s in plans.values())
    if delta > policy.maximum_delta:
        return f"delta = {delta:g} would be spent in all, and this node allows {policy.maximum_delta:g}"
    if math.isinf(spent):
        return "no finite epsilon holds against the server, and this node requires one"
    if spent > policy.maximum_epsilon:
        return f"epsilon = {spent:.3g} would be spent in all, and this node allows {policy.maximum_epsilon:g}"
    return None
