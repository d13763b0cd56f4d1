"""AuditRecord: for every guarantee what is claimed, what was measured, and what that says."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from gradveil import codec

AuditVerdict = Literal["refuted", "consistent", "no-power"]
MARGIN = 1e-3
"""Accountants round epsilon up, by less than this share, so a lower bound that they computed may be too large by it."""
AUDIT = "audit.json"
"""The record's name in a run folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One guarantee at one level.

    claimed: epsilon, null where no finite one is claimed; paper_claims: the paper's figure for a method without any.
    lower_bound: at least this large is the true epsilon, with the confidence. ceiling: the most that this audit could
    have shown. verdict: refuted where the lower bound exceeds what is claimed (or the paper claims), no-power where the
    ceiling does not, else consistent.
    """

    threat_model: str
    unit: str
    delta: float
    adjacency: str
    claimed: float | None
    paper_claims: float | None
    lower_bound: float
    ceiling: float
    confidence: float
    level: str
    verdict: AuditVerdict
    why: str
    seconds: float

    @property
    def tested(self) -> float | None:
        """The epsilon that is tested, if any."""
        return self.paper_claims if self.claimed is None else self.claimed


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """An audit: of what, when, with which seed; its rows, and the verdict of all of them."""

    verdict: AuditVerdict
    rows: tuple[AuditRow, ...]
    subject: str
    dataset: str | None
    plan_sha256: str | None
    date: str
    seed: int

    def plain(self) -> dict[str, Any]:
        """Return it as JSON."""
        return codec.record(self)  # type: ignore[no-any-return]


def judged(tested: float | None, lower_bound: float, ceiling: float) -> AuditVerdict:
    """Judge one guarantee; where nothing is claimed there is nothing to contradict."""
    if tested is None:
        return "consistent"
    if lower_bound > tested * (1 + MARGIN):
        return "refuted"
    return "no-power" if ceiling <= tested * (1 + MARGIN) else "consistent"


def overall(rows: Sequence[AuditRow]) -> AuditVerdict:
    """Judge an audit: refuted if a row is; consistent if a row that tests something is; else without power."""
    if any(row.verdict == "refuted" for row in rows):
        return "refuted"
    nothing = all(row.tested is None for row in rows)
    tested = any(row.verdict == "consistent" and row.tested is not None for row in rows)
    return "consistent" if nothing or tested else "no-power"
