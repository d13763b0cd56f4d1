"""What is audited: a plan, its data, and every epsilon that is claimed of it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradveil.accounting.accountant import account
from gradveil.accounting.release import Ledger
from gradveil.auditing.canaries import CanaryScores, heard_over_nodes
from gradveil.data.dataset import Dataset
from gradveil.data.outlier import load_with_outlier
from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.federation.plan import Plan
from gradveil.federation.plan_data import data_for
from gradveil.runs.budget import Budget, expected_participations
from gradveil.runs.epsilon_records import GuaranteeRecord, PaperAccount
from gradveil.runs.run_records import RoundLine, RunResult

PRINTED = {"fed-alpha-cdp": 0.823, "fed-alpha-cdp-sigma": 0.823, "fed-alpha-cdp-as-coded": 0.823}
"""What the paper prints for a method without a finite guarantee: 100 rounds on MNIST, sigma 6; with a decaying noise
scale it trains until the same epsilon is spent."""
LOUD_DELTA = 0.1
"""A second delta at which the claims are tested: few releases say more there than at a small one."""


@dataclass(frozen=True, slots=True)
class EpsilonClaim:
    """An epsilon that is claimed at a delta against an adversary, None if none is; `paper`: what the paper claims."""

    threat_model: str
    unit: str
    delta: float
    adjacency: str
    epsilon: float | None
    paper: float | None

    @property
    def tested(self) -> float | None:
        """The epsilon that is tested, if any."""
        return self.paper if self.epsilon is None else self.epsilon


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A plan with its data and claims; participations: rounds of the busiest client, ledger: what claims rest on.

    rounds: those that the claims count, fewer than the plan's where a budget ended the run.
    neighbor: the data as they are loaded if the first training record is an outlier; None where that is not known.
    on_nodes: whether it is a run over a network, whose records are on nodes. heard: what it showed of its canaries.
    """

    name: str
    plan: Plan
    dataset: Dataset
    rounds: int
    participations: int
    claims: tuple[EpsilonClaim, ...]
    ledger: Ledger
    neighbor: Dataset | None = None
    on_nodes: bool = False
    heard: CanaryScores | None = None

    def at(self, claim: EpsilonClaim, delta: float) -> float:
        """Return the epsilon that is claimed at another delta."""
        return account(self.ledger, delta, claim.adjacency, claim.threat_model).epsilon


def subject_of(
    plan: Plan,
    dataset: Dataset,
    name: str,
    result: RunResult | None = None,
    named: bool = False,
    neighbor: Dataset | None = None,
) -> Subject:
    """Gather what is claimed: by the result of a run, else by the accountant for the whole plan.

    named: whether a method was named rather than a plan, so that the paper's printed figure is meant. neighbor: the
    dataset as `changed_data` loads it.
    """
    if plan.client_sizes:
        raise BadInput("client_sizes: an audit needs clients of one size; audit the plan without client_column")
    if dataset.target_range is not None:
        raise BadInput(f"audit: {dataset.name} has a number to predict, and canaries have classes")
    dataset = data_for(plan, dataset)
    budget = Budget(plan, dataset, Population.of(plan, dataset).copies if result is None else result.copies)
    most = expected_participations(plan) if result is None else result.max_participations
    rounds = plan.rounds if result is None else result.rounds_counted
    records = budget.all_guarantees(rounds, most) if result is None else list(result.guarantees)
    paper = _paper(plan, budget, rounds, records, named)
    claims = tuple(_claim(record, paper) for record in records)
    neighbor_data = None if neighbor is None else data_for(plan, neighbor)
    return Subject(name, plan, dataset, rounds, most, claims, budget.ledger(rounds, most), neighbor_data)


def over_nodes(subject: Subject, lines: Sequence[RoundLine]) -> Subject:
    """Return the subject as a run whose records are on nodes, with what its lines say of canaries."""
    return replace(subject, on_nodes=True, heard=heard_over_nodes(subject.plan, lines))


def changed_data(plan: Plan) -> Dataset | None:
    """Load the data of a plan with one record far from all others; None where that shows nothing."""
    if plan.client_column is not None or plan.test is not None:
        return None
    return load_with_outlier(plan.dataset, plan.target, plan.schema)


def _claim(record: GuaranteeRecord, paper: float | None) -> EpsilonClaim:
    own = paper if record.unit == "example" and record.epsilon is None else None
    return EpsilonClaim(record.threat_model, record.unit, record.delta, record.adjacency, record.epsilon, own)


def _paper(plan: Plan, budget: Budget, rounds: int, records: Sequence[GuaranteeRecord], named: bool) -> float | None:
    """Return the paper's epsilon for a method whose noise follows the data and that has no finite guarantee."""
    if not plan.method.sensitivity.data_dependent or any(record.epsilon is not None for record in records):
        return None
    if named and plan.method.name in PRINTED:
        return PRINTED[plan.method.name]
    account = budget.as_the_paper_accounts(rounds)
    return account.moments if isinstance(account, PaperAccount) else None
