"""Plans whose settings are chosen by trials on their own records: noise for the run and for all trials together.

A trial spends TRIAL_SHARE of the run's mu, its score included: an example that is trained on moves the sums that are
released, one that is held out moves the count of right answers, and none does both.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

from gradveil.accounting.steps import grouped, rho
from gradveil.calibration.plan_noise import louder, meet
from gradveil.data.dataset import Dataset
from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.federation.ledger import layer_count, releases
from gradveil.federation.plan import Plan
from gradveil.federation.tuned import Tuned

TRIAL_SHARE = 0.5
"""mu of a trial over mu of the run."""
ONLY_MODELS = ("central", "central-visible")
"""Adversaries who see of the trials nothing but the settings that were chosen."""
_MARGIN = 1 + 1e-9
"""Keeps a candidate from spending more than the first by rounding."""


def hides_trials(plan: Plan) -> bool:
    """Whether the adversary that the target holds against sees nothing of the trials but what they chose."""
    return plan.threat_model in ONLY_MODELS


def counted(plans: Sequence[Plan], dataset: Dataset, epsilon: float, trials: int) -> list[Plan]:
    """Return candidates that spend at most `epsilon` together with the trials that choose among them.

    All get the mu of the first, so that each of them counts the trials of all.
    """
    layers = layer_count(plans[0], dataset.shape, len(dataset.classes))

    def with_trials(plan: Plan, factor: float) -> Plan:
        noised = louder(plan, factor)
        return replace(noised, tuned=_trials(noised, trials, multiplier(noised, layers) / TRIAL_SHARE))

    began = with_trials(plans[0], 1.0)
    if Population.of(began, dataset).copies > 1:
        raise BadInput("on = private: records that several clients hold are not counted; use fewer or smaller clients")
    first = meet(began, dataset, epsilon, noisier=with_trials)
    z = multiplier(first, layers)
    scaled = [louder(plan, _MARGIN * z / multiplier(plan, layers)) for plan in plans[1:]]
    return [first, *(replace(plan, tuned=first.tuned, max_epsilon=epsilon) for plan in scaled)]


def _trials(plan: Plan, trials: int, sigma: float) -> Tuned:
    return Tuned(
        found="trials on these records",
        trials=trials,
        hidden=hides_trials(plan),
        sigma=sigma,
        clients=plan.clients,
        honest=plan.honest,
    )


def multiplier(plan: Plan, layers: int) -> float:
    """Return z of one sum under the noise of one client that hides as little of a record as all rounds together."""
    sums = [releases(plan, t, layers, 1)[0] for t in range(plan.rounds)]
    return 1 / math.sqrt(math.fsum(rho(grouped(r.noise_multipliers, 1.0)) for r in sums))


def private_trial(plan: Plan, data: Dataset) -> Plan:
    """Return the plan of a trial: as many clients, without what is held out of them, and a trial's noise."""
    size = min(plan.client_size, len(data.train) // plan.clients)
    if size < 1:
        raise BadInput(f"on = private: {plan.clients} clients have no example left to hold out; use fewer clients")
    return replace(louder(plan, 1 / TRIAL_SHARE), client_size=size, batch=size)
