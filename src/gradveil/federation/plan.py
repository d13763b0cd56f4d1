"""A plan: everything that decides a result, and nothing else."""

import math
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import numpy as np

from gradveil.accounting.threats import THREATS
from gradveil.data import unequal
from gradveil.data.partition import PARTITIONS, Partition, TwoShards
from gradveil.data.sampling import SAMPLINGS, CohortSampling, FixedPass, Sampling, Whole
from gradveil.data.table_schema import Schema
from gradveil.errors import BadInput, quoted
from gradveil.federation import plan_text
from gradveil.federation.plan_checks import (
    check_names,
    check_preparation,
    check_secure_sum,
    check_share,
    check_trials,
    check_weights,
)
from gradveil.federation.secure_sum import SecureSum
from gradveil.federation.server_side import ServerSide
from gradveil.federation.tuned import Tuned
from gradveil.fields import real, settle, whole
from gradveil.keys import LARGEST_SEED
from gradveil.models.adapters import adapted
from gradveil.models.features.description import Features
from gradveil.models.networks import MODELS, Cnn, Model
from gradveil.models.preparation import Preparation
from gradveil.own_code import called
from gradveil.privacy.clip import Flat, OwnNorm, PerLayer, Unclipped
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import Method
from gradveil.privacy.prune import Keep
from gradveil.privacy.sensitivity import ClipBound
from gradveil.surface import Surface

ACCOUNTANTS = ("pld", "paper-moments")
MOST_CLIENTS = 10**7
"""Each has an entry in several arrays, and examples are dealt to one client after another."""
MOST_SIGMAS = 10**7
MOST_STEPS = 10**11
"""Local steps of all clients and rounds: more than a day of work at a million per second, beyond any machine."""


LOADED_BY = ("target", "train_all", "schema", "client_column", "test", "validation", "validation_file")
"""Fields of a plan that say how its data are loaded, as `gradveil.data.sources.load` calls them."""
LEAST_DELTA = 1e-100
LARGEST_DELTA = 0.01


def delta_of(delta: float) -> float:
    """Return delta if an accountant can work with it; BadInput otherwise."""
    if not 0 < delta < 1:
        raise BadInput(f"delta = {delta}: must be between 0 and 1")
    if delta > LARGEST_DELTA:
        raise BadInput(f"delta = {delta}: must be at most {LARGEST_DELTA:g}; a larger one guarantees little")
    if delta < LEAST_DELTA:
        raise BadInput(f"delta = {delta}: must be at least {LEAST_DELTA:g}")
    return delta


