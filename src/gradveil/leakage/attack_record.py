"""AttackRecord: what an attack was, what it found, and how that is judged beside a guess that reads no gradient.

A JSON Schema is in docs/schemas.
"""

from dataclasses import dataclass, field
from typing import Any, Literal

from gradveil import codec
from gradveil.attacks.score import VictimScore
from gradveil.errors import BadInput
from gradveil.leakage.membership_record import MembershipRecord
from gradveil.surface import Surface

Verdict = Literal["leaks", "nothing-found", "too-few-victims"]
"""See `leakage/verdict.py`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackSettings:
    """All that decides an attack: the whole plan, the attack with its parts, and how it read and judged."""

    plan: dict[str, Any]
    attack: str
    surface: int
    view: str
    single: bool
    trained: bool
    rounds: tuple[int, ...]
    readings: int
    told_labels: bool
    rule: str
    seed: int
    victims: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateRecord:
    """How often the true record was told from n - 1 others, with its 95 % interval, beside what could be reached.

    trials: every example of every victim is one. optimum: what the best adversary reaches on these very trials, over
    the noise of the mechanism; null where it is not known. bound: the most that any adversary can reach against
    Gaussian noise of this mu, whatever the records; null where nothing bounds it.
    """

    n: int
    trials: int
    success: float
    success_ci: tuple[float, float]
    chance: float
    optimum: float | None
    bound: float | None
    mu: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackRecord:
    """One attack: what was attacked and how, means over its victims, and each victim.

    surface: 0 the server, 1 the client's update, 2 during local training. round: rounds done before the reading.
    not_fitted: victims whose reading the attack did not fit, so that its guess says nothing. gain: prior_rmse -
    mean_rmse over the others, with its 95 % interval gain_ci, null for fewer than two of them; over all where none was
    fitted. verdict: whether the attack found a leak, by gain and identification. resilient: whether it found nothing.
    identification: share of guesses whose nearest of 1000 records is the truth. labels: label accuracy by rule of
    inference, null where a rule cannot be applied. settings_sha256: names the very same attack. cohort: the clients
    that one reading is of; `batch` counts the examples of all of them. membership: of the attack of that name, which
    rebuilds nothing: its errors are those of a guess that reads no gradient.
    """

    dataset: str
    method: str
    attack: str
    surface: int
    view: str
    setting: str
    network: str
    round: int
    batch: int
    local_steps: int
    readings: int
    told_labels: bool
    sigma: float
    rule: str
    rule_meaning: str
    seed: int
    victims: int
    settings: AttackSettings
    settings_sha256: str
    success_rate: float
    mean_rmse: float
    mean_mse: float
    mean_rmse_unclamped: float
    mean_psnr: float
    mean_ssim: float | None
    prior_rmse: float
    class_mean_rmse: float
    gain: float
    gain_ci: tuple[float, float] | None
    verdict: Verdict
    resilient: bool
    resilient_by_the_papers_rule: bool
    mean_iterations: float
    mean_evaluations: float
    label_accuracy: float | None
    label_prior: float
    identification: float
    feature_accuracy: float | None
    feature_baseline: float | None
    diverged: int
    not_fitted: int
    per_victim: tuple[VictimScore, ...]
    labels: dict[str, float | None]
    candidates: tuple[CandidateRecord, ...]
    seconds: float
    cohort: int
    membership: MembershipRecord | None = field(default=None, metadata=codec.OPTIONAL)

    def __post_init__(self) -> None:
        if self.surface not in list(Surface):
            raise BadInput(f"surface = {self.surface}: must be one of {', '.join(str(int(s)) for s in Surface)}")

    def plain(self) -> dict[str, Any]:
        """Return it as JSON."""
        return codec.record(self)  # type: ignore[no-any-return]
