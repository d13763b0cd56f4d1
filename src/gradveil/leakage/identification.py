"""How often the true record is told from public ones, over all victims and all places of their batches."""

import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np
from scipy.stats import binomtest

from gradveil.attacks import identify
from gradveil.attacks.leak import Leak
from gradveil.attacks.lineup import Trial, lineup
from gradveil.attacks.score import Truth
from gradveil.leakage.attack_record import CandidateRecord

CANDIDATES = (10, 100, 1000)
EFFORT = 5000
"""Most examples that are replayed to identify the records of one victim among n; beyond it places are left out."""


def identification(
    caught: list[Leak], truths: list[Truth], seed: int, done: Callable[[int], None] = lambda victim: None
) -> tuple[CandidateRecord, ...]:
    """Give, for each number of candidates, how often the true record was picked, beside chance, optimum and bound.

    `done` is called after each victim: its lineups can take longer than the attack that they stand beside.
    """
    first, random = caught[0], np.random.default_rng([seed, 0x69646E74])
    effort = max(len(truth.y) for truth in truths)
    limits = {n: EFFORT // (n * effort) for n in CANDIDATES if n - 1 <= len(first.public.x) and n * effort <= EFFORT}
    varying = first.stage.steps > 1 and any(len(truth.y) != first.stage.examples for truth in truths)
    if not limits or varying:  # batches of varying size in several steps cannot be told apart by their number alone
        return ()
    trials: dict[int, list[Trial]] = defaultdict(list)
    for victim, (leak, truth) in enumerate(zip(caught, truths, strict=True)):
        for position in range(len(truth.y)):
            sizes = [n for n, most in limits.items() if position < most]
            for n, trial in lineup(leak, truth, position, sizes, random).items() if sizes else ():
                trials[n].append(trial)
        done(victim)
    return tuple(_record(first, n, trials[n]) for n in limits)


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
