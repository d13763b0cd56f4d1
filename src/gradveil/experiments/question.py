"""A question to the accountant without any training: noise, sampling and rounds as numbers."""

import math
from dataclasses import dataclass, replace

import numpy as np

from gradveil.accounting.release import Release
from gradveil.accounting.steps import Step, grouped
from gradveil.accounting.threats import Ledger
from gradveil.errors import BadInput
from gradveil.fields import whole
from gradveil.methods import DECAYS, decay

MOST, MOST_COPIES = 10_000_000, 10_000
LEAST_SIGMA, MOST_SIGMA, LEAST_RATE = 1e-2, 1e6, 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: sigma_0 (and where it decays to), B / |D_i|, T rounds of L local steps.

    participations: how often the busiest client takes part, all rounds if not said. client_rate: K / N.
    """

    sigma: float
    rate: float
    rounds: int
    local_steps: int
    decay: str = "constant"
    sigma_end: float | None = None
    layers: int = 1
    batch: int = 1
    draw: str = "sum"
    sampling: str = "poisson"
    client_rate: float = 1.0
    participations: int | None = None
    copies: int = 1

    def __post_init__(self) -> None:
        for name, value in (("q", self.rate), ("client_q", self.client_rate)):
            if not LEAST_RATE <= value <= 1:
                raise BadInput(f"{name} = {value}: a sampling rate is at least {LEAST_RATE:g} and at most 1")
        if not LEAST_SIGMA <= self.sigma <= MOST_SIGMA:
            raise BadInput(f"sigma = {self.sigma}: must lie between {LEAST_SIGMA:g} and {MOST_SIGMA:g}")
        for name, most in (("rounds", MOST), ("local_steps", MOST), ("layers", MOST_COPIES), ("batch", MOST)):
            whole(name, getattr(self, name), most=most)
        whole("copies", self.copies, most=MOST_COPIES)
        if self.rounds * self.local_steps > MOST:
            raise BadInput(f"rounds x local_steps = {self.rounds} x {self.local_steps}: must be at most {MOST}")
        if self.participations is not None and not 1 <= self.participations <= self.rounds:
            raise BadInput(f"participations = {self.participations}: must lie between 1 and rounds = {self.rounds}")
        self._check_end()
        for name, known in (("decay", DECAYS), ("draw", DRAWS), ("sampling", SAMPLINGS)):
            if getattr(self, name) not in known:
                raise BadInput(f"{name} = {getattr(self, name)!r}: must be one of {', '.join(known)}")
        self.sigmas()

    def _check_end(self) -> None:
        if self.sigma_end is None:
            return
        if self.decay == "constant":
            raise BadInput(f"sigma_end = {self.sigma_end}: needs --decay, since a constant noise scale has no end")
        if not 0 <= self.sigma_end <= self.sigma:
            raise BadInput(f"sigma_end = {self.sigma_end}: must lie between 0 and sigma = {self.sigma}")

    def sigmas(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Give sigma of every round and step [T, L]."""
        end = self.sigma_end if self.sigma_end is not None else 0.0 if self.decay == "cyclic" else min(4.85, self.sigma)
        return decay(self.decay, self.sigma, end).sigmas(self.rounds, self.local_steps)

    def plain_steps(self) -> tuple[Step, ...]:
        """Give the event as the paper counts it: T L steps at rate q, with multiplier sigma."""
        return grouped(self.sigmas().ravel().tolist(), self.rate)

    def ledger(self) -> Ledger:
        """Give the releases of such a run at the example surface."""
        touches = self.local_steps if self.sampling != "fixed-pass" else math.ceil(self.local_steps * self.rate - 1e-9)
        common = Release(
            round=0,
            surface=2,
            unit="example",
            part="sum",
            sigmas=(),
            ratio=1.0,
            layers=self.layers,
            draw=self.draw,
            expected=float(self.batch),
            capacity=self.batch,
            share=False,
            example_sampling=self.sampling,
            example_rate=self.rate,
            touches=touches,
            cohort_sampling="poisson" if self.client_rate < 1 else "fixed",
            cohort_rate=self.client_rate,
            cohort=1,
            copies=self.copies,
            data_dependent=False,
        )
        rows = self.sigmas().tolist()
        releases = tuple(replace(common, round=t, sigmas=tuple(row)) for t, row in enumerate(rows))
        return Ledger(releases, self.rounds if self.participations is None else self.participations)


DRAWS, SAMPLINGS = ("each", "sum", "mean"), ("fixed-pass", "poisson", "replacement")
