"""What a preset is: settings for a dataset, with learning rates by family of method."""

from dataclasses import dataclass, field

from gradveil.data.partition import Partition, TwoShards
from gradveil.data.sampling import CohortSampling, FixedPass, Sampling
from gradveil.models.features.description import Features
from gradveil.models.networks import Model
from gradveil.privacy.clip import Clip, PerLayer, Unclipped
from gradveil.privacy.method import Method
from gradveil.surface import Surface


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Learning rates by family of method, which the paper does not give; see docs/decisions/0003-learning-rates.md."""

    plain: float
    server: float
    example: float

    def of(self, method: Method) -> float:
        """Choose by where noise is added: nowhere that training feels, on whole updates, or on every local step."""
        if method.noise.silent or isinstance(method.clip, Unclipped):
            return self.plain
        return self.example if method.surface is Surface.EXAMPLE else self.server


PAPER_CLIP, PAPER_SIGMA = PerLayer(4.0), 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """One column of the paper's table of datasets: |D_i|, L, B, T; by default N = 1000, K = 100, C = 4, sigma = 6.

    `clip` and `sigma` replace the paper's in a method that is asked for by name. origin: where the numbers come from.
    """

    client_size: int
    local_steps: int
    batch: int
    rounds: int
    rates: Rates
    model: Model
    clients: int = 1000
    cohort: int = 100
    clip: Clip = PAPER_CLIP
    sigma: float = PAPER_SIGMA
    partition: Partition = field(default_factory=TwoShards)
    sampling: Sampling = field(default_factory=FixedPass)
    cohort_sampling: CohortSampling = CohortSampling.FIXED
    features: Features | None = None
    origin: str = "the paper; learning rates by docs/decisions/0003-learning-rates.md"