class NoiseSource(Enum):
    """Where noise, batches and cohorts come from.

    SEEDED: from the plan's seed, for simulation and tests; anyone who knows the seed can subtract the noise.
    SECRET: from the operating system's entropy, never stored; such a run is not reproducible.
    """

    SEEDED = "seeded"
    SECRET = "secret"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A federated training run. The letters are the paper's.

    clients N, cohort K_t, rounds T, local_steps L, batch B, learning_rate eta, client_size |D_i|. `schema` says how the
    columns of a user's table become features, `client_column` which of them names the client of each row, and `test` is
    a file of rows to test on; `validation` is the fraction of the training rows that is held out to stop by, or
    `validation_file` a file of other rows for that.
    `client_sizes` are the examples of each client where these differ: client_size is then the largest, every client
    draws at the rate batch / client_size, or at its own of `client_rates`, and updates are weighed by size, or by
    `client_weights`. `client_names` are theirs where nodes hold them, and not the data of this machine. `train_all`
    adds MNIST's validation images to the training split. Training stops after T rounds, or earlier at
    `target_accuracy` or, where a number is predicted, `target_rmse` in its units, or before the round
    whose release would spend more than `max_epsilon` by `accountant` against `threat_model`.
    `minimum_cohort` (half the cohort by default) is for clients that can fail to reply: with fewer replies a round is
    repeated. `server_side` says what the server does with the mean update beyond adding it. `features` are what the
    model reads in place of the examples. `tuned` says where the settings were found, and what that has cost.
    `secure_sum`: nodes add up under masks, and the server sees nothing but sums over all of them.
    """

    dataset: str
    method: Method
    clients: int
    cohort: int
    rounds: int
    local_steps: int
    batch: int
    client_size: int
    learning_rate: float
    target: str | None = None
    schema: Schema | None = None
    client_column: str | None = None
    test: str | None = None
    validation: float | None = None
    validation_file: str | None = None
    client_sizes: tuple[int, ...] | None = None
    client_names: tuple[str, ...] | None = None
    client_rates: tuple[float, ...] | None = None
    client_weights: tuple[float, ...] | None = None
    train_all: bool = False
    model: Model = field(default=Cnn(), metadata={"kinds": MODELS})
    partition: Partition = field(default=TwoShards(), metadata={"kinds": PARTITIONS})
    sampling: Sampling = field(default=FixedPass(), metadata={"kinds": SAMPLINGS})
    cohort_sampling: CohortSampling = CohortSampling.FIXED
    noise_source: NoiseSource = NoiseSource.SEEDED
    seed: int = 0
    delta: float = 1e-5
    target_accuracy: float | None = None
    target_rmse: float | None = None
    max_epsilon: float | None = None
    accountant: str = "pld"
    threat_model: str = "server"
    minimum_cohort: int | None = None
    server_side: ServerSide | None = None
    features: Features | None = None
    tuned: Tuned | None = None
    secure_sum: SecureSum | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", adapted(self.model))
        settle(self)
        if not self.dataset or "\0" in self.dataset:
            raise BadInput(f"dataset = {quoted(self.dataset)}: must be a name or a path")
        for name in ("clients", "cohort", "rounds", "local_steps", "batch", "client_size"):
            whole(name, getattr(self, name))
        self._check_size()
        self._check_numbers()
        for name, allowed in (("accountant", ACCOUNTANTS), ("threat_model", tuple(THREATS))):
            if getattr(self, name) not in allowed:
                raise BadInput(f"{name} = {quoted(getattr(self, name))}: must be one of {', '.join(allowed)}")
        with called("sampling", self.sampling):
            self.sampling.check(self.client_size, self.batch)
        self._check_draw()
        check_share(self.method, self.local_steps, self.sampling)
        check_preparation(self.preparation, self.rounds, self.method, self.local_steps, self.sampling)
        self._check_sizes()
        everyone = self.cohort == self.clients and isinstance(self.sampling, Whole)
        if self.tuned is not None and self.tuned.trials:
            check_trials(self.tuned.trials, self.method, self.local_steps, everyone)
        if self.secure_sum is not None:
            equal = self.cohort_sampling is CohortSampling.FIXED and self.client_sizes is None
            check_secure_sum(self.secure_sum, self.method, self.local_steps, self.clients, everyone and equal)
        if self.client_names is not None:
            check_names(self.client_names, self.clients, self.client_sizes)
        self.sigmas()

    def _check_size(self) -> None:
        """Refuse plans that are too large: T L noise scales are one array, T K L local steps must end some day."""
        t, k, steps = self.rounds, self.cohort, self.local_steps
        if t * steps > MOST_SIGMAS:
            raise BadInput(f"rounds x local_steps = {t} x {steps}: must be at most {MOST_SIGMAS}")
        if t * k * steps > MOST_STEPS:
            raise BadInput(f"rounds x cohort x local_steps = {t} x {k} x {steps}: must be at most {MOST_STEPS}")

    def _check_numbers(self) -> None:
        whole("clients", self.clients, most=MOST_CLIENTS)
        if self.cohort > self.clients:
            raise BadInput(f"cohort = {self.cohort}: must be at most clients = {self.clients}")
        if self.minimum_cohort is not None and not 1 <= self.minimum_cohort <= self.cohort:
            raise BadInput(f"minimum_cohort = {self.minimum_cohort}: must be between 1 and cohort = {self.cohort}")
        real("learning_rate", self.learning_rate)
        if not 0 <= self.seed <= LARGEST_SEED:
            raise BadInput(f"seed = {self.seed}: must be between 0 and {LARGEST_SEED}")
        delta_of(self.delta)
        if self.target_accuracy is not None and not 0 < self.target_accuracy <= 1:
            raise BadInput(f"target_accuracy = {self.target_accuracy}: must be above 0 and at most 1")
        for name in ("target_rmse", "max_epsilon"):
            if getattr(self, name) is not None and not 0 < getattr(self, name) < math.inf:
                raise BadInput(f"{name} = {getattr(self, name)}: must be a finite number above 0")

    def _check_draw(self) -> None:
        example, server = (self.method.surface is s for s in (Surface.EXAMPLE, Surface.SERVER))
        varies = (example and not self.sampling.fixed_size) or (
            server and self.cohort_sampling is CohortSampling.POISSON
        )
        if self.method.draw is Draw.EACH and varies and not self.method.noise.silent:
            raise BadInput(
                "draw = each: needs batches and cohorts of fixed size; otherwise the noise reveals how many were drawn"
            )

    def _check_sizes(self) -> None:
        """Refuse clients of different sizes where sums over them, or what a clip learns, are not defined."""
        sizes = self.sizes
        if self.client_sizes is None:
            if self.client_rates is not None or self.client_weights is not None:
                raise BadInput("client_rates, client_weights: are for clients that the data name, with client_sizes")
            return
        if len(sizes) != self.clients or max(sizes) != self.client_size or min(sizes) < 1:
            raise BadInput(
                f"client_sizes = {quoted(sizes)}: one for each of the {self.clients} clients is expected, at least 1, "
                f"the largest {self.client_size}"
            )
        unequal.check(self.sampling, sizes, self.batch, self.client_rates)
        if self.client_weights is not None:
            check_weights(self.client_weights, self.clients, self.method)
        if not isinstance(self.method.clip, Unclipped | PerLayer | Flat | OwnNorm):
            raise BadInput("client_sizes: a clip that learns needs clients of one size")
        if self.method.draw is not Draw.SUM and not self.method.noise.silent:
            raise BadInput(f"draw = {self.method.draw.value}: clients of different sizes need draw = sum")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Examples of each client."""
        return (self.client_size,) * self.clients if self.client_sizes is None else self.client_sizes

    @property
    def rates(self) -> tuple[float, ...]:
        """The rate at which each client draws its records."""
        if self.client_sizes is None:
            return (self.batch / self.client_size,) * self.clients
        return unequal.rates_of(self.sampling, self.client_sizes, self.batch, self.client_rates)

    @property
    def has_target(self) -> bool:
        """Whether the data may end the run before its last round."""
        return self.target_accuracy is not None or self.target_rmse is not None

    def reached(self, accuracy: float | None, rmse: float | None) -> str | None:
        """Return which target these scores of a round reach, None if they reach none."""
        if self.target_accuracy is not None and (accuracy or 0.0) >= self.target_accuracy:
            return "target-accuracy"
        return "target-rmse" if self.target_rmse is not None and rmse is not None and rmse <= self.target_rmse else None

    @property
    def loading(self) -> dict[str, Any]:
        """How the data are loaded, as arguments of `gradveil.data.sources.load`."""
        return {name: getattr(self, name) for name in LOADED_BY}

    @property
    def preparation(self) -> tuple[Preparation, ...]:
        """The first rounds, which learn what the model holds fixed afterwards; they are among the T rounds."""
        return getattr(self.model, "preparation", ())

    def stage(self, t: int) -> Preparation | None:
        """Return the preparation that round t is, None for a round of gradients."""
        return self.preparation[t] if 0 <= t < len(self.preparation) else None

    def method_at(self, t: int) -> Method:
        """Return the method of round t: vectors of a preparation have norm at most 1, and are clipped to that."""
        if self.stage(t) is None:
            return self.method
        return replace(self.method, prune=Keep(), clip=Flat(1.0), sensitivity=ClipBound(), draw=Draw.SUM)

    @property
    def honest(self) -> int:
        """H, the clients of a cohort that are honest and answer."""
        return math.ceil((self.method.honest or 1.0) * self.cohort - 1e-9)

    def minimum_replies(self, sampled: int) -> int:
        """Return how many of the sampled clients must reply.

        Where each client adds a share of the noise, as many as its parts are made for: with fewer, the sum would have
        too little noise.
        """
        if self.method.share:
            return math.ceil((self.method.honest or 1.0) * sampled - 1e-9)
        return min(sampled, self.minimum_cohort or -(-self.cohort // 2))

    def __repr__(self) -> str:
        return plan_text.line(self)

    def _repr_html_(self) -> str:
        return plan_text.html(self)

    def sigmas(self) -> np.ndarray[Any, Any]:
        """Return sigma for every round and local step, float64 [T, L].

        The noise schedule is that of the gradients. A preparation of share s gets the noise with which
        mu_s = s mu, where mu^2 = sum_s mu_s^2 + sum 1 / sigma^2 over the gradients is that of the whole run.
        """
        stages = self.preparation
        with called("noise", self.method.noise):
            gradients = self.method.noise.sigmas(self.rounds - len(stages), self.local_steps)
        if not stages:
            return gradients
        if not gradients.all():
            return np.concatenate([np.zeros((len(stages), self.local_steps)), gradients])
        left = 1 - math.fsum(stage.share**2 for stage in stages)
        mu = math.sqrt(float(np.sum(gradients**-2.0)) / left)
        return np.concatenate([[[1 / (stage.share * mu)] for stage in stages], gradients])
