"""How much of the paper is done: everything, what two cores do within an hour, or a smoke test of every cell."""

from dataclasses import dataclass, replace
from typing import Any

from gradveil.federation.plan import Plan
from gradveil.leakage import scenes
from gradveil.models.networks import AttackNet, Mlp, Model
from gradveil.privacy.method import Method
from gradveil.reproduction.jobs import AttackJob
from gradveil.runs.presets import PRESETS
from gradveil.surface import Surface

PAPER_VICTIMS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """Upper bounds on a plan and an attack; None leaves the paper's number.

    full_size: datasets that are trained at the paper's size nevertheless. small: whether every network is replaced by
    one with 8 hidden units. stands_in: whether a missing dataset is replaced by a synthetic one. minutes: of all tables
    together. deepest: the most rounds that a network is trained before it is attacked. attack: replaces every attack.
    """

    name: str
    cohort: int | None = None
    rounds: int | None = None
    local_steps: int | None = None
    victims: int = PAPER_VICTIMS
    iterations: int | None = None
    full_size: tuple[str, ...] = ()
    small: bool = False
    stands_in: bool = False
    minutes: float | None = None
    deepest: int = 50
    attack: str | None = None

    def described(self) -> str:
        """Say in a line what is smaller than in the paper."""
        bounds = {
            "K": self.cohort, "T": self.rounds, "L": self.local_steps, "victims": self.victims,
            "iterations": self.iterations,
        }  # fmt: skip
        limits = ", ".join(f"{name} at most {most:g}" for name, most in bounds.items() if most is not None)
        return (limits or "as in the paper") + (
            f"; at full size: {', '.join(self.full_size)}" if self.full_size else ""
        )

    def plan(self, dataset: str, method: Method, **changes: Any) -> Plan:
        """Return the paper's plan for a dataset and method, made as small as the scale says."""
        preset = PRESETS[dataset]
        settings = {n: getattr(preset, n) for n in preset.__dataclass_fields__ if n in Plan.__dataclass_fields__}
        plan = Plan(dataset=dataset, method=method, **(settings | {"learning_rate": preset.rates.of(method)} | changes))
        return plan if dataset in self.full_size else self._smaller(plan)

    def _smaller(self, plan: Plan) -> Plan:
        at_most = {"cohort": self.cohort, "rounds": self.rounds, "local_steps": self.local_steps}
        cut = {name: min(getattr(plan, name), most) for name, most in at_most.items() if most is not None}
        return replace(plan, model=self._network(plan.model), **cut)

    def _network(self, model: Model) -> Model:
        return Mlp(hidden=(8,), bias=True) if self.small else model

    def hinders(self, plan: Plan) -> str | None:
        """Say why a plan of this scale may not be compared with the paper, if so."""
        preset = PRESETS[plan.dataset]
        cut = plan.dataset not in self.full_size and any(
            most is not None and most < getattr(preset, name)
            for name, most in (("cohort", self.cohort), ("rounds", self.rounds), ("local_steps", self.local_steps))
        )
        return "smaller" if cut or self.small else None

    def attack_job(self, dataset: str, method: Method, surface: int, **changes: Any) -> AttackJob:
        """Return the paper's attack: a fresh attack network, one local step, one example or a batch of three."""
        if method.surface is not Surface.SERVER:
            surface = max(surface, 1)  # the server reads what the client sent: one attack answers for both
        paper_plan = Scale(name="paper").plan(dataset, method, model=self._network(AttackNet()))
        plan = scenes.as_paper(paper_plan, Surface(surface), None, None)
        if self.attack is not None:
            fixed = {"attack": self.attack, "iterations": None, "start": None, "distance": None, "identify": False}
            return AttackJob(plan=plan, surface=surface, **({"victims": self.victims} | changes | fixed))
        limit, requested = self._iterations(changes.get("attack"), plan.batch), changes.get("iterations")
        most = min((n for n in (limit, requested) if n is not None), default=None)
        return AttackJob(plan=plan, surface=surface, **({"victims": self.victims} | changes | {"iterations": most}))

    def _iterations(self, attack: str | None, batch: int) -> int | None:
        """Return the most iterations that an attack on a batch has at this scale."""
        if self.iterations is None:
            return None
        # A batch of three takes more than three times as long as one example, and gains less from each iteration.
        most = self.iterations if batch == 1 else self.iterations // 2
        # A step of gradinv is one evaluation, an iteration of L-BFGS up to twenty.
        return 20 * most if attack == "gradinv" else most


SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            name="smoke", cohort=2, rounds=1, local_steps=2, victims=2, small=True, stands_in=True,
            deepest=1, attack="analytic",
        ),
        Scale(
            name="desk", cohort=10, rounds=5, local_steps=50, victims=10, iterations=50, full_size=("cancer",),
            minutes=60,
        ),
        Scale(name="paper"),
    )
}  # fmt: skip
