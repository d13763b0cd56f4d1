"""What the owner of the data allows: a node refuses every plan beyond it, whatever the server orders."""

import math
import re
from dataclasses import dataclass, replace
from pathlib import Path

from gradveil import codec
from gradveil.errors import BadInput, quoted
from gradveil.federation import ledger
from gradveil.federation.plan import NoiseSource, Plan
from gradveil.federation.secure_sum import LEAST_HONEST
from gradveil.fields import whole
from gradveil.methods import METHODS
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.clip import Flat, PerLayer
from gradveil.privacy.method import Method
from gradveil.runs import store
from gradveil.surface import Surface

SERVER, AGGREGATE = "server", "aggregate"
"""Adversaries of a node: one who sees every update with its client's name, or only sums over nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The limits of a node; None is no limit.

    methods: names that are allowed. minimum_sigma: the noise that every sum of units must have, as a multiple of the
    clipping bound C; noise that only the server promises to add, and noise that follows the data, do not count.
    maximum_rounds: rounds served, over all plans. maximum_epsilon, maximum_delta: what the server may learn about a
    record, over all plans and restarts, by adding up each plan's. allow_seeded: whether noise may come from a seed that
    the server knows and can subtract. allow_no_guarantee: whether methods may run for which no finite epsilon holds
    against the server. model_sha256: digest of the only model that may be trained. drawn_weights: whether the weights
    of round 0 must be those that the plan's seed draws; later ones follow from updates that this node cannot check.
    audit_canaries: how many of this node's records may give their places to canaries.

    Of secure sums: adversary: against whom epsilon and sigma of such a plan are counted, "server" (as if all others
    colluded) or "aggregate". roster: fingerprint of the only roster that may be pinned; required for "aggregate".
    tolerated: colluding nodes that a plan must at least bear. minimum_nodes: the fewest of a sum, by default two thirds
    of the roster. maximum_alone_epsilon: what may be learned if all others collude, over all plans and restarts.
    """

    methods: tuple[str, ...] | None = None
    minimum_sigma: float = 0.0
    maximum_rounds: int | None = None
    maximum_epsilon: float | None = None
    maximum_delta: float = 1e-4
    allow_seeded: bool = False
    allow_no_guarantee: bool = False
    model_sha256: str | None = None
    drawn_weights: bool = False
    adversary: str = SERVER
    roster: str | None = None
    tolerated: int = 1
    minimum_nodes: int | None = None
    maximum_alone_epsilon: float | None = None
    audit_canaries: int = 0

    def __post_init__(self) -> None:
        if self.model_sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.model_sha256):
            raise BadInput(f"model_sha256 = {quoted(self.model_sha256)}: must be 64 digits from 0 to f")
        whole("audit_canaries", self.audit_canaries, 0)
        for name in self.methods or ():
            if name not in METHODS:
                raise BadInput(f"methods: {name!r} must be one of {', '.join(METHODS)}")
        if not 0 <= self.minimum_sigma < math.inf:
            raise BadInput(f"minimum_sigma = {self.minimum_sigma}: must be a finite number, at least 0")
        self._check_sums()
        for name in ("maximum_rounds", "maximum_epsilon", "maximum_delta", "maximum_alone_epsilon"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < math.inf:
                raise BadInput(f"{name} = {getattr(self, name)}: must be a finite number above 0")

    def _check_sums(self) -> None:
        if self.adversary not in (SERVER, AGGREGATE):
            raise BadInput(f"adversary = {quoted(self.adversary)}: must be {SERVER} or {AGGREGATE}")
        if self.roster is not None:
            object.__setattr__(self, "roster", "".join(self.roster.split()))
        if self.roster is not None and not re.fullmatch("[0-9a-f]{64}", self.roster):
            raise BadInput(f"roster = {quoted(self.roster)}: must be a fingerprint, 64 digits from 0 to f")
        if self.adversary == AGGREGATE and self.roster is None:
            raise BadInput(
                f"adversary = {quoted(AGGREGATE)}: needs roster = the fingerprint that all nodes compared, which "
                "`gradveil federate roster` prints"
            )
        least = self.tolerated + LEAST_HONEST
        if self.tolerated < 1 or (self.minimum_nodes is not None and self.minimum_nodes < least):
            raise BadInput(
                f"tolerated = {self.tolerated}, minimum_nodes = {self.minimum_nodes}: must be at least 1, and at least "
                f"{LEAST_HONEST} more than that"
            )

    def described(self) -> str:
        """Return in one line what is allowed."""
        rules = (
            f"methods: {', '.join(self.methods or ('any',))}",
            f"sigma at least {self.minimum_sigma:g}",
            f"rounds {_limit(self.maximum_rounds)}",
            f"epsilon {_limit(self.maximum_epsilon)}",
            f"seeded noise {'allowed' if self.allow_seeded else 'refused'}",
            f"methods without a guarantee {'allowed' if self.allow_no_guarantee else 'refused'}",
            f"model {'any' if self.model_sha256 is None else self.model_sha256[:12]}",
            f"first weights {'as the seed draws them' if self.drawn_weights else 'any'}",
            f"secure sums counted against {self.adversary}, {self.tolerated} colluding nodes borne",
            f"canaries {self.audit_canaries or 'none'}",
        )
        return "policy: " + "; ".join(rules)

    def objection(self, plan: Plan) -> str | None:
        """Return what in a plan is not allowed, None if all is; earlier spending is not considered here."""
        if plan.noise_source is NoiseSource.SEEDED and not self.allow_seeded:
            return "noise_source = seeded: the server could subtract the noise, and this node requires secret noise"
        if self.methods is not None and not any(_is(plan.method, METHODS[name].value) for name in self.methods):
            return f"method = {plan.method.name}: this node allows only {', '.join(self.methods)}"
        if self.model_sha256 is not None and (digest := model_digest(plan)) != self.model_sha256:
            return f"model = {plan.model} (sha256 {digest}): this node trains only the model {self.model_sha256}"
        if not self.allow_no_guarantee and (reason := unguarded(plan)) is not None:
            return f"{reason}, so no finite epsilon holds against the server, and this node requires one"
        if plan.secure_sum is not None and plan.secure_sum.colluders < self.tolerated:
            return f"tolerated = {plan.secure_sum.colluders}: this node requires at least {self.tolerated}"
        if (sigma := least_sigma(plan, self.adversary)) < self.minimum_sigma:
            return (
                f"sigma = {sigma:g}: the least noise on what the server sees, as a multiple of the clipping bound; "
                f"this node requires {self.minimum_sigma:g}"
            )
        if self.maximum_rounds is not None and plan.rounds > self.maximum_rounds:
            return f"rounds = {plan.rounds}: this node serves at most {self.maximum_rounds}"
        return None


STRICT = Policy(
    methods=("fed-cdp", "fed-sdp-client"),
    minimum_sigma=1.0,
    maximum_rounds=100,
    maximum_epsilon=8.0,
)
"""What `gradveil federate policy` writes by default."""


def read(path: Path) -> Policy:
    """Return the policy in a TOML file; one without maximum_epsilon must set allow_no_guarantee."""
    policy: Policy = codec.decode(Policy, store.read_toml(path))
    if policy.maximum_epsilon is None and not policy.allow_no_guarantee:
        raise BadInput(
            f"{str(path)!r}: maximum_epsilon is missing; set it, or allow_no_guarantee = true if no limit is wanted"
        )
    return policy


def model_digest(plan: Plan) -> str:
    """Return the SHA-256 of a plan's model as a plan file has it, with its kind."""
    return codec.digest(codec.encode(plan)["model"])


def unguarded(plan: Plan) -> str | None:
    """Return why no finite epsilon holds for a plan against the server; None if one does."""
    method = plan.method
    if method.surface is Surface.SERVER:
        return f"the method {method.name} adds noise only at the server, which sees the updates without it"
    if method.sensitivity.data_dependent:
        return f"the noise of the method {method.name} follows the private gradients (l2-max)"
    if not method.clip.sound:
        return f"the clipping bound of the method {method.name} follows the private gradients"
    if isinstance(method.clip, Quantile):
        return f"the method {method.name} sends the server counts without noise"
    if least_sigma(plan) == 0:
        return f"the method {method.name} does not clip and noise every step"
    return None


def least_sigma(plan: Plan, adversary: str = SERVER) -> float:
    """Return the least noise on a sum of units that the server sees, as a multiple of the clipping bound C.

    adversary: "aggregate" counts the noise of all honest nodes of a secure sum, "server" that of one.

    It is sigma S / C times 1, sqrt(n) or n for a draw on the sum of n units, on each, or on their mean, and over
    sqrt(K) where clients share the noise. 0 if units are not bounded, if S follows the data and may be as small as they
    are, or if noise is added only at the server, which sees the values before: Fed-SDP, and the counts of a quantile
    clip.
    """
    method = plan.method
    if method.surface is Surface.SERVER or isinstance(method.clip, Quantile) or method.sensitivity.data_dependent:
        return 0.0
    released = replace(ledger.releases(plan, 0, layers=1, copies=1)[0], sigmas=(1.0,))
    drawn = plan.sigmas() if method.surface is Surface.EXAMPLE else plan.sigmas()[:, :1]
    together = math.sqrt(released.pool) if released.masked and adversary == AGGREGATE else 1.0
    return float(drawn.min() * released.noise_multipliers[0] * together)


def _is(method: Method, reference: Method) -> bool:
    """Whether a method has the parts of the known one of its name; a server could send any name."""

    def parts(m: Method) -> tuple[object, ...]:
        clip = PerLayer if isinstance(m.clip, Flat) else type(m.clip)  # a dataset may ask for a joint bound
        return m.name, m.surface, m.draw, m.share, type(m.prune), type(m.sensitivity), clip

    return parts(method) == parts(reference)


def _limit(limit: float | None) -> str:
    return "without limit" if limit is None else f"at most {limit:g}"
