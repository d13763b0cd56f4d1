"""The server of Algorithm 1: it initializes the model and applies a cohort's reports."""

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import keys, tree
from gradveil.data import unequal
from gradveil.data.sampling import CohortSampling
from gradveil.errors import RunFailed
from gradveil.federation.messages import ClientSpec, Reports, RoundTask
from gradveil.federation.plan import Plan
from gradveil.federation.server_side import ServerSide, averaged, started
from gradveil.keys import Keys
from gradveil.models.gradients import joined, trained
from gradveil.privacy.sanitize import ClipMetrics, Crossing, cross
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


class Diverged(RunFailed):
    """An update or the model is no longer finite; the last good state is the one before this round."""

    def __init__(self, t: int, quantity: str) -> None:
        super().__init__(
            f"round {t}: the run diverged, {quantity} is not finite (NaN or infinity); lower the learning rate or the "
            "noise scale, or clip at a smaller bound"
        )
        self.round = t


class State(NamedTuple):
    """A run before round t: that number, W(t), the clip's state, and how often each client participated [N].

    server_state: what `plan.server_side` remembers; empty without one.
    """

    round: int
    params: Tree
    clip_state: Tree
    participations: np.ndarray[Any, Any]
    server_state: Tree = ()


def init(plan: Plan, shape: tuple[int, ...], classes: int, roots: Keys) -> State:
    """Draw W(0) and the clip's first state."""
    params = plan.model.init(keys.named(roots.public, "init"), shape, classes)
    weights = trained(plan.model, params)
    clip_state, server_state = plan.method.clip.init(weights), started(plan.server_side, weights)
    return State(0, params, clip_state, np.zeros(plan.clients, np.int32), server_state)


def model_of(plan: Plan, state: State) -> Tree:
    """Return the parameters to evaluate and keep."""
    if plan.server_side is None:
        return state.params
    weights = averaged(plan.server_side, trained(plan.model, state.params), state.server_state)
    return joined(plan.model, state.params, weights)


def absorb(plan: Plan, task: RoundTask, state: State, reports: Reports) -> tuple[State, ClipMetrics]:
    """Let the updates cross the server surface: W(t+1) <- W(t) + their mean; then update the clip's state.

    After a preparation round, what it learned from their mean takes its place among the parameters instead.

    A cohort of fixed size is averaged over those that arrived; a Poisson cohort over its expected size.
    """
    _refuse_unless_finite(state, reports)
    arrived = jax.tree.map(jnp.asarray, (reports.update, reports.statistics, reports.metrics))
    spec = _spec(plan, len(reports.clients), state.round)
    moved, clip_state, metrics = aggregate(spec, task, *arrived, _weights(plan, reports.clients))
    params, server_state = moved, state.server_state
    if spec.stage is not None:
        params = _prepared(plan, spec, state, moved, reports.noise_std)
    elif plan.server_side is not None:
        params, server_state = _stepped(plan, plan.server_side, state, moved)
    if not bool(jnp.all(tree.is_finite(tree.lot_of_one(params)))):
        raise Diverged(state.round, "the model")
    after = State(state.round + 1, params, clip_state, state.participations, server_state)
    return counted(after, reports.clients), metrics


def _stepped(plan: Plan, side: ServerSide, state: State, moved: Tree) -> tuple[Tree, Tree]:
    """Let the server do with the mean update what the plan says, where plain training would add it."""
    start, skipped = trained(plan.model, state.params), len(plan.preparation)
    update = tree.subtract(trained(plan.model, moved), start)
    at = state.round - skipped, plan.rounds - skipped
    weights, server_state = side.step(start, update, state.server_state, *at)
    return joined(plan.model, state.params, weights), server_state


def counted(state: State, clients: np.ndarray[Any, Any]) -> State:
    """Return the state with one more participation of these clients."""
    participations = state.participations.copy()
    participations[clients] += 1
    return state._replace(participations=participations)


