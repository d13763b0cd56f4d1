"""The public mechanism as a function of examples: what a tap would have read of them, apart from chance."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.federation.leaks import AGGREGATE, Tap, as_gradient
from gradveil.federation.messages import ClientSpec
from gradveil.federation.plan import Plan
from gradveil.models.gradients import batch_gradient, joined, per_example_gradients, trained
from gradveil.models.softened import Softened
from gradveil.privacy.method import TracedMethod, combine, split_static
from gradveil.privacy.release_law import ReleaseLaw, release_law
from gradveil.surface import Surface
from gradveil.tree import Array, Tree


@dataclass(frozen=True, slots=True)
class Replay:
    """What a tap would read of examples [L B, ...] and labels [L B], in the order of their use.

    Batches of varying size may have more or fewer than B of them, and a label below 0 marks padding; sums are divided
    by the public B as in training.
    """

    spec: ClientSpec
    dynamic: tuple[float, ...]
    learning_rate: float
    tap: Tap

    @staticmethod
    def of(plan: Plan, tap: Tap) -> "Replay":
        """Take from a plan what is public about it."""
        return Replay(ClientSpec.of(plan), split_static(plan.method)[1], plan.learning_rate, tap)

    def softened(self) -> "Replay":
        """Return the replay through the model with smooth maxima, whose sharpness stands before the parameters."""
        return replace(self, spec=replace(self.spec, model=Softened(self.spec.model)))

    def __call__(self, params: Tree, clip_state: Tree, x: Array, y: Array) -> Tree:
        """Return the reading without noise, of coordinates that were kept."""
        return self.law(params, clip_state, jnp.zeros(self.spec.steps), x, y).value

    def law(self, params: Tree, clip_state: Tree, sigmas: Array, x: Array, y: Array) -> ReleaseLaw:
        """Return the law of the reading under the noise sigmas [L] of its round, in the units of a gradient.

        Exact for one local step, and for any number where updates are noised. Several noised steps follow the path
        without noise: that later steps start from noised parameters is left out.
        """
        method = combine(self.spec.static, self.dynamic)
        sigmas = sigmas / jnp.sqrt(self.spec.honest) if method.share else sigmas
        if self.tap.surface is Surface.EXAMPLE:
            return self._example(method, params, clip_state, sigmas[0], x, y)
        if self.tap.view == AGGREGATE:
            return self._as_gradient(self._mean_update(method, params, clip_state, sigmas, x, y))
        update = self._update(method, params, clip_state, sigmas, x, y)
        if self.tap.surface is Surface.SERVER and self.tap.view == "released":
            update = _through(Surface.SERVER, method, update, sigmas[0], clip_state)
        return self._as_gradient(update)

    def _mean_update(
        self, method: TracedMethod, params: Tree, clip_state: Tree, sigmas: Array, x: Array, y: Array
    ) -> ReleaseLaw:
        """Return the law of the mean over H clients, of examples [L H B] step by step, as the server releases it.

        Coordinates that each client held back at random are a part of the noise: mean and variance are right.
        """
        clients = self.spec.honest

        def of_client(examples: tuple[Array, Array]) -> tuple[Tree, Tree, Tree, Tree]:
            own = self._update(method, params, clip_state, sigmas, *examples)
            return own.mean, own.variance, own.slots, jax.tree.map(jnp.square, own.slots_std)

        means, variances, slots, their_variances = jax.lax.map(
            of_client, (self.by_client(x, clients), self.by_client(y, clients))
        )
        if method.acts(Surface.SERVER):
            return release_law(method, means, jnp.ones(clients), clients, sigmas[0], clip_state)
        std, slots_std = (
            jax.tree.map(lambda v: jnp.sqrt(jnp.sum(v, axis=0)) / clients, part)
            for part in (variances, their_variances)
        )
        mean, mean_slots = (jax.tree.map(lambda m: jnp.mean(m, axis=0), part) for part in (means, slots))
        return ReleaseLaw(mean, None, None, std, mean_slots, slots_std)

    def by_client(self, a: Array, clients: int) -> Array:
        """Return what each client holds, [L H B, ...] step by step -> [H, L B, ...].

        Fewer examples than there are places are filled up with padding: zeros, and labels below 0.
        """
        steps = self.spec.steps
        spare = -a.shape[0] % (steps * clients)
        if spare:
            a = jnp.concatenate([a, jnp.full((spare, *a.shape[1:]), -1 if a.ndim == 1 else 0, a.dtype)])
        whose = a.reshape(steps, clients, a.shape[0] // (steps * clients), *a.shape[1:])
        return jnp.swapaxes(whose, 0, 1).reshape(clients, a.shape[0] // clients, *a.shape[1:])

    def _update(
        self, method: TracedMethod, params: Tree, clip_state: Tree, sigmas: Array, x: Array, y: Array
    ) -> ReleaseLaw:
        """Return the law of the update that one client sends, of examples [L B]."""
        steps, start = self.spec.steps, trained(self.spec.model, params)
        lots = jax.tree.map(lambda a: a.reshape(steps, a.shape[0] // steps, *a.shape[1:]), (x, y))

        def step(at: Tree, given: tuple[Array, tuple[Array, Array]]) -> tuple[Tree, tuple[Tree, Tree, Tree]]:
            sigma, lot = given
            one = self._batch(method, joined(self.spec.model, params, at), clip_state, sigma, *lot, self.spec.batch)
            squares = (jax.tree.map(jnp.square, part) for part in (one.std, one.slots_std))
            return tree.add_scaled(at, one.mean, -self.learning_rate), (*squares, one.slots)

        after, (variances, their_variances, slots) = jax.lax.scan(step, start, (sigmas, lots))
        std = jax.tree.map(lambda v: self.learning_rate * jnp.sqrt(jnp.sum(v, axis=0)), variances)
        slots_std = jax.tree.map(lambda v: jnp.sqrt(jnp.sum(v, axis=0)) / steps, their_variances)
        mean_slots = jax.tree.map(lambda a: jnp.mean(a, axis=0), slots)
        update = ReleaseLaw(tree.subtract(after, start), None, None, std, mean_slots, slots_std)
        return _through(Surface.UPDATE, method, update, sigmas[0], clip_state)

    def _example(
        self, method: TracedMethod, params: Tree, clip_state: Tree, sigma: Array, x: Array, y: Array
    ) -> ReleaseLaw:
        """Return the law at the example surface, of one example or of a batch."""
        expected = 1 if self.tap.single else self.spec.batch
        law = self._batch(method, params, clip_state, sigma, x, y, expected, self.tap.view == "in_memory")
        if not self.tap.shows_slots(self.spec):
            law = law._replace(slots=(), slots_std=())
        if self.tap.single and self.spec.batch != 1 and method.sensitivity.data_dependent:
            # S follows the other examples of the batch too, of which this adversary knows nothing.
            return law._replace(std=jax.tree.map(lambda s: s * jnp.nan, law.std))
        return law

    def _batch(
        self,
        method: TracedMethod,
        params: Tree,
        clip_state: Tree,
        sigma: Array,
        x: Array,
        y: Array,
        expected: float,
        hidden: bool = False,
    ) -> ReleaseLaw:
        mask, labels = jnp.where(y < 0, 0.0, 1.0), jnp.maximum(y, 0)
        if hidden or not method.acts(Surface.EXAMPLE):
            return _certain(batch_gradient(self.spec.model, params, x, labels, mask / expected))
        lot = per_example_gradients(self.spec.model, params, x, labels)
        return release_law(method, lot, mask, expected, sigma, clip_state)

    def _as_gradient(self, update: ReleaseLaw) -> ReleaseLaw:
        rate, steps = self.learning_rate, self.spec.steps
        value, absent = (as_gradient(part, rate, steps) for part in (update.value, update.absent))
        std = jax.tree.map(lambda s: s / (rate * steps), update.std)
        return update._replace(value=value, absent=absent, std=std)


def _certain(gradient: Tree) -> ReleaseLaw:
    """Return the law of what is read as it is."""
    return ReleaseLaw(gradient, None, None, jax.tree.map(lambda _: jnp.zeros(()), gradient))


def _through(surface: Surface, method: TracedMethod, update: ReleaseLaw, sigma: Array, clip_state: Tree) -> ReleaseLaw:
    """Return the law of one update after a surface; a method that acts there acts nowhere else."""
    if not method.acts(surface):
        return update
    return release_law(method, tree.lot_of_one(update.value), jnp.ones(1), 1, sigma, clip_state)
