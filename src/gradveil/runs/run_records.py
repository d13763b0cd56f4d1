"""What a run writes down: RoundLine, a line of metrics.jsonl, and RunResult, the content of result.json.

JSON Schemas of both are in docs/schemas.
"""

from dataclasses import dataclass, field
from typing import Any, Protocol

from gradveil import codec
from gradveil.fields import MOST, whole
from gradveil.runs.epsilon_records import (
    EpsilonCurves,
    GuaranteeRecord,
    NoPaperAccount,
    PaperAccount,
    PresumedEpsilon,
    refuse_unknown,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesRecord:
    """A round over a network: who was missing and why, who was slowest, seconds by node, and bytes that crossed."""

    missing: dict[str, str]
    slowest: str | None
    seconds: dict[str, float]
    bytes_down: int
    bytes_up: int


@dataclass(frozen=True, slots=True)
class CanariesRecord:
    """What a round over a network showed of each canary: in its client's update, and in the sum of all updates."""

    client: tuple[float, ...]
    everyone: tuple[float, ...]


class Tested(Protocol):
    """What says how good a model is: one of the two, by what is predicted."""

    @property
    def accuracy(self) -> float | None:
        """The share of test examples that are right."""

    @property
    def rmse(self) -> float | None:
        """The root of the mean squared error, in the units of the target."""


def quality(tested: Tested) -> str:
    """Say how good a model is in two words.

    >>> from gradveil.federation.evaluate import Score
    >>> quality(Score(0.5, 0.1, 10)), quality(Score(None, 0.1, 10, 12.3456))
    ('accuracy 0.500', 'RMSE 12.35')
    """
    if tested.accuracy is not None:
        return f"accuracy {tested.accuracy:.3f}"
    return "an RMSE that is not finite" if tested.rmse is None else f"RMSE {tested.rmse:.4g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundLine:
    """One finished round: how good the model is, what was done to gradients, what is spent, and what it took.

    round: counted from 0. stop_accuracy: on the split by which target_accuracy is judged. clip: the bound C.
    equivalent_sigma: sigma C / S. cohort: clients that took part. max_participations: rounds of the busiest client.
    spent: by the plan's accountant, null in rounds that were not accounted. rounds_left: that max_epsilon affords.
    norm_quantiles: l2 norms of gradients of single examples in runs without protection. state_sha256: of parameters,
    clip state and participations. nodes, attempts: only over a network. chain: the digest that ties the line to the
    plan and to all lines before it. rmse: in place of the accuracies where a number is predicted, in its units;
    stop_rmse: on the split by which target_rmse is judged, where there is one.
    """

    round: int
    accuracy: float | None
    loss: float | None
    stop_accuracy: float | None
    sigma: float
    sensitivity: float | None
    clip: float | None
    unit_norm: float | None
    clipped_share: float | None
    equivalent_sigma: float | None
    cohort: int
    max_participations: int
    spent: GuaranteeRecord | None
    rounds_left: int | None
    norm_quantiles: dict[str, float | None] | None
    state_sha256: str
    seconds: float
    nodes: NodesRecord | None = field(default=None, metadata=codec.OPTIONAL)
    canaries: CanariesRecord | None = field(default=None, metadata=codec.OPTIONAL)
    attempts: int | None = field(default=None, metadata=codec.OPTIONAL)
    rmse: float | None = field(default=None, metadata=codec.OPTIONAL)
    stop_rmse: float | None = field(default=None, metadata=codec.OPTIONAL)
    chain: str

    def plain(self) -> dict[str, Any]:
        """Return it as JSON."""
        return codec.record(self)  # type: ignore[no-any-return]

    def rounds_to_come(self, planned: int) -> int:
        """Return how many of the planned rounds are left after this one; a budget may allow fewer."""
        to_come = planned - self.round - 1
        return to_come if self.rounds_left is None else min(to_come, self.rounds_left)


@dataclass(frozen=True, slots=True)
class Earlier:
    """A stretch of rounds, up to `until`, that was trained when the plan had another number of rounds."""

    until: int
    rounds: int

    def __post_init__(self) -> None:
        whole("until", self.until, 0, MOST)
        whole("rounds", self.rounds, 0, MOST)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRecord:
    """One client that the data name: its training examples, its rounds, and the epsilon that it spent.

    epsilon: against the plan's threat model, null if it is not finite. rate: at which it drew its records. weight: of
    its updates, 1 on average over all clients.
    """

    name: str
    examples: int
    participations: int
    epsilon: float | None
    rate: float
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RunResult:
    """What came of a run: accuracy, guarantees against every adversary, and digests of all that it rests on.

    accuracy_interval: 95 %, Clopper-Pearson. rounds_counted: rounds that the guarantees count. copies: clients that
    hold the most copied record. data_sha256: null for a user's own data. metrics_head: the chain of the last line.
    suggested_clip: a range for C from the gradients of a run without protection. clients: each of them, where the data
    name them. rmse, mean_baseline: where a number is predicted, in its units and in place of the accuracies: that of
    the model, and of always predicting the mean of the training rows.
    """

    dataset: str
    method: str
    accuracy: float | None
    accuracy_interval: tuple[float, float] | None
    loss: float | None
    majority_baseline: float | None
    test_examples: int
    rounds: int
    rounds_counted: int
    earlier_rounds: tuple[Earlier, ...]
    stopped_because: str | None
    run_dir: str
    seconds: float
    seed: int
    noise_source: str
    draw: str
    copies: int
    max_participations: int
    plan_sha256: str
    data_sha256: str | None
    params_sha256: str
    metrics_head: str
    suggested_clip: tuple[float, float] | None
    guarantees: tuple[GuaranteeRecord, ...]
    presumed: tuple[PresumedEpsilon, ...]
    as_the_paper_accounts: NoPaperAccount | PaperAccount
    epsilon_over_rounds: EpsilonCurves
    clients: tuple[ClientRecord, ...] | None = field(default=None, metadata=codec.OPTIONAL)
    rmse: float | None = field(default=None, metadata=codec.OPTIONAL)
    mean_baseline: float | None = field(default=None, metadata=codec.OPTIONAL)

    def __post_init__(self) -> None:
        whole("rounds", self.rounds, 0, MOST)
        for guarantee in self.guarantees:
            refuse_unknown(guarantee.threat_model)

    def plain(self) -> dict[str, Any]:
        """Return it as JSON."""
        return codec.record(self)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"RunResult({self.method} on {self.dataset}, {self.rounds} rounds, {quality(self)})"

    def guarantee(self, threat_model: str) -> GuaranteeRecord:
        """Return what holds against one adversary."""
        refuse_unknown(threat_model)
        return next(guarantee for guarantee in self.guarantees if guarantee.threat_model == threat_model)
