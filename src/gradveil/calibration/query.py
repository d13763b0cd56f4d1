"""A query to the accountants without any training: noise, sampling and rounds as numbers."""

import math
from dataclasses import dataclass, replace

import numpy as np

from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.steps import Step, grouped
from gradveil.data.sampling import LONGEST_PASS, Allocation, Poisson
from gradveil.errors import BadInput
from gradveil.fields import whole
from gradveil.methods import DECAYS, decay

MOST_STEPS, MOST_ROUNDS, MOST_COPIES = 2_000_000, 100_000, 10_000
LEAST_SIGMA, MOST_SIGMA, LEAST_RATE = 1e-2, 1e6, 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """The settings: sigma_0 (and sigma_T), B / |D_i|, T rounds of L local steps.

    participations: the most of any client, all rounds by default. client_rate: K / N. Of batch and client_size one
    determines the other; without both, no guarantee for a whole client is known.
    """

    sigma: float
    rate: float
    rounds: int
    local_steps: int
    decay: str = "constant"
    sigma_end: float | None = None
    layers: int = 1
    batch: int | None = None
    client_size: int | None = None
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
            raise BadInput(f"sigma = {self.sigma}: must be between {LEAST_SIGMA:g} and {MOST_SIGMA:g}")
        limits = {"rounds": MOST_ROUNDS, "local_steps": MOST_STEPS, "layers": MOST_COPIES, "copies": MOST_COPIES}
        for name, most in limits.items():
            whole(name, getattr(self, name), most=most)
        if self.rounds * self.local_steps > MOST_STEPS:
            raise BadInput(f"rounds x local_steps = {self.rounds} x {self.local_steps}: must be at most {MOST_STEPS}")
        if self.participations is not None and not 1 <= self.participations <= self.rounds:
            raise BadInput(f"participations = {self.participations}: must be between 1 and rounds = {self.rounds}")
        self._check_end()
        for name, known in (("decay", DECAYS), ("draw", DRAWS), ("sampling", SAMPLINGS)):
            if getattr(self, name) not in known:
                raise BadInput(f"{name} = {getattr(self, name)!r}: must be one of {', '.join(known)}")
        self._check_batch()
        self.sigmas()

    def _check_batch(self) -> None:
        for name in ("batch", "client_size"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), most=MOST_STEPS)
        if self.batch is not None and self.client_size is not None:
            exact = self.batch / self.client_size
            if not math.isclose(exact, self.rate, rel_tol=1e-9):
                raise BadInput(f"q = {self.rate}: is not batch / client_size = {exact:.9g}; leave one of them out")
        if self.records > MOST_STEPS:
            raise BadInput(
                f"batch = {self.batch}: at q = {self.rate} a client would hold more than {MOST_STEPS} records"
            )
        if self.sampling == "allocation" and self.rate * LONGEST_PASS < 1:
            raise BadInput(f"q = {self.rate}: a pass of random allocation has at most {LONGEST_PASS} batches")
        if not self._expected().is_integer() and (self.draw != "sum" or self.sampling == "replacement"):
            name = "draw" if self.draw != "sum" else "sampling"
            raise BadInput(
                f"{name} = {getattr(self, name)!r}: needs --batch, or --client-size of which q is a whole batch"
            )

    @property
    def records(self) -> int:
        """The records of a client, 0 if neither that nor the batch is given; rounded up, which costs more."""
        if self.client_size is not None or self.batch is None:
            return self.client_size or 0
        return math.ceil(self.batch / self.rate * (1 - 1e-12))

    def _expected(self) -> float:
        """Return the expected batch size; 0.5, which no batch has, where it is not known."""
        if self.batch is not None:
            return float(self.batch)
        return round(self.rate * self.client_size, 9) if self.client_size is not None else 0.5

    def _capacity(self) -> int:
        """Return the most examples that a batch can hold, 0 if that is not known."""
        if not self.records:
            return 0
        largest = min(self.records, math.ceil(self._expected()))
        if self.sampling in ("poisson", "allocation"):
            return (Poisson() if self.sampling == "poisson" else Allocation()).capacities(self.records, largest)[-1]
        return largest

    def _check_end(self) -> None:
        if self.sigma_end is None:
            return
        if self.decay == "constant":
            raise BadInput(f"sigma_end = {self.sigma_end}: needs --decay, since a constant noise scale has no end")
        if not 0 <= self.sigma_end <= self.sigma:
            raise BadInput(f"sigma_end = {self.sigma_end}: must be between 0 and sigma = {self.sigma}")

    def sigmas(self) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        """Return sigma of every round and step [T, L]."""
        end = self.sigma_end if self.sigma_end is not None else 0.0 if self.decay == "cyclic" else min(4.85, self.sigma)
        return decay(self.decay, self.sigma, end).sigmas(self.rounds, self.local_steps)

    def plain_steps(self) -> tuple[Step, ...]:
        """Return the steps as the paper counts them: T L steps at rate q, with noise multiplier sigma."""
        return grouped(self.sigmas().ravel().tolist(), self.rate)

    def _touches(self) -> int:
        """Return the most batches of a participation that can hold one record."""
        if self.sampling == "fixed-pass":
            return max(1, math.ceil(self.local_steps * self.rate - 1e-9))
        if self.sampling == "allocation":
            return math.ceil(self.local_steps / math.ceil((1 - 1e-12) / self.rate))
        return self.local_steps

    def ledger(self) -> Ledger:
        """Return the releases of such a run at the example surface."""
        common = Release(
            round=0,
            surface=2,
            unit="example",
            part="sum",
            sigmas=(),
            ratio=1.0,
            layers=self.layers,
            draw=self.draw,
            expected=self._expected(),
            capacity=self._capacity(),
            client_size=self.records,
            share=False,
            example_sampling=self.sampling,
            example_rate=self.rate,
            touches=self._touches(),
            cohort_sampling="poisson" if self.client_rate < 1 else "fixed",
            cohort_rate=self.client_rate,
            cohort=1,
            copies=self.copies,
            data_dependent=False,
        )
        # Nothing is looked up by its round here, so equal rounds share one Release.
        rows = [tuple(row) for row in self.sigmas().tolist()]
        alike = {row: replace(common, sigmas=row) for row in set(rows)}
        return Ledger(
            tuple(alike[row] for row in rows), self.rounds if self.participations is None else self.participations
        )


DRAWS, SAMPLINGS = ("each", "sum", "mean"), ("fixed-pass", "poisson", "allocation", "replacement")
