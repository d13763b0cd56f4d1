"""From a claim and what was measured of it to a judged row."""

from gradveil.auditing.audit_record import AuditRow, judged
from gradveil.auditing.subject import EpsilonClaim


def row_of(
    claim: EpsilonClaim, level: str, lower: float, ceiling: float, confidence: float, why: str, seconds: float
) -> AuditRow:
    """Return the judged row of a claim."""
    return AuditRow(
        threat_model=claim.threat_model,
        unit=claim.unit,
        delta=claim.delta,
        adjacency=claim.adjacency,
        claimed=claim.epsilon,
        paper_claims=claim.paper,
        lower_bound=lower,
        ceiling=ceiling,
        confidence=confidence,
        level=level,
        verdict=judged(claim.tested, lower, ceiling),
        why=why,
        seconds=round(seconds, 3),
    )
