"""Trials on the same records: what choosing the best of them costs.

Whoever sees every trial sees a composition. Whoever sees nothing but the choice learns less, if the number of trials is
drawn from a Poisson distribution and kept secret: Papernot and Steinke, arXiv 2110.03620, theorem 6.
"""

import math
from collections.abc import Sequence

from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant
from scipy.stats import poisson

from gradveil.accounting import caveats, guarantee
from gradveil.accounting.participation import adds_up, pooled
from gradveil.accounting.release import TRIAL, Release
from gradveil.accounting.steps import Steps, merged, rho

RARE = 1e-15
"""Probability that there are more trials than `most_trials` says."""
ORDERS = (*(1 + i / 20 for i in range(1, 200)), *range(11, 64), *(2**i for i in range(6, 16)))


def most_trials(mean: float) -> int:
    """Return the number of trials that a Poisson draw exceeds with probability at most RARE."""
    most = int(poisson.isf(RARE, mean))
    while poisson.sf(most, mean) > RARE:  # scipy's inverse may be one too small
        most += 1
    return most


def epsilon_of_best(trial: Steps, run: Steps, mean: float, delta: float) -> float:
    """Return epsilon of the choice by trials together with that of the run that uses it.

    trial: what each of them releases at most, its score included. mean: of the Poisson number of trials. Nothing of
    either is sampled.
    """
    accountant = rdp_privacy_accountant.RdpAccountant(orders=ORDERS)
    one = dp_event.GaussianDpEvent(1 / math.sqrt(rho(trial)))
    accountant.compose(dp_event.RepeatAndSelectDpEvent(one, mean=mean, shape=math.inf))
    if run:
        accountant.compose(dp_event.GaussianDpEvent(1 / math.sqrt(rho(run))))
    return max(0.0, float(accountant.get_epsilon(delta)))


def epsilon_of_models(sums: Sequence[Release], mean: float | None, delta: float, reach: float) -> float:
    """Return `epsilon_of_best` against those who see only models, under the noise of all clients.

    Infinite where there was no secret number of trials, or where the noise of clients does not add up. reach: how far
    a change of neighbors moves a sum, in bounds on a unit.
    """
    trials, run = ([r for r in sums if (r.stage == TRIAL) is is_trial] for is_trial in (True, False))
    if mean is None or not trials or not all(map(adds_up, sums)):
        return math.inf
    seen = [merged(*(pooled(r, r.cohort) for r in part)) for part in (trials[:1], run)]
    trial_steps, run_steps = ([step._replace(z=step.z / reach) for step in steps] for steps in seen)
    return epsilon_of_best(trial_steps, run_steps, mean, delta)


def about_tuning(sums: Sequence[Release], mean: float | None, is_best: bool) -> str:
    """Say whether an epsilon counts how the settings were found. is_best: it is that of `epsilon_of_models`."""
    trials = sum(r.stage == TRIAL for r in sums)
    if not trials:
        return guarantee.SEARCH
    if is_best and mean is not None:
        return caveats.best_of(mean)
    return caveats.composed(f"{trials}" if mean is None else f"at most {trials}")
