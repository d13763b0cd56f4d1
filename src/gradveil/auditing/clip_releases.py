"""What a clip that learns releases beside gradients, and many draws of its noise, which has few coordinates.

The slots of `Slack` are part of local steps and updates. The noised count of `Quantile` is what the server makes known.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp

from gradveil.auditing.absence import CLIENT, Without
from gradveil.federation import client, server
from gradveil.federation.client import ClientData
from gradveil.federation.messages import ClientSpec, RoundTask
from gradveil.models.gradients import trained
from gradveil.privacy.adaptive import Quantile
from gradveil.privacy.draw import Draw
from gradveil.privacy.sanitize import ClipMetrics
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


def releases_slots(spec: ClientSpec, task: RoundTask) -> bool:
    """Whether slots are released beside the gradients of a round."""
    return _by_example(spec, task) and isinstance(spec.method(task).clip, Slack)


def releases_count(spec: ClientSpec, task: RoundTask) -> bool:
    """Whether a noised count is released beside the one local step of a round.

    It is of the first local step, so among several it is no part of every release, and is left out.
    """
    return _by_example(spec, task) and spec.steps == 1 and isinstance(spec.method(task).clip, Quantile)


def _by_example(spec: ClientSpec, task: RoundTask) -> bool:
    method = spec.method(task)
    return spec.stage is None and method.surface is Surface.EXAMPLE and method.draw is not Draw.EACH


def slots_over_bound(spec: ClientSpec, task: RoundTask, statistics: Tree) -> Array:
    """Return the slots over C that statistics hold, [k]; zeros in the place of a count, nothing for other clips."""
    if releases_slots(spec, task):
        return jnp.ravel(statistics[0])
    return jnp.zeros(1 if releases_count(spec, task) else 0)


def noised_share(spec: ClientSpec, task: RoundTask, clip_state: Tree, slots: Array) -> Array:
    """Return the noised share of units within C, less gamma, that the next C tells; zeros in the places of slots."""
    clip = spec.method(task).clip
    if isinstance(clip, Quantile) and releases_count(spec, task):
        return -jnp.log(clip_state / task.clip_state)[None] / clip.eta
    return jnp.zeros_like(slots)


def noise_of_slots(spec: ClientSpec, task: RoundTask, keys: Array, labels: Array, nobody: Array) -> tuple[Array, Array]:
    """Return slots of a client whose records are all gone, which are noise: of steps [n, L, k] and updates [n, k]."""
    data = ClientData(nobody, labels, jnp.arange(spec.size), jnp.asarray(0))
    thinned = replace(spec, sampling=Without(spec.sampling, jnp.asarray(CLIENT)))

    def one(key: Array) -> tuple[Array, Array]:
        now = task._replace(key=key)

        def move(before: client.Progress, index: Array) -> tuple[client.Progress, Array]:
            after = client.step(thinned, now, data, before, index)
            return after, jnp.ravel(after.statistics[0] - before.statistics[0])

        after, steps = jax.lax.scan(move, client.begin(thinned, now), jnp.arange(spec.steps))
        return steps, jnp.ravel(after.statistics[0])

    drawn: tuple[Array, Array] = jax.lax.map(one, keys)
    return drawn


def noise_of_count(spec: ClientSpec, task: RoundTask, keys: Array) -> Array:
    """Return the noise of the share that the server makes known, [n, 1]: it absorbs reports of zeros."""
    clip = spec.method(task).clip
    zeros = jax.tree.map(lambda a: jnp.zeros((spec.cohort, *a.shape)), trained(spec.model, task.params))
    metrics = ClipMetrics(*(jnp.zeros(spec.cohort),) * len(ClipMetrics._fields))

    def one(key: Array) -> Array:
        now = task._replace(key=key)
        _, clip_state, _ = server.aggregate(spec, now, zeros, jnp.zeros(spec.cohort), metrics)
        return noised_share(spec, now, clip_state, jnp.zeros(1)) - (0.5 - getattr(clip, "gamma", 0.5))

    noise: Array = jax.lax.map(one, keys)
    return noise
