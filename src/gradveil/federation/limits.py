"""How large an honest update can be: a limit that follows from the plan, above which a server rejects updates.

A clip bounds every example or update, so the plan determines how far an honest client can move the model in a round,
except for the tail of its noise. Without such a limit, one node that sends large finite numbers would ruin the model.
"""

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from gradveil.data import unequal
from gradveil.federation.plan import Plan
from gradveil.models.gradients import trained
from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.clip import Unclipped
from gradveil.privacy.draw import Draw
from gradveil.privacy.prune import Dssgd
from gradveil.privacy.sensitivity import ClipBound, Fixed
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface

FAILURE = 1e-12
"""The probability that the noise of an honest update exceeds its part of the limit."""
SLACK = 1e-3
"""The margin for rounding in float32, as a fraction of the limit."""
_ROUNDING = 2.0**-23


class Space(NamedTuple):
    """How a clip maps a noised mean back, width * w + offset, by its norms.

    width, widest: the l2 norm of the widths over all coordinates, and the largest; offset: the l2 norm of the offsets.
    """

    width: float
    widest: float
    offset: float


def update_limit(plan: Plan, t: int, params: Any, clip_state: Any, size: int | None = None) -> float:
    """Return a norm that the update of an honest client in round t exceeds with probability at most FAILURE.

    Units are bounded by C in the clip's space, C sqrt(M) over all M layers where each is clipped on its own, and at
    most n' units (the capacity of a batch) are summed and divided by n. With noise of standard deviation s_l on the
    mean of step l, an update that was noised step by step has
        ||u|| <= eta (L (n'/n C w + o) + v (W + w sqrt(2 ln(1/FAILURE)))),   v^2 = sum_l s_l^2,
    where (W, w, o) are the width, widest and offset of `Space`, (sqrt(d), 1, 0) where the clip maps nothing. One that
    was noised as a whole has ||u|| <= C w + o + s (W + w sqrt(2 ln(1/FAILURE))). The noise is sub-Gaussian with
    parameter v even where S follows the data, since S is bounded and chosen before the noise is drawn; the tail is that
    of Hsu, Kakade and Zhang (2012). Infinity where nothing bounds a unit before it is sent, as for plain averaging and
    for Fed-SDP, whose server clips what arrives.

    size: the examples of the client where clients hold different numbers, on which n and n' depend.
    """
    if (stage := plan.stage(t)) is not None:
        return _prepared_limit(plan, t, stage.length(len(params[-1]) - 1), size)  # W has a row for the bias
    params = trained(plan.model, params)
    if plan.method.surface is Surface.SERVER or math.isinf(_largest_unit(plan, params, clip_state)):
        return math.inf
    example = plan.method.surface is Surface.EXAMPLE
    released = _sum_of_steps(plan, t, params, clip_state, size)
    limit = released * (plan.learning_rate if example else 1.0) * (1 + SLACK)
    return limit + plan.local_steps * _ROUNDING * (_norm(params) + limit)


def _prepared_limit(plan: Plan, t: int, length: int, size: int | None) -> float:
    """Return the limit for the noised mean of a preparation's vectors, each of norm 1 at most.

    size: the examples of the client where clients hold different numbers; the mean is over as many.
    """
    noise = float(plan.sigmas()[t, 0]) / (size or plan.batch) / (math.sqrt(plan.honest) if plan.method.share else 1.0)
    return (1 + noise * (math.sqrt(length) + math.sqrt(2 * math.log(1 / FAILURE)))) * (1 + SLACK)


def statistics_fault(
    plan: Plan, t: int, params: Any, clip_state: Any, statistics: tuple[np.ndarray[Any, Any], ...]
) -> str | None:
    """Return why clip statistics, leaves [k, ...], cannot come from an honest client; None if they can."""
    clip, example = plan.method.clip, plan.method.surface is Surface.EXAMPLE
    if plan.stage(t) is not None:
        return None
    params = trained(plan.model, params)
    if isinstance(clip, Quantile):
        limit = _capacity(plan) / 2
        return None if all((np.abs(n) <= limit).all() for n in statistics) else f"a count is above the limit {limit:g}"
    if isinstance(clip, Slack) and plan.method.surface is not Surface.SERVER:
        return _slots_fault(plan, t, *statistics)
    if not isinstance(clip, AdaClip) or plan.method.surface is Surface.SERVER:
        return None
    steps, space = plan.local_steps if example else 1, _space(plan, params, clip_state)
    released = _sum_of_steps(plan, t, params, clip_state) * (1 + SLACK)
    # One step is at most as large as all, so each squared distance from the mean is below that of both together.
    spread = steps * np.square(2 * (released + space.offset))
    layers = len(jax.tree.leaves(params))
    for limit, leaves in ((released, statistics[:layers]), (spread, statistics[layers : 2 * layers])):
        if (norms(leaves) > limit).any():
            return f"clip statistics have norm {norms(leaves).max():.3g}, above the limit {limit:.3g}"
    return None if (statistics[-1] == steps).all() else f"clip statistics are not of {steps} steps"


