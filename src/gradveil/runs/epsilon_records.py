"""Epsilons as a run writes them down: guarantees, figures that are none, and how each grew over the rounds.

Infinity is null, since JSON has no word for it.
"""

from dataclasses import dataclass, field
from typing import Any

from gradveil import codec
from gradveil.accounting.guarantee import Guarantee
from gradveil.accounting.threats import THREATS
from gradveil.errors import BadInput, quoted


@dataclass(frozen=True, slots=True, kw_only=True)
class GuaranteeRecord:
    """(epsilon, delta)-differential privacy of one unit against one adversary; epsilon is null where none is finite."""

    epsilon: float | None
    finite: bool
    delta: float
    unit: str
    threat_model: str
    adjacency: str
    sampling: str
    accountant: str
    noise_source: str
    caveats: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.finite != (self.epsilon is not None):
            raise BadInput(f"finite = {self.finite}: epsilon = {self.epsilon} says otherwise")

    @staticmethod
    def of(guarantee: Guarantee) -> "GuaranteeRecord":
        """Write a guarantee down."""
        return codec.decode(GuaranteeRecord, guarantee.plain())

    def plain(self) -> dict[str, Any]:
        """Return it as JSON."""
        return codec.record(self)  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True, kw_only=True)
class PresumedEpsilon:
    """A figure that some would quote and that is no guarantee: the label says why."""

    threat_model: str
    unit: str
    delta: float
    adjacency: str
    epsilon: float | None
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperEpsilons:
    """Epsilon by the four accountants of the paper, for `steps` steps at the sampling rate q."""

    base: float | None
    advanced: float | None
    zcdp: float | None
    moments: float | None
    delta: float
    q: float
    steps: int
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperClientEpsilon:
    """Epsilon of one round of one client as the paper sums it up, by base composition alone."""

    base: float | None
    delta: float
    q: float
    steps: int
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperAccount:
    """What the paper's own rules give, which is no guarantee: the figures that it prints, and all readings of them."""

    base: float | None
    advanced: float | None
    zcdp: float | None
    moments: float | None
    delta: float
    q: float
    steps: int
    meaning: str
    label: str
    rows: tuple[PaperEpsilons | PaperClientEpsilon, ...]


@dataclass(frozen=True, slots=True)
class NoPaperAccount:
    """Nothing: the paper's rules give no figure for this method."""


def paper_account(plain: dict[str, Any]) -> PaperAccount | NoPaperAccount:
    """Read what `accounting.as_paper` gives."""
    return codec.decode(PaperAccount, plain) if plain else NoPaperAccount()


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonCurve:
    """How epsilon grew against one adversary: epsilon[i] after rounds[i]."""

    threat_model: str
    unit: str
    rounds: tuple[int, ...]
    epsilon: tuple[float | None, ...]

    def __post_init__(self) -> None:
        refuse_unknown(self.threat_model)


@dataclass(frozen=True, slots=True, kw_only=True)
class PaperCurves:
    """How the paper's figures grew, one list by accountant, after each of `rounds`; those that gave a number."""

    rounds: tuple[int, ...]
    moments: tuple[float, ...] | None = field(default=None, metadata=codec.OPTIONAL)
    base: tuple[float, ...] | None = field(default=None, metadata=codec.OPTIONAL)
    advanced: tuple[float, ...] | None = field(default=None, metadata=codec.OPTIONAL)
    zcdp: tuple[float, ...] | None = field(default=None, metadata=codec.OPTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonCurves:
    """How epsilon grew over a run: sound curves by adversary, and as the paper accounts."""

    sound: tuple[EpsilonCurve, ...]
    as_the_paper_accounts: PaperCurves


def refuse_unknown(threat_model: str) -> None:
    """Refuse an adversary that is none of `accounting.threats.THREATS`."""
    if threat_model not in THREATS:
        raise BadInput(f"threat_model = {quoted(threat_model)}: must be one of {', '.join(THREATS)}")
