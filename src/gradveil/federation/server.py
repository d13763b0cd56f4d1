"""The server of Algorithm 1: it starts the model and absorbs what a cohort reports."""

from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gradveil import keys, tree
from gradveil.data.sampling import CohortSampling
from gradveil.errors import AnswerIsNo
from gradveil.federation.messages import Reports, Task, Work
from gradveil.federation.plan import Plan
from gradveil.keys import Keys
from gradveil.privacy.sanitize import Measures, cross
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


class Diverged(AnswerIsNo):
    """An update or the model is no longer finite; the last good state is the one before this round."""

    def __init__(self, t: int, who: str) -> None:
        super().__init__(
            f"round {t}: {who} is not finite any more (NaN or infinity); lower the learning rate or the noise scale, "
            "or clip at a smaller bound"
        )
        self.round = t


class State(NamedTuple):
    """What the run has come to: the next round's number, W(t), the clip's memory, and who took part how often [N]."""

    round: int
    params: Tree
    memory: Tree
    participations: np.ndarray[Any, Any]


def init(plan: Plan, shape: tuple[int, ...], classes: int, roots: Keys) -> State:
    """Draw W(0) and start the clip's memory."""
    params = plan.model.init(keys.named(roots.public, "init"), shape, classes)
    return State(0, params, plan.method.clip.start(params), np.zeros(plan.clients, np.int32))


def absorb(plan: Plan, task: Task, state: State, reports: Reports) -> tuple[State, Measures]:
    """Let the updates cross the server surface: W(t+1) <- W(t) + their mean; then let the clip learn.

    A cohort of fixed size is averaged over those that arrived; a Poisson cohort over its expected size.
    """
    _refuse_unless_finite(state, reports)
    arrived = jax.tree.map(jnp.asarray, (reports.update, reports.note, reports.measures))
    params, memory, measures = _absorb(_work(plan, len(reports.clients)), task, *arrived)
    if not bool(jnp.all(tree.is_finite(tree.lot_of_one(params)))):
        raise Diverged(state.round, "the model")
    return counted(State(state.round + 1, params, memory, state.participations), reports.clients), measures


def counted(state: State, clients: np.ndarray[Any, Any]) -> State:
    """Count one participation more of these clients."""
    participations = state.participations.copy()
    participations[clients] += 1
    return state._replace(participations=participations)


def _work(plan: Plan, arrived: int) -> Work:
    work = Work.of(plan)
    return replace(work, cohort=arrived) if plan.cohort_sampling is CohortSampling.FIXED and arrived else work


@partial(jax.jit, static_argnums=0)
def _absorb(work: Work, task: Task, updates: Tree, notes: Tree, measures: Measures) -> tuple[Tree, Tree, Measures]:
    rule = work.kind.bind(task.numbers)
    mask = jnp.ones(jax.tree.leaves(updates)[0].shape[0])
    at_server, learning = (keys.named(task.key, purpose) for purpose in ("server", "learn"))
    sigma = task.sigmas[0]
    crossing = cross(Surface.SERVER, rule, updates, mask, work.cohort, sigma, task.memory, at_server)
    acts_here = rule.surface is Surface.SERVER
    summed = crossing.note if acts_here else jax.tree.map(partial(jnp.sum, axis=0), notes)
    memory = rule.clip.learn(task.memory, summed, _expected_units(work, rule.surface), learning)
    some = max(mask.shape[0], 1)
    seen = crossing.measures if acts_here else Measures(*(jnp.sum(m) / some for m in measures))
    return tree.add_scaled(task.params, crossing.used, 1.0), memory, seen


def _expected_units(work: Work, surface: Surface) -> Array:
    """Give the expected number of units that a clip notes in a round: K B examples of first steps, or K updates."""
    return jnp.asarray(float(work.cohort * (work.batch if surface is Surface.EXAMPLE else 1)))


def _refuse_unless_finite(state: State, reports: Reports) -> None:
    finite = np.asarray(tree.is_finite(jax.tree.map(jnp.asarray, reports.update)))
    if not finite.all():
        raise Diverged(state.round, f"the update of client {reports.clients[int(np.argmin(finite))]}")