def _slots_fault(plan: Plan, t: int, *statistics: np.ndarray[Any, Any]) -> str | None:
    """Return why the slots of units cannot be honest: too large, or the public noise and count are not the plan's."""
    (slots, variance, count), example = statistics, plan.method.surface is Surface.EXAMPLE
    n, capacity, steps = (plan.batch, _capacity(plan), plan.local_steps) if example else (1, 1, 1)
    noise = _noise(plan, t, n, capacity, 1.0)
    units = steps * capacity / n * math.sqrt(slots.shape[1])
    limit = (units + noise * (math.sqrt(slots[0].size) + math.sqrt(2 * math.log(1 / FAILURE)))) * (1 + SLACK)
    if not (norms((slots,)) <= limit).all():
        return f"clip statistics have norm {norms((slots,)).max():.3g}, above the limit {limit:.3g}"
    if not (np.abs(variance - _noise(plan, t, n, n, 1.0) ** 2) <= SLACK * noise**2).all():
        return "clip statistics do not have the plan's noise"
    return None if (count == steps).all() else f"clip statistics are not of {steps} steps"


def norms(update: tuple[np.ndarray[Any, Any], ...]) -> np.ndarray[Any, Any]:
    """Return the norm of each client's update from its leaves [k, ...], in float64, where float32 would overflow."""
    squares = [np.square(leaf.astype(np.float64)).reshape(len(leaf), -1).sum(axis=1) for leaf in update]
    total: np.ndarray[Any, Any] = np.sqrt(np.sum(squares, axis=0))
    return total


def _sum_of_steps(plan: Plan, t: int, params: Any, clip_state: Any, size: int | None = None) -> float:
    """Return the largest norm of what a client releases in round t, summed over its steps; see `update_limit`."""
    space = _space(plan, params, clip_state)
    n, capacity, steps = _lot(plan, size)
    unit = capacity / n * _largest_unit(plan, params, clip_state)
    noise = _noise(plan, t, n, capacity, _largest_sensitivity(plan, clip_state, capacity / n))
    tail = noise * (space.width + space.widest * math.sqrt(2 * math.log(1 / FAILURE)))
    return steps * (unit * space.widest + space.offset) + tail


def _lot(plan: Plan, size: int | None) -> tuple[float, int, int]:
    """Return n, by which a client's sums are divided, the most units in one, and how many sums there are."""
    if plan.method.surface is not Surface.EXAMPLE:
        return 1, 1, 1
    if size is None:
        return plan.batch, _capacity(plan), plan.local_steps
    rate = plan.batch / plan.client_size
    return rate * size, unequal.most_of(size, rate), plan.local_steps


def _capacity(plan: Plan) -> int:
    """Return the most units in one sum of a client."""
    example = plan.method.surface is Surface.EXAMPLE
    return plan.sampling.capacities(plan.client_size, plan.batch)[-1] if example else 1


def _noise(plan: Plan, t: int, n: float, capacity: int, sensitivity: float) -> float:
    """Return the standard deviation of a coordinate's noise, summed over the steps of a round, before it is mapped."""
    sigmas = plan.sigmas()[t]
    if not sigmas.any():
        return 0.0
    share = math.sqrt(plan.honest) if plan.method.share else 1.0
    if plan.method.surface is Surface.UPDATE:
        return float(sigmas[0]) * sensitivity / share
    drawn = {Draw.SUM: 1 / n, Draw.EACH: math.sqrt(capacity) / n, Draw.MEAN: 1.0}[plan.method.draw]
    return float(np.sqrt(np.square(sigmas).sum())) * sensitivity * drawn / share


def _largest_unit(plan: Plan, params: Any, clip_state: Any) -> float:
    """Return the largest norm of a unit after clipping, over all layers and in the clip's space."""
    clip, prune = plan.method.clip, plan.method.prune
    layers = 1 if clip.joint else len(jax.tree.leaves(params))
    bound = math.inf if isinstance(clip, Unclipped) else float(clip.bound(clip_state)) * math.sqrt(layers)
    if isinstance(prune, Dssgd) and not isinstance(clip, AdaClip):
        return min(bound, prune.bound * math.sqrt(_size(params)))
    return bound


def _largest_sensitivity(plan: Plan, clip_state: Any, fill: float) -> float:
    """Return the largest S; a data-dependent one is bounded by norms of clipped units or of their mean."""
    sensitivity = plan.method.sensitivity
    if isinstance(sensitivity, Fixed):
        return sensitivity.value
    bound = float(plan.method.clip.bound(clip_state))
    return bound if isinstance(sensitivity, ClipBound) else bound * max(1.0, fill)


def _space(plan: Plan, params: Any, clip_state: Any) -> Space:
    if not isinstance(plan.method.clip, AdaClip):
        return Space(math.sqrt(_size(params)), 1.0, 0.0)
    mean, _, width = clip_state
    return Space(_norm(width), max(float(np.max(leaf)) for leaf in jax.tree.leaves(width)), _norm(mean))


def _size(tree: Any) -> int:
    return sum(int(np.size(leaf)) for leaf in jax.tree.leaves(tree))


def _norm(tree: Any) -> float:
    return float(norms(tuple(np.asarray(leaf)[None] for leaf in jax.tree.leaves(tree)))[0])
