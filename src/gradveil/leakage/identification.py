"""How often the true record is told from public ones, over all victims and all places of their batches."""

import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from scipy.stats import binomtest

from gradveil import tree
from gradveil.attacks import identify
from gradveil.attacks.leak import Leak
from gradveil.attacks.lineup import Trial, lineup
from gradveil.attacks.score import Truth
from gradveil.leakage.attack_record import CandidateRecord

CANDIDATES = (10, 100, 1000)
EFFORT, LEAST_EFFORT, VALUES = 64_000, 9_000, 1_100_000_000
"""Most examples that are replayed to identify the records of one victim among n: EFFORT, which are 8 places of a batch
of 8 among 1000; fewer, but not below LEAST_EFFORT, where their gradients would have more than VALUES coordinates."""


def identification(
    caught: list[Leak], truths: list[Truth], seed: int, done: Callable[[int], None] = lambda victim: None
) -> tuple[CandidateRecord, ...]:
    """Give, for each number of candidates, how often the true record was picked, beside chance, optimum and bound.

    `done` is called after each victim: its lineups can take longer than the attack that they stand beside.
    """
    first, random = caught[0], np.random.default_rng([seed, 0x69646E74])
    size, examples = tree.size(first.readings[0].gradient), max(len(truth.y) for truth in truths)
    limits = places_tried(examples, size, len(first.public.x))
    varying = first.stage.steps > 1 and any(len(truth.y) != first.stage.examples for truth in truths)
    if not limits or varying:  # batches of varying size in several steps cannot be told apart by their number alone
        return ()
    trials: dict[int, list[Trial]] = defaultdict(list)
    for victim, (leak, truth) in enumerate(zip(caught, truths, strict=True)):
        for position in range(len(truth.y)):
            sizes = [n for n, most in limits.items() if position < most]
            if sizes:
                found = lineup(leak, truth, position, sizes, random, min(limits[max(sizes)], len(truth.y)))
                for n, trial in found.items():
                    trials[n].append(trial)
        done(victim)
    return tuple(_record(first, n, trials[n]) for n in limits)


def places_tried(examples: int, size: int, public: int) -> dict[int, int]:
    """Return how many places of a batch are tried among n candidates, for each n that is tried at all.

    size: coordinates of a reading. However large the batch is, one place is tried among the fewest candidates.
    """
    effort = min(EFFORT, max(LEAST_EFFORT, VALUES // size))
    places = {n: min(examples, effort // (n * examples)) for n in CANDIDATES if n - 1 <= public}
    places = {n: max(count, 1) if n == CANDIDATES[0] else count for n, count in places.items()}
    return {n: count for n, count in places.items() if count}


def _record(leak: Leak, n: int, trials: list[Trial]) -> CandidateRecord:
    hits, count = sum(trial.hit for trial in trials), len(trials)
    low, high = binomtest(hits, count).proportion_ci()
    optimum = float(np.mean([trial.optimum for trial in trials]))
    return CandidateRecord(
        n=n,
        trials=count,
        success=hits / count,
        success_ci=(float(low), float(high)),
        chance=1 / n,
        optimum=None if math.isnan(optimum) else optimum,
        bound=None if leak.mu is None else identify.bound(leak.mu, n),
        mu=leak.mu,
    )
