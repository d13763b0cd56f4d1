"""From what single rounds show to the epsilon of a whole run, for each adversary by what it sees.

Rounds are composed as they are: Gaussian releases of the measured mu, in batches of the measured rate. Local steps are
composed only for adversaries who see them; a server of several local steps sees their sum.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from gradveil.accounting.steps import Step, merged
from gradveil.accounting.tight import ADD_REMOVE, pld, pld_of_rounds, pld_with_visible_draws
from gradveil.auditing.bounds import MOST_EPSILON, epsilon_of_scales, hidden_by_a_draw
from gradveil.auditing.measured import Measured
from gradveil.auditing.replay_level import RoundFinding
from gradveil.data.sampling import CohortSampling, FixedPass, Poisson, Whole, WithReplacement
from gradveil.federation.plan import Plan
from gradveil.privacy.adaptive import Quantile
from gradveil.surface import Surface

VIEWS = {
    "central": "model",
    "central-visible": "model",
    "aggregate": "model",
    "server": "update",
    "type2-secret": "steps",
    "type2-known": "steps",
    "client-central": "model",
    "client-server": "update",
}
"""What each adversary sees."""
BY_DRAW = ("central", "central-visible", "client-central")
"""Those against whom a claim counts how likely a client is drawn, and not how often it was."""
FAINT = 1e-9
INDEPENDENT = (FixedPass, Poisson, WithReplacement, Whole)
"""Samplings whose local steps are drawn one by one, or not at all."""


@dataclass(frozen=True, slots=True)
class Lower:
    """A lower bound on epsilon, and the sentence that explains it."""

    epsilon: float
    why: str


def lower_bound(
    plan: Plan, findings: Sequence[RoundFinding], threat: str, counted: int, participations: int, delta: float
) -> Lower:
    """Return the largest epsilon that the findings prove against an adversary: of one release, or of all composed.

    counted: how many rounds of the plan the claims count.
    """
    sees = VIEWS[threat]
    by_client = threat.startswith("client") or plan.method.surface is not Surface.EXAMPLE
    if sees == "steps" and plan.method.surface is not Surface.EXAMPLE:
        return Lower(0.0, "what this adversary sees inside a client is not noised, and nothing is claimed of it")
    certain = _certain(findings, sees, by_client)
    if certain is not None:
        return Lower(MOST_EPSILON, certain)
    scaled = max((_of_scales(f, sees, by_client, threat, delta) for f in findings), default=0.0)
    if scaled > 0:
        return Lower(scaled, "the size of the noise depends on the unit, so that the noise shows it")
    rounds = [_round(plan, _finding_of(plan, findings, t), t, sees, by_client) for t in range(counted)]
    epsilon = min(MOST_EPSILON, _composed(plan, rounds, threat, participations, delta))
    return Lower(epsilon, f"{len(findings)} kinds of rounds replayed, all {counted} rounds composed")


def _certain(findings: Sequence[RoundFinding], sees: str, by_client: bool) -> str | None:
    """Return why a unit shows for certain, if it does."""
    if any(f.flawed for f in findings):
        return "a record that is not a number, or too large for one, passes the clip and shows"
    if any(f.reused > 0.99 for f in findings):
        return "two releases have the same noise, so that their difference has none"
    if any(math.isinf(_seen(f, sees, by_client).mu) for f in findings):
        return "some coordinates that the unit moves carry no noise"
    return None


def _seen(finding: RoundFinding, sees: str, by_client: bool) -> Measured:
    view: Measured = getattr(finding.whole if by_client else finding.one, sees)
    return view


def _of_scales(finding: RoundFinding, sees: str, by_client: bool, threat: str, delta: float) -> float:
    """Return epsilon of one release by the size of its noise alone, hidden by the draw of the batch unless seen.

    One coordinate less is counted, the one along which the sums may differ.
    """
    view = _seen(finding, sees, by_client)
    if not view.follows_data:
        return 0.0

    def certain(at: float) -> float:
        return epsilon_of_scales(view.larger, view.smaller, view.coordinates - 1, at)

    rate = 1.0 if by_client or threat == "type2-known" else max(finding.rates)
    return certain(delta) if rate == 1 else hidden_by_a_draw(certain, rate, delta)


def _finding_of(plan: Plan, findings: Sequence[RoundFinding], t: int) -> list[RoundFinding]:
    """Return the findings that stand for round t: its own preparation, or those of gradients."""
    own = [f for f in findings if (f.t == t if plan.stage(t) else plan.stage(f.t) is None)]
    return own


def _round(plan: Plan, findings: list[RoundFinding], t: int, sees: str, by_client: bool) -> tuple[Step, ...]:
    """Return round t as steps, with the largest mu of its findings scaled to its own sigmas.

    Noise of a count does not follow sigma: where one is released, mu is not scaled up.
    """
    sigmas, most = plan.sigmas(), 1.0 if isinstance(plan.method.clip, Quantile) else math.inf
    best: tuple[Step, ...] = ()
    for f in findings:
        ratios = [float(sigmas[f.t, i] / sigmas[t, i]) if sigmas[t, i] else 1.0 for i in range(plan.local_steps)]
        reused = math.sqrt(1 - min(f.reused, 0.999) ** 2)
        made = _steps(plan, f, sees, by_client, [min(x, most) / reused for x in ratios])
        best = max(best, made, key=_cost)
    return best


def _cost(steps: tuple[Step, ...]) -> float:
    return math.fsum(s.times * s.q * (s.units / s.z) ** 2 for s in steps)


def _steps(plan: Plan, f: RoundFinding, sees: str, by_client: bool, factor: list[float]) -> tuple[Step, ...]:
    view, length = _seen(f, sees, by_client), len(f.rates)
    if plan.method.surface is not Surface.EXAMPLE:
        return _gaussian(view.mu * factor[0])
    if not isinstance(plan.sampling, INDEPENDENT):
        # Steps that share a draw do not compose as if each had its own: the likeliest of them alone is what is shown.
        own = _gaussian(view.mu * min(factor)) if not by_client else ()
        return tuple(s._replace(q=max(f.rates)) for s in own)
    if by_client:
        units, rate = plan.client_size * length, plan.batch / plan.client_size
        most = plan.sampling.capacities(plan.client_size, plan.batch)[-1] * length
        if isinstance(plan.sampling, Poisson) and rate < 1:
            return tuple(s._replace(q=rate, units=units, most=most) for s in _gaussian(view.mu * factor[0]))
        return _gaussian(view.mu * factor[0] * plan.batch * length)
    if sees == "steps":
        mus = [max(view.mus[i::length]) * factor[i] for i in range(length)]
        return merged(*(tuple(s._replace(q=q) for s in _gaussian(mu)) for mu, q in zip(mus, f.rates, strict=True)))
    sure = [q for q in f.rates if q == 1]
    if len(sure) == len([q for q in f.rates if q > 0]):
        return _gaussian(view.mu * factor[0] * max(len(sure), 1))
    return tuple(s._replace(q=min(f.rates), units=length, most=length) for s in _gaussian(view.mu * factor[0]))


def _gaussian(mu: float) -> tuple[Step, ...]:
    return (Step(1 / mu, 1.0, 1),) if mu > FAINT else ()


def _composed(plan: Plan, rounds: list[tuple[Step, ...]], threat: str, participations: int, delta: float) -> float:
    """Compose the rounds as the adversary sees them."""
    if threat in BY_DRAW:
        secret = threat != "central-visible" and plan.cohort_sampling is CohortSampling.POISSON
        return pld_of_rounds(rounds, 1, plan.cohort / plan.clients, delta, ADD_REMOVE, secret or threat == "central")
    costly = merged(*sorted(rounds, key=_cost, reverse=True)[:participations])
    if not costly:
        return 0.0
    return pld_with_visible_draws(costly, delta) if threat == "type2-known" else pld(costly, delta)
