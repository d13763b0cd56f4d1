"""What the owner of data allows to be done with it: the last word over a plan, whatever the server says."""

import math
from dataclasses import dataclass
from pathlib import Path

from gradveil import codec, store
from gradveil.errors import BadInput
from gradveil.federation import ledger
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.methods import METHODS
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.clip import Flat, PerLayer
from gradveil.privacy.method import Method
from gradveil.surface import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of a node; None is no limit.

    methods: names that are allowed. minimum_sigma: noise scale that every release must have, in units of the clipping
    bound; noise that only the server promises to add counts as none. maximum_rounds: rounds served, over all plans.
    maximum_epsilon, maximum_delta: what the server may learn about a record, over all plans and restarts, by adding up
    each plan's. allow_seeded: whether noise may come from a seed that the server knows, which is no noise to it.
    """

    methods: tuple[str, ...] | None = None
    minimum_sigma: float = 0.0
    maximum_rounds: int | None = None
    maximum_epsilon: float | None = None
    maximum_delta: float = 1e-4
    allow_seeded: bool = False

    def __post_init__(self) -> None:
        for name in self.methods or ():
            if name not in METHODS:
                raise BadInput(f"methods: {name!r} must be one of {', '.join(METHODS)}")
        if self.minimum_sigma < 0:
            raise BadInput(f"minimum_sigma = {self.minimum_sigma}: must be at least 0")
        for name in ("maximum_rounds", "maximum_epsilon", "maximum_delta"):
            if getattr(self, name) is not None and getattr(self, name) <= 0:
                raise BadInput(f"{name} = {getattr(self, name)}: must be above 0")

    def described(self) -> str:
        """Say in a line what is allowed."""
        rules = (
            f"methods: {', '.join(self.methods or ('any',))}",
            f"sigma at least {self.minimum_sigma:g}",
            f"rounds {_most(self.maximum_rounds)}",
            f"epsilon {_most(self.maximum_epsilon)}",
            f"seeded noise {'allowed' if self.allow_seeded else 'refused'}",
        )
        return "policy: " + "; ".join(rules)

    def objection(self, plan: Plan) -> str | None:
        """Say what in a plan is not allowed, if anything; what was spent before is not asked here."""
        if plan.noise_source is NoiseSource.SEEDED and not self.allow_seeded:
            return "the plan's noise is seeded, so the server could subtract it; this node draws its own or none"
        if self.methods is not None and not any(_is(plan.method, METHODS[name].value) for name in self.methods):
            return f"the method {plan.method.name} is not among {', '.join(self.methods)}"
        if (sigma := least_sigma(plan)) < self.minimum_sigma:
            return f"sigma = {sigma:g} reaches the server at its lowest, and this node asks for {self.minimum_sigma:g}"
        if self.maximum_rounds is not None and plan.rounds > self.maximum_rounds:
            return f"rounds = {plan.rounds}: this node serves at most {self.maximum_rounds}"
        return None


def read(path: Path | None) -> Policy:
    """Read a policy file (TOML), or give the policy that only refuses seeded noise."""
    policy: Policy = Policy() if path is None else codec.decode(Policy, store.read_toml(path))
    return policy


def least_sigma(plan: Plan) -> float:
    """Give the smallest noise scale that hides a unit from the server, in units of the clipping bound.

    A sensitivity below the bound, or a share of the noise, makes less of it than sigma says. Noise that joins at the
    server hides nothing from it: that of Fed-SDP, and that of a quantile clip's counts.
    """
    if plan.method.surface is Surface.SERVER or isinstance(plan.method.clip, Quantile):
        return 0.0
    released = ledger.releases(plan, 0, layers=1, copies=1)[0]
    shared = math.sqrt(plan.cohort) if plan.method.share else 1.0
    return float(plan.sigmas().min() / max(1.0, released.ratio) / shared)


def _is(method: Method, known: Method) -> bool:
    """Whether a method that was sent is the one it is named after: names are only words."""

    def parts(m: Method) -> tuple[object, ...]:
        clip = PerLayer if isinstance(m.clip, Flat) else type(m.clip)  # a dataset may ask for a joint bound
        return m.name, m.surface, m.draw, m.share, type(m.prune), type(m.sensitivity), clip

    return parts(method) == parts(known)


def _most(limit: float | None) -> str:
    return "without limit" if limit is None else f"at most {limit:g}"
