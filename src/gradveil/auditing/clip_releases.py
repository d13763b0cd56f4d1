"""What a clip that learns releases beside units, and many draws of its noise, which has few coordinates.

The slots of `Slack` are part of what clients noise, steps and updates, or of what the server does. The noised count of
`Quantile` is what the server makes known.
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
    """Whether slots are released beside the units of a round."""
    return _one_noise(spec, task) and isinstance(spec.method(task).clip, Slack)


def releases_count(spec: ClientSpec, task: RoundTask) -> bool:
    """Whether a noised count is released beside every unit of a round.

    Of examples it is that of the first local step, so among several it is no part of every release, and is left out.
    """
    once = spec.static.surface is not Surface.EXAMPLE or spec.steps == 1
    return once and _one_noise(spec, task) and isinstance(spec.method(task).clip, Quantile)


def _one_noise(spec: ClientSpec, task: RoundTask) -> bool:
    return spec.stage is None and spec.method(task).draw is not Draw.EACH


def numbers_beside(spec: ClientSpec, task: RoundTask) -> int:
    """Count the numbers that are released beside units: slots, or one share."""
    clip = spec.method(task).clip
    if isinstance(clip, Slack) and releases_slots(spec, task):
        layers = len(jax.tree.leaves(trained(spec.model, task.params)))
        return clip.slots * (layers if clip.per_layer else 1)
    return 1 if releases_count(spec, task) else 0


def beside_update(spec: ClientSpec, task: RoundTask, statistics: Tree) -> Array:
    """Return the slots over C in what a client sends, [k]; zeros where it sends none."""
    if releases_slots(spec, task) and jax.tree.leaves(statistics):
        return jnp.ravel(statistics[0])
    return jnp.zeros(numbers_beside(spec, task))


def beside_model(spec: ClientSpec, task: RoundTask, clip_state: Tree, updates: Tree, mask: Array) -> Array:
    """Return what is known beside the model, [k]: slots over C that the server noised, or the share of a count.

    clip_state: after the round; updates [K, ...], mask [K]: what crossed the server surface. Zeros for slots that the
    clients noised: updates have them.
    """
    if releases_slots(spec, task) and spec.static.surface is Surface.SERVER:
        return jnp.ravel(server.crossed(spec, task, updates, mask).statistics[0])
    if releases_count(spec, task):
        return _noised_share(spec, task, clip_state)
    return jnp.zeros(numbers_beside(spec, task))


def _noised_share(spec: ClientSpec, task: RoundTask, clip_state: Tree) -> Array:
    """Return the noised share of units within C, less gamma, that the next C tells, [1]."""
    clip = spec.method(task).clip
    return -jnp.log(clip_state / task.clip_state)[None] / getattr(clip, "eta", 1.0)


def noise_beside(
    spec: ClientSpec, task: RoundTask, keys: Array, labels: Array, nobody: Array
) -> tuple[Array, Array, Array]:
    """Return many draws of the noise beside steps, updates and the model, rows [., k] each, while nobody is there."""
    none = jnp.zeros((0, numbers_beside(spec, task)))
    if spec.static.surface is Surface.SERVER or releases_count(spec, task):
        return none, none, jax.lax.map(lambda key: _beside_empty_round(spec, task._replace(key=key)), keys)
    data = ClientData(nobody, labels, jnp.arange(spec.size), jnp.asarray(0))
    steps, updates = jax.lax.map(lambda key: _beside_nobody(spec, task._replace(key=key), data), keys)
    return steps.reshape(-1, none.shape[1]), updates, none


def _beside_nobody(spec: ClientSpec, task: RoundTask, data: ClientData) -> tuple[Array, Array]:
    """Return slots of a client whose records are all gone, which are noise: of its steps [L, k] and its update [k].

    No rows of steps where updates are what is noised.
    """
    thinned = replace(spec, sampling=Without(spec.sampling, jnp.asarray(CLIENT)))

    def move(before: client.Progress, index: Array) -> tuple[client.Progress, Array]:
        after = client.step(thinned, task, data, before, index)
        return after, beside_update(spec, task, jax.tree.map(jnp.subtract, after.statistics, before.statistics))

    after, steps = jax.lax.scan(move, client.begin(thinned, task), jnp.arange(spec.steps))
    by_example = spec.static.surface is Surface.EXAMPLE
    report = client.finish(thinned, task, data, after, 1.0 if by_example else 0.0)
    return steps if by_example else steps[:0], beside_update(spec, task, report.statistics)


def _beside_empty_round(spec: ClientSpec, task: RoundTask) -> Array:
    """Return the noise that the server adds beside the model, [k]: it absorbs reports of nobody."""
    updates = jax.tree.map(lambda a: jnp.zeros((spec.cohort, *a.shape)), trained(spec.model, task.params))
    metrics = ClipMetrics(*(jnp.zeros(spec.cohort),) * len(ClipMetrics._fields))
    empty = jnp.zeros(spec.cohort)
    _, clip_state, _ = server.aggregate(spec, task, updates, empty, metrics, empty)
    beside = beside_model(spec, task, clip_state, updates, empty)
    return beside - (0.5 - getattr(spec.method(task).clip, "gamma", 0.5))