def _prepared(plan: Plan, spec: ClientSpec, state: State, mean: Tree, noise_std: float | None) -> Tree:
    """Put what a preparation learned from the noised mean of all vectors into the parameters, on the host.

    noise_std: of the noise on that mean; by default what all clients of the cohort draw.
    """
    if spec.stage is None:
        return state.params
    own = float(plan.sigmas()[state.round, 0]) / (math.sqrt(plan.honest) if plan.method.share else 1.0)
    drawn = own * _noise_factor(plan) / math.sqrt(max(spec.cohort, 1))
    known = drawn if noise_std is None else noise_std
    value = jnp.asarray(spec.stage.value(np.asarray(mean), known), jnp.float32)
    at = plan.preparation.index(spec.stage)
    return (*state.params[:at], value, *state.params[at + 1 :])


def _noise_factor(plan: Plan) -> float:
    """Return the noise of one client on the mean over the cohort, over that on its own sum: the root mean square."""
    if not plan.client_sizes:
        return 1 / plan.batch
    shares = unequal.weights(plan.sizes, plan.client_weights) / np.asarray(plan.sizes)
    return float(np.sqrt(np.mean(np.square(shares))))


def _spec(plan: Plan, arrived: int, t: int) -> ClientSpec:
    spec = ClientSpec.of(plan, t)
    return replace(spec, cohort=arrived) if plan.cohort_sampling is CohortSampling.FIXED and arrived else spec


def client_weights(plan: Plan) -> np.ndarray[Any, Any] | None:
    """Return the weights of clients of different sizes; none where the unit is a client, each of which counts alike."""
    if not plan.client_sizes or plan.method.acts(Surface.UPDATE) or plan.method.acts(Surface.SERVER):
        return None
    return unequal.weights(plan.sizes, plan.client_weights)


def _weights(plan: Plan, clients: np.ndarray[Any, Any]) -> Array | None:
    weights = client_weights(plan)
    return None if weights is None else jnp.asarray(weights[clients])


@partial(jax.jit, static_argnums=0)
def aggregate(
    spec: ClientSpec,
    task: RoundTask,
    updates: Tree,
    statistics: Tree,
    metrics: ClipMetrics,
    weights: Array | None = None,
) -> tuple[Tree, Tree, ClipMetrics]:
    """Return the parameters after the updates [K, ...] crossed the server surface, the clip's next state and metrics.

    weights: float32 [K], 1 on average over all clients, of updates that cross unchanged; the same for all by default.

    In a preparation round, in place of the parameters the mean of the vectors.
    """
    method = spec.method(task)
    mask = jnp.ones(jax.tree.leaves(updates)[0].shape[0]) if weights is None else weights
    crossing, acts = crossed(spec, task, updates, mask), method.acts(Surface.SERVER)
    summed = crossing.statistics if acts else jax.tree.map(partial(jnp.sum, axis=0), statistics)
    expected, learning = _expected_units(spec, method.surface), keys.named(task.key, "learn")
    clip_state = method.clip.update(task.clip_state, summed, expected, learning)
    count = max(mask.shape[0], 1)
    measured = crossing.metrics if acts else ClipMetrics(*(jnp.sum(m) / count for m in metrics))
    if spec.stage is not None:
        return crossing.used, clip_state, measured
    weights = tree.add_scaled(trained(spec.model, task.params), crossing.used, 1.0)
    return joined(spec.model, task.params, weights), clip_state, measured


def crossed(spec: ClientSpec, task: RoundTask, updates: Tree, mask: Array) -> Crossing:
    """Let the updates [K, ...] of those who are there (mask [K]) cross the server surface."""
    method, key = spec.method(task), keys.named(task.key, "server")
    return cross(Surface.SERVER, method, updates, mask, spec.cohort, task.sigmas[0], task.clip_state, key)


def _expected_units(spec: ClientSpec, surface: Surface) -> Array:
    """Return how many units a round's clip statistics are expected to cover: K B examples, or K updates."""
    return jnp.asarray(float(spec.cohort * (spec.batch if surface is Surface.EXAMPLE else 1)))


def _refuse_unless_finite(state: State, reports: Reports) -> None:
    finite = np.asarray(tree.is_finite(jax.tree.map(jnp.asarray, reports.update)))
    if not finite.all():
        raise Diverged(state.round, f"the update of client {reports.clients[int(np.argmin(finite))]}")
