"""The mechanism with its chance, on examples of one's choice: what a tap would read if these had been trained on.

It goes through `privacy.sanitize.cross`, as training does, and not through the laws that attacks believe in.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.federation.leaks import AGGREGATE, as_gradient
from gradveil.federation.replay import Replay
from gradveil.models.gradients import batch_gradient, joined, per_example_gradients, trained
from gradveil.privacy.method import TracedMethod, combine
from gradveil.privacy.sanitize import Crossing, cross
from gradveil.privacy.slack import read_slots
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


@dataclass(frozen=True, slots=True)
class Redraw:
    """One reading of examples [L B, ...] and labels [L B], as `Replay` takes them, with noise drawn by a key.

    A label below 0 is a place without an example.
    """

    replay: Replay

    def __call__(
        self, params: Tree, clip_state: Tree, sigmas: Array, x: Array, y: Array, key: Array
    ) -> tuple[Tree, Tree]:
        """Return the reading under the noise sigmas [L] of its round, in the units of a gradient, and its slots."""
        spec, tap = self.replay.spec, self.replay.tap
        method = combine(spec.static, self.replay.dynamic)
        own = sigmas / jnp.sqrt(spec.honest) if method.share else sigmas
        if tap.surface is Surface.EXAMPLE:
            return self._gradient(method, params, clip_state, own[0], x, y, key)
        clients = spec.honest if tap.view == AGGREGATE else 1
        keys = jax.random.split(key, clients + 1)
        batches = (self.replay.by_client(x, clients), self.replay.by_client(y, clients), keys[1:])
        lot, slots = jax.lax.map(lambda one: self._update(method, params, clip_state, own, *one), batches)
        update, slot_reading = jax.tree.map(lambda a: a[0], lot), jax.tree.map(lambda a: jnp.mean(a, axis=0), slots)
        if tap.surface is Surface.SERVER and tap.view != "arriving":
            mask, sigma = jnp.ones(clients), sigmas[0]
            crossing = cross(Surface.SERVER, method, lot, mask, clients, sigma, clip_state, keys[0])
            update = crossing.used
            if method.acts(Surface.SERVER):
                slot_reading = read_slots(method.clip, crossing.statistics, clip_state)
        return as_gradient(update, self.replay.learning_rate, spec.steps), slot_reading

    def _update(
        self, method: TracedMethod, params: Tree, clip_state: Tree, sigmas: Array, x: Array, y: Array, key: Array
    ) -> tuple[Tree, Tree]:
        """Return the update that a client sends after L noised steps, and the mean of their slots."""
        spec, start = self.replay.spec, trained(self.replay.spec.model, params)
        lots = jax.tree.map(lambda a: a.reshape(spec.steps, a.shape[0] // spec.steps, *a.shape[1:]), (x, y))
        in_steps, at_end = jax.random.split(key)

        def step(at: Tree, given: tuple[Array, tuple[Array, Array], Array]) -> tuple[Tree, Tree]:
            sigma, lot, own = given
            gradient, slots = self._gradient(method, joined(spec.model, params, at), clip_state, sigma, *lot, own)
            return tree.add_scaled(at, gradient, -self.replay.learning_rate), slots

        after, slots = jax.lax.scan(step, start, (sigmas, lots, jax.random.split(in_steps, spec.steps)))
        update = tree.lot_of_one(tree.subtract(after, start))
        crossing = cross(Surface.UPDATE, method, update, jnp.ones(1), 1, sigmas[0], clip_state, at_end)
        if method.acts(Surface.UPDATE):
            return crossing.used, read_slots(method.clip, crossing.statistics, clip_state)
        return crossing.used, jax.tree.map(lambda a: jnp.mean(a, axis=0), slots)

    def _gradient(
        self, method: TracedMethod, params: Tree, clip_state: Tree, sigma: Array, x: Array, y: Array, key: Array
    ) -> tuple[Tree, Tree]:
        """Return what one batch releases at the example surface, and the slots beside it."""
        spec, tap = self.replay.spec, self.replay.tap
        expected = 1 if tap.single else spec.batch
        mask, labels = jnp.where(y < 0, 0.0, 1.0), jnp.maximum(y, 0)
        if tap.view == "in_memory" or not method.acts(Surface.EXAMPLE):
            return batch_gradient(spec.model, params, x, labels, mask / expected), ()
        lot = per_example_gradients(spec.model, params, x, labels)
        crossing: Crossing = cross(Surface.EXAMPLE, method, lot, mask, expected, sigma, clip_state, key)
        seen = tap.surface is not Surface.EXAMPLE or tap.shows_slots(spec)
        return crossing.used, read_slots(method.clip, crossing.statistics, clip_state) if seen else ()
