"""The one verdict on an attack: it found a leak, it found nothing, or there were too few victims to tell."""

from collections.abc import Sequence

from scipy.stats import binomtest

from gradveil.attacks.score import OTHERS, VictimScore
from gradveil.leakage.attack_record import CandidateRecord, Verdict
from gradveil.leakage.membership_record import MembershipRecord

NEGLIGIBLE = 0.1
"""Share of what there is to gain that may be missed: of the prior-only error, of the way from chance to certainty."""
ROUNDING = 1e-6
"""A gain that the order of summation explains."""


def verdict(
    gain_ci: tuple[float, float] | None,
    prior_rmse: float,
    candidates: Sequence[CandidateRecord],
    nearest: bool,
    not_fitted: int = 0,
    membership: MembershipRecord | None = None,
) -> Verdict:
    """Judge an attack by its gain and by how often it told the true record from others, each with its interval.

    leaks: the interval of the gain lies above 0, or that of an identification above chance, or `nearest` (see
    `finds_nearest`). nothing-found: none of these, and both could have been seen: the gain ends within NEGLIGIBLE of
    the prior-only error, candidates were tried of which no adversary tells the true one clearly better than by chance,
    and every victim was fitted: an attack that did not fit has not looked. Else too few victims. gain_ci is that of the
    victims that were fitted. An attack on membership rebuilds nothing and is judged by that alone.
    """
    if membership is not None:
        return _of_membership(membership)
    identifies = any(c.success_ci[0] > c.chance for c in candidates)
    if identifies or nearest or (gain_ci is not None and gain_ci[0] > ROUNDING):
        return "leaks"
    if not_fitted or not candidates or gain_ci is None or gain_ci[1] > NEGLIGIBLE * prior_rmse:
        return "too-few-victims"
    return "too-few-victims" if any(_might_be_told(c) for c in candidates) else "nothing-found"


def _might_be_told(c: CandidateRecord) -> bool:
    """Whether records may be told apart, although the trials do not show it.

    By the best adversary; where that one is not known, by any whom the interval and the bound leave possible.
    """
    most = c.optimum if c.optimum is not None else min(c.success_ci[1], 1.0 if c.bound is None else c.bound)
    return most - c.chance > NEGLIGIBLE * (1 - c.chance)


def _of_membership(membership: MembershipRecord) -> Verdict:
    """Judge how members were told from others.

    leaks: the interval of the AUC lies above 0.5, or that of a TPR above that of its false alarms. nothing-found: the
    AUC ends within NEGLIGIBLE of the way from chance to certainty.
    """
    sure = any(r.tpr_ci and r.false_alarm_ci and r.tpr_ci[0] > r.false_alarm_ci[1] for r in membership.rates)
    if sure or membership.auc_ci[0] > 0.5:
        return "leaks"
    return "nothing-found" if membership.auc_ci[1] <= 0.5 + NEGLIGIBLE / 2 else "too-few-victims"


def finds_nearest(scores: Sequence[VictimScore], examples: int, public: int) -> bool:
    """Whether guesses are nearest to their truth, of up to 1000 public records, for more victims than by chance.

    A victim counts if half of its guesses are. A guess that reads nothing is as near to any of m + 1 records, and is
    paired with the best of `examples`: by Markov's inequality that happens with at most 2 examples / (m + 1).
    """
    hits = sum(one.nearest_is_truth >= 0.5 for one in scores)
    chance = min(1.0, 2 * examples / (min(public, OTHERS) + 1))
    return bool(binomtest(hits, len(scores)).proportion_ci().low > chance)
