"""The server of Algorithm 1: it initializes the model and applies a cohort's reports."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import keys, tree
from gradveil.data.sampling import CohortSampling
from gradveil.errors import RunFailed
from gradveil.federation.messages import ClientSpec, Reports, RoundTask
from gradveil.federation.plan import Plan
from gradveil.keys import Keys
from gradveil.privacy.sanitize import ClipMetrics, cross
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


class Diverged(RunFailed):
    """An update or the model is no longer finite; the last good state is the one before this round."""

    def __init__(self, t: int, what: str) -> None:
        super().__init__(
            f"round {t}: the run diverged, {what} is not finite (NaN or infinity); lower the learning rate or the "
            "noise scale, or clip at a smaller bound"
        )
        self.round = t


class State(NamedTuple):
    """A run before round t: that number, W(t), the clip's state, and how often each client participated [N]."""

    round: int
    params: Tree
    clip_state: Tree
    participations: np.ndarray[Any, Any]


def init(plan: Plan, shape: tuple[int, ...], classes: int, roots: Keys) -> State:
    """Draw W(0) and the clip's first state."""
    params = plan.model.init(keys.named(roots.public, "init"), shape, classes)
    return State(0, params, plan.method.clip.init(params), np.zeros(plan.clients, np.int32))


def absorb(plan: Plan, task: RoundTask, state: State, reports: Reports) -> tuple[State, ClipMetrics]:
    """Let the updates cross the server surface: W(t+1) <- W(t) + their mean; then update the clip's state.

    A cohort of fixed size is averaged over those that arrived; a Poisson cohort over its expected size.
    """
    _refuse_unless_finite(state, reports)
    arrived = jax.tree.map(jnp.asarray, (reports.update, reports.statistics, reports.metrics))
    params, clip_state, metrics = _absorb(_spec(plan, len(reports.clients)), task, *arrived)
    if not bool(jnp.all(tree.is_finite(tree.lot_of_one(params)))):
        raise Diverged(state.round, "the model")
    return counted(State(state.round + 1, params, clip_state, state.participations), reports.clients), metrics


def counted(state: State, clients: np.ndarray[Any, Any]) -> State:
    """Return the state with one more participation of these clients."""
    participations = state.participations.copy()
    participations[clients] += 1
    return state._replace(participations=participations)


def _spec(plan: Plan, arrived: int) -> ClientSpec:
    spec = ClientSpec.of(plan)
    return replace(spec, cohort=arrived) if plan.cohort_sampling is CohortSampling.FIXED and arrived else spec


@partial(jax.jit, static_argnums=0)
def _absorb(
    spec: ClientSpec, task: RoundTask, updates: Tree, statistics: Tree, metrics: ClipMetrics
) -> tuple[Tree, Tree, ClipMetrics]:
    method = spec.method(task)
    mask = jnp.ones(jax.tree.leaves(updates)[0].shape[0])
    at_server, learning = (keys.named(task.key, purpose) for purpose in ("server", "learn"))
    sigma = task.sigmas[0]
    crossing = cross(Surface.SERVER, method, updates, mask, spec.cohort, sigma, task.clip_state, at_server)
    acts = method.acts(Surface.SERVER)
    summed = crossing.statistics if acts else jax.tree.map(partial(jnp.sum, axis=0), statistics)
    clip_state = method.clip.update(task.clip_state, summed, _expected_units(spec, method.surface), learning)
    count = max(mask.shape[0], 1)
    measured = crossing.metrics if acts else ClipMetrics(*(jnp.sum(m) / count for m in metrics))
    return tree.add_scaled(task.params, crossing.used, 1.0), clip_state, measured


def _expected_units(spec: ClientSpec, surface: Surface) -> Array:
    """Return how many units a round's clip statistics are expected to cover: K B examples, or K updates."""
    return jnp.asarray(float(spec.cohort * (spec.batch if surface is Surface.EXAMPLE else 1)))


def _refuse_unless_finite(state: State, reports: Reports) -> None:
    finite = np.asarray(tree.is_finite(jax.tree.map(jnp.asarray, reports.update)))
    if not finite.all():
        raise Diverged(state.round, f"the update of client {reports.clients[int(np.argmin(finite))]}")
