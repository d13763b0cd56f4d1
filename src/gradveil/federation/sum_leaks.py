"""What is read by those who see only the sum over the clients of a round: one reading of all their examples."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import keys
from gradveil.data.sampling import CohortSampling
from gradveil.errors import BadInput
from gradveil.federation.engine import Population
from gradveil.federation.leaks import AGGREGATE, Read, Tap, as_gradient, client_data, gradient_task, noise, sent
from gradveil.federation.messages import ClientSpec
from gradveil.federation.plan import Plan
from gradveil.federation.server import State
from gradveil.keys import Key
from gradveil.models.gradients import trained
from gradveil.privacy.sanitize import cross
from gradveil.privacy.slack import read_slots
from gradveil.surface import Surface

Host = np.ndarray[Any, Any]
SUM = Tap(Surface.SERVER, AGGREGATE)


def refuse_unless_fixed(plan: Plan) -> None:
    """Refuse plans whose sums are over a number of examples that varies: which of them are whose is not known."""
    if not shows_sums(plan):
        raise BadInput(
            "view = 'aggregate': needs cohorts and batches of a fixed size, not "
            f"{plan.cohort_sampling.value} cohorts of {plan.sampling.name} batches"
            f"{' of clients of different sizes' if plan.client_sizes else ''}"
        )


def shows_sums(plan: Plan) -> bool:
    """Whether the sum over a cohort is always over as many clients and examples."""
    fixed = plan.cohort_sampling is CohortSampling.FIXED and plan.sampling.fixed_size
    return fixed and not plan.client_sizes


def read_sum(plan: Plan, population: Population, state: State, key: Key, cohort: Host) -> Read:
    """Replay a cohort in the round after `state` under the round's key, and read the mean of its updates.

    Only H clients are honest; what the others sent they know and subtract, so the mean is over the first H. It is
    noised by the server where the method acts there. rows [L H B]: step by step, and client by client within a step.
    """
    refuse_unless_fixed(plan)
    task, spec = gradient_task(plan, state, key), ClientSpec.of(plan)
    honest = [int(number) for number in cohort[: plan.honest]]
    updates, rows, slots = zip(*(sent(spec, task, client_data(population, number)) for number in honest), strict=True)
    lot = jax.tree.map(lambda *each: jnp.stack(each), *updates)
    method, at_server = spec.method(task), keys.named(task.key, "server")
    mask = jnp.ones(len(honest))
    crossing = cross(Surface.SERVER, method, lot, mask, len(honest), task.sigmas[0], task.clip_state, at_server)
    slot_reading = jax.tree.map(lambda *each: jnp.mean(jnp.stack(each), axis=0), *slots)
    if method.acts(Surface.SERVER):
        slot_reading = read_slots(method.clip, crossing.statistics, task.clip_state)
    std = noise(plan, int(task.t), SUM, trained(plan.model, task.params), state.clip_state)
    in_steps = np.stack(rows).reshape(len(honest), spec.steps, -1).swapaxes(0, 1).ravel()
    gradient = as_gradient(crossing.used, plan.learning_rate, spec.steps)
    return Read(task.params, state.clip_state, gradient, std, in_steps, slot_reading)
