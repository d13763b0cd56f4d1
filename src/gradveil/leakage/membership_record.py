"""MembershipRecord: how well members were told from others, beside what a guarantee allows."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RateRecord:
    """Members told at a rate of false alarms: TPR at one FPR, both with their 95 % interval (Clopper and Pearson).

    needed: non-members without which no threshold has this FPR; with fewer, hits and false_alarms are null, and so are
    the rates. hits: members above the threshold. false_alarms: non-members above it, of those that did not set it.
    bound: the largest TPR that the guarantee allows at this FPR; null where there is none.
    """

    fpr: float
    needed: int
    hits: int | None
    tpr: float | None
    tpr_ci: tuple[float, float] | None
    false_alarms: int | None
    false_alarm_ci: tuple[float, float] | None
    bound: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipRecord:
    """Scores of members and others, compared.

    reads: "gradient" or "model". score: what it was. members, others: how many were judged; calibration: further
    non-members, by which thresholds were set. auc: how often a member scores higher than another, 0.5 by chance.
    guarantee: what bounds the rates, in words; mu, epsilon, delta, threat_model: its numbers, null where it has none.
    """

    reads: str
    score: str
    members: int
    others: int
    calibration: int
    auc: float
    auc_ci: tuple[float, float]
    rates: tuple[RateRecord, ...]
    guarantee: str
    mu: float | None
    epsilon: float | None
    delta: float | None
    threat_model: str | None
