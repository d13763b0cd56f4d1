"""A release: what one round reveals, as numbers for the accountants; and the ledger, all releases of a run."""

import math
from dataclasses import dataclass

TRIAL = "trial"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The noised sums (or counts) of one round.

    surface: where noise is added, 0 server, 1 update, 2 example. unit: of a lot, "example" or "client".
    part: "sum" of gradients or updates, or "count" of units within a bound.
    sigmas: noise scale of each release of the round, one a local step at the example surface, else one.
    ratio: C / S, the bound on a unit over the sensitivity that scales the noise; infinite if units are not bounded,
    0 if S is private.
    layers: the number M of tensors that are bounded separately, 1 for a joint bound.
    draw, expected: how noise was drawn for the lot of n expected units ("each", "sum", "mean").
    capacity: the most units that a lot can hold; 0 if that is not known.
    client_size: how many records a client holds, 0 if that is not known.
    share: each client draws 1 / sqrt(H) of the noise, with H the clients that are honest and answer.
    honest: H, 0 where all clients of a cohort are. sum_only: nothing but their noised sum is learned from a cohort.
    example_sampling, example_rate: "poisson", "allocation", "fixed-pass", "replacement" or "whole", and B / |D_i|.
    touches: the most batches of a round and client that can hold one record: the passes under a fixed pass and under
    allocation, else L.
    cohort_sampling, cohort_rate, cohort: "fixed" or "poisson", K / N, and K.
    copies: how many clients hold the most copied record. data_dependent: S was computed from the private lot,
    or (`unsound_clip`) the bound on a unit was. trusted: parts of the user's own whose claims are taken as true.
    stage: what was summed, "gradient", or the name of a preparation; or TRIAL, an earlier run on the same records whose
    settings were compared: all that it released, as one sum.
    numbers: how many numbers a client noises in each release, 0 if that is not known.
    masked: a secure sum over nodes, which draw discrete noise; `cohort`, `honest` and `numbers` are then of nodes.
    """

    round: int
    surface: int
    unit: str
    part: str
    sigmas: tuple[float, ...]
    ratio: float
    layers: int
    draw: str
    expected: float
    capacity: int
    client_size: int
    share: bool
    example_sampling: str
    example_rate: float
    touches: int
    cohort_sampling: str
    cohort_rate: float
    cohort: int
    copies: int
    data_dependent: bool
    unsound_clip: bool = False
    trusted: tuple[str, ...] = ()
    honest: int = 0
    sum_only: bool = True
    stage: str = "gradient"
    numbers: int = 0
    masked: bool = False

    @property
    def pool(self) -> int:
        """The clients of a round whose noise stays on its sum, whatever the others subtract."""
        return self.honest or self.cohort

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Return the noise multiplier z of each release: noise on the sum over the most that one unit changes it.

        mu^2 = sum_m (C_m / s_m)^2 with s_m the noise on layer m of the sum, so z = 1 / mu = sigma (S / C) / sqrt(M)
        times 1, sqrt(n) or n for a draw on the sum, each unit or the mean.
        """
        if math.isinf(self.ratio) or self.ratio == 0:
            return (0.0,) * len(self.sigmas)
        scale = {"sum": 1.0, "each": math.sqrt(self.expected), "mean": self.expected}[self.draw]
        shared = math.sqrt(self.pool) if self.share else 1.0
        return tuple(s * scale / (self.ratio * math.sqrt(self.layers) * shared) for s in self.sigmas)


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a run released so far, the most participations of any client, and where its noise came from.

    caveats: sentences that come first in every guarantee of the run. best_of: the mean number of trials, where their
    number is secret and only the settings of the best are seen; `releases` has as many trials as there may be. others:
    the same run for clients that hold or draw other numbers of records; a guarantee is that of the worst.
    """

    releases: tuple[Release, ...]
    participations: int
    noise_source: str = "secret"
    caveats: tuple[str, ...] = ()
    best_of: float | None = None
    others: tuple["Ledger", ...] = ()

    @property
    def sums(self) -> tuple[Release, ...]:
        """The noised sums, one a round."""
        return tuple(r for r in self.releases if r.part == "sum")

    @property
    def counts(self) -> tuple[Release, ...]:
        """The noised counts of an adaptive clip."""
        return tuple(r for r in self.releases if r.part == "count")
