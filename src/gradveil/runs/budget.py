"""What a run has spent and may still spend, by the accountant and against the adversary that its plan names."""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from gradveil import codec
from gradveil.accounting.accountant import account, guarantees, is_presumption, presumed
from gradveil.accounting.as_paper import LABEL, as_the_paper_accounts
from gradveil.accounting.caveats import CENTRAL_IS_NO_TARGET
from gradveil.accounting.guarantee import Guarantee
from gradveil.accounting.release import Ledger, Release
from gradveil.accounting.threats import THREATS
from gradveil.accounting.tight import ADD_REMOVE
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.federation import ledger as translator
from gradveil.federation.plan import Plan
from gradveil.runs.epsilon_records import GuaranteeRecord, NoPaperAccount, PaperAccount, PresumedEpsilon, paper_account
from gradveil.runs.run_records import Earlier
from gradveil.runs.store import plan_at

SOUND, PAPER_MOMENTS = "pld", "paper-moments"


class Budget:
    """The releases of a plan as training goes on, and the epsilon that they add up to.

    answered: how many of a cohort answer at least, where clients can fail to.
    """

    def __init__(self, plan: Plan, dataset: Dataset, copies: int, answered: int | None = None) -> None:
        self._answered = answered
        self._plan, self._records, self._caveats = plan, len(dataset.train), dataset.caveats
        self._layers = translator.layer_count(plan, dataset.shape, len(dataset.classes))
        self._numbers = translator.numbers_noised(plan, dataset.shape, len(dataset.classes))
        self.copies = copies
        self._repeated: list[int] = []
        self._earlier: tuple[Earlier, ...] = ()
        self._check()
        self._spent = lru_cache(maxsize=4096)(self._guarantee)

    def _check(self) -> None:
        plan = self._plan
        if plan.threat_model not in THREATS:
            raise BadInput(f"threat_model = {plan.threat_model!r}: must be one of {', '.join(THREATS)}")
        if plan.accountant not in (SOUND, PAPER_MOMENTS):
            raise BadInput(f"accountant = {plan.accountant!r}: must be {SOUND} or {PAPER_MOMENTS}")
        if is_presumption(self.ledger(1, 1), plan.threat_model):
            raise BadInput(f"threat_model = {plan.threat_model!r}: {CENTRAL_IS_NO_TARGET}")
        if plan.max_epsilon is None:
            return
        first = self._guarantee(1, 1)
        if not first.finite:
            raise BadInput(
                f"max_epsilon = {plan.max_epsilon}: {plan.method.name} has no finite guarantee against "
                f"{plan.threat_model} ({first.caveats[len(self._caveats)]}); "
                f"--accountant {PAPER_MOMENTS} stops by the paper's figure, which is not a guarantee"
            )
        self._refuse_unless_one_round_fits(first)

    def _refuse_unless_one_round_fits(self, first: Guarantee) -> None:
        """Refuse a budget that buys no round: what came out would be the first weights, and not a model."""
        if self._plan.max_epsilon is not None and first.epsilon > self._plan.max_epsilon:
            raise BadInput(
                f"max_epsilon = {self._plan.max_epsilon}: one round already spends {first.epsilon:.3g} against "
                f"{self._plan.threat_model}, so nothing could be trained"
            )

    def repeat(self, t: int) -> None:
        """Note an attempt at round t that failed: what clients sent in it may have been seen, so it is spent."""
        self.recall([*self._repeated, t])

    def recall(self, repeated: list[int]) -> None:
        """Note all attempts that failed, by their rounds."""
        self._repeated = repeated
        self._spent.cache_clear()

    def trained_under(self, earlier: Sequence[Earlier]) -> None:
        """Note under how many planned rounds earlier stretches were trained: what they released stays as it was."""
        self._earlier = tuple(earlier)
        self._spent.cache_clear()

    def ledger(self, rounds: int, participations: int) -> Ledger:
        """Return what the first rounds and failed attempts release if the busiest client takes part that often.

        Where clients differ, each kind of which one is the worst has a ledger.
        """
        if not self._plan.client_sizes:
            return self._ledger(rounds, participations)
        first, *others = (self._ledger(rounds, participations, kind) for kind in translator.worst_kinds(self._plan))
        return replace(first, others=tuple(other for other in others if other != first))

    def _ledger(self, rounds: int, participations: int, size_and_rate: tuple[int, float] | None = None) -> Ledger:
        """Return the ledger of the clients that hold so many examples and draw at this rate; of all if they agree."""
        releases: list[Release] = []
        for t in (*range(rounds), *(t for t in self._repeated if t <= rounds)):
            plan = plan_at(self._plan, self._earlier, t)
            released = translator.releases(plan, t, self._layers, self.copies, self._answered, self._numbers)
            releases += released if size_and_rate is None else translator.of_client(plan, released, size_and_rate)
        tuned, trials = self._plan.tuned, translator.releases_of_trials(self._plan, self._layers, self.copies)
        return Ledger(
            (*releases, *trials),
            participations + len(trials),
            self._plan.noise_source.value,
            self._caveats,
            float(tuned.trials) if tuned is not None and tuned.hidden and trials else None,
        )

    def spent(self, rounds: int, participations: int) -> Guarantee:
        """Return what is spent after some rounds, by the accountant and threat model of the plan."""
        return self._spent(rounds, participations)

    def _guarantee(self, rounds: int, participations: int) -> Guarantee:
        ledger = self.ledger(rounds, participations)
        sound = account(ledger, self._plan.delta, ADD_REMOVE, self._plan.threat_model)
        if self._plan.accountant == SOUND:
            return sound
        figure = as_the_paper_accounts(ledger, self._plan.delta, self._records).get("moments")
        return Guarantee(
            epsilon=math.inf if figure is None and rounds else float(figure or 0.0),
            delta=sound.delta,
            unit=sound.unit,
            threat_model="as the paper",
            adjacency="as the paper",
            sampling=sound.sampling,
            accountant=PAPER_MOMENTS,
            noise_source=sound.noise_source,
            caveats=(LABEL, *sound.caveats),
        )

    def affords(self, rounds: int, participations: int) -> bool:
        """Say whether that many rounds stay within the plan's max_epsilon."""
        limit = self._plan.max_epsilon
        return limit is None or self.spent(rounds, participations).epsilon <= limit

    def forecast(self, rounds: int, participations: int) -> int:
        """Count the rounds that the budget still affords if the busiest client goes on as it did."""
        low, high, rate = 0, self._plan.rounds - rounds, participations / max(rounds, 1)
        while low < high:
            middle = (low + high + 1) // 2
            affordable = self.affords(rounds + middle, math.ceil(participations + rate * middle))
            low, high = (middle, high) if affordable else (low, middle - 1)
        return low

    def all_guarantees(self, rounds: int, participations: int) -> list[GuaranteeRecord]:
        """Account what was spent against every adversary."""
        ledger = self.ledger(rounds, participations)
        return [GuaranteeRecord.of(g) for g in guarantees(ledger, self._plan.delta, ADD_REMOVE)]

    def presumed(self, rounds: int, participations: int) -> tuple[PresumedEpsilon, ...]:
        """Return the figures that presume what is not guaranteed."""
        figures = presumed(self.ledger(rounds, participations), self._plan.delta, ADD_REMOVE)
        return tuple(codec.decode(PresumedEpsilon, figure) for figure in figures)

    def epsilon(self, rounds: int, participations: int, threat: str) -> float:
        """Account what some rounds spend against one adversary."""
        return account(self.ledger(rounds, participations), self._plan.delta, ADD_REMOVE, threat).epsilon

    def by_client(self, rounds: int, participations: Sequence[int]) -> list[float]:
        """Account what each client of a plan with client_sizes spends, by what it holds and how often it takes part."""
        kinds = list(zip(self._plan.sizes, self._plan.rates, participations, strict=True))
        known = {kind: self._of_kind(rounds, *kind) for kind in set(kinds)}
        return [known[kind] for kind in kinds]

    def _of_kind(self, rounds: int, size: int, rate: float, participations: int) -> float:
        ledger = self._ledger(rounds, participations, (size, rate))
        return account(ledger, self._plan.delta, ADD_REMOVE, self._plan.threat_model).epsilon

    def as_the_paper_accounts(self, rounds: int) -> PaperAccount | NoPaperAccount:
        """Account what was spent by the paper's rules."""
        return paper_account(as_the_paper_accounts(self.ledger(rounds, rounds), self._plan.delta, self._records))


def expected_participations(plan: Plan) -> int:
    """Simulate the draw of all cohorts and count the busiest client's rounds: a forecast, not the run's own draw."""
    random, counts = np.random.default_rng(plan.seed), np.zeros(plan.clients, int)
    for _ in range(plan.rounds):
        counts[random.permutation(plan.clients)[: plan.cohort]] += 1
    return int(counts.max())
