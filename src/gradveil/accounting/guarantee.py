"""A guarantee: an epsilon that cannot be separated from what it assumes."""

import math
from dataclasses import dataclass
from typing import Any

SEEDED = (
    "Noise and sampling come from a seed: this holds only against those who do not know the seed and see one run. Who "
    "knows it can subtract the noise; two runs with one seed on data that differ in a record reveal its gradient."
)
PARAMETERS_ONLY = "It covers the released parameters, not the metrics, recorded leaks and reports in the run folder."
SEARCH = "Tuning settings on the data (learning rate, C, sigma) is not covered."


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy of a unit, against an adversary, under an adjacency and a sampling.

    epsilon is infinite where no finite value holds. accountant: how it was computed. noise_source: seeded or secret.
    """

    epsilon: float
    delta: float
    unit: str
    threat_model: str
    adjacency: str
    sampling: str
    accountant: str
    noise_source: str
    caveats: tuple[str, ...] = ()

    @property
    def finite(self) -> bool:
        """Whether epsilon is finite."""
        return math.isfinite(self.epsilon)

    def plain(self) -> dict[str, Any]:
        """Return the guarantee as strict JSON: infinity is null with finite = false."""
        fields = ("delta", "unit", "threat_model", "adjacency", "sampling", "accountant", "noise_source")
        return {
            "epsilon": self.epsilon if self.finite else None,
            "finite": self.finite,
            **{name: getattr(self, name) for name in fields},
            "caveats": list(self.caveats),
        }

    def __str__(self) -> str:
        bound = f"epsilon {self.epsilon:.3g} at delta {self.delta:g}" if self.finite else "no finite epsilon"
        return f"{bound} for one {self.unit}, threat model {self.threat_model}, {self.adjacency}, {self.sampling}"
