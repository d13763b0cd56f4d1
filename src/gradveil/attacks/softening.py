"""Following a guess from a smooth network to the true one, where single steps of an optimizer see only jumps."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import optax

from gradveil.attacks.attack import Trajectory
from gradveil.errors import BadInput
from gradveil.tree import Array, Tree

SNAPSHOTS = 20


@dataclass(frozen=True, slots=True)
class Softening:
    """Adam through a network whose maxima become sharp as it goes, under noise that falls as it goes.

    Of a reading y, layer l is taken to have further noise tau |y_l| on every coordinate, so that a layer of little norm
    counts as much as another, and so that what the smooth network cannot explain does not mislead. The sharpness of
    the network and tau move geometrically from their first to their last value. Values outside of the range of public
    examples cost `box` times the square of what is too much.
    """

    steps: int = 800
    sharpness: tuple[float, float] = (20.0, 200.0)
    tau: tuple[float, float] = (5e-3, 1e-3)
    rate: float = 0.1
    box: float = 3000.0

    def __post_init__(self) -> None:
        if self.steps < SNAPSHOTS:
            raise BadInput(f"steps = {self.steps}: must be at least {SNAPSHOTS}")
        if min(*self.sharpness, *self.tau, self.rate) <= 0 or self.box < 0:
            raise BadInput("softening: sharpness, tau and rate must be above 0, box at least 0")

    def outside(self, x: Array, low: Array, high: Array) -> Array:
        """Return the cost of values below `low` or above `high`."""
        return self.box * jnp.sum(jnp.square(x - jnp.clip(x, low, high)))


def tempered(observed: Tree, guessed: Tree, std: Tree, tau: Array) -> Array:
    """Return the sum over coordinates of (y - g)^2 / (2 (s^2 + tau^2 |y_l|^2)), l the layer of the coordinate."""

    def of_layer(y: Array, g: Array, s: Array) -> Array:
        variance = jnp.square(s) + jnp.square(tau) * jnp.sum(jnp.square(y)) + 1e-30
        return jnp.sum(jnp.square(y - g) / variance) / 2

    total: Array = sum(jax.tree.leaves(jax.tree.map(of_layer, observed, guessed, std)))  # type: ignore[assignment]
    return total


def follow(
    softening: Softening,
    smooth: Callable[[Array, Array, Array], Array],
    exact: Callable[[Array], Array],
    read: Callable[[Array], Array],
    z: Array,
) -> Trajectory:
    """Move z down smooth(z, sharpness, tau) as these change; snapshots have the loss exact(z).

    The snapshot with the least loss is the last one.
    """
    every = -(-softening.steps // SNAPSHOTS)
    count = every * SNAPSHOTS
    rule = optax.adam(optax.cosine_decay_schedule(softening.rate, count, 0.02))
    paths = [
        jnp.geomspace(*ends, count, dtype=z.dtype).reshape(SNAPSHOTS, every)
        for ends in (softening.sharpness, softening.tau)
    ]

    def step(at: tuple[Array, optax.OptState], now: list[Array]) -> tuple[tuple[Array, optax.OptState], None]:
        z, state = at
        slope = jnp.nan_to_num(jax.grad(smooth)(z, *now))
        move, state = rule.update(slope, state)
        return (optax.apply_updates(z, move), state), None

    def snapshot(at: tuple[Array, optax.OptState], now: list[Array]) -> tuple[tuple[Array, optax.OptState], Array]:
        at, _ = jax.lax.scan(step, at, now)
        return at, at[0]

    _, visited = jax.lax.scan(snapshot, (z, rule.init(z)), paths)
    visited = jnp.concatenate([z[None], visited])
    losses = jax.lax.map(exact, visited)
    order = jnp.where(jnp.arange(SNAPSHOTS + 1) == SNAPSHOTS, jnp.argmin(losses), jnp.arange(SNAPSHOTS + 1))
    done = jnp.arange(SNAPSHOTS + 1, dtype=jnp.int32) * every
    return Trajectory(
        x=jax.lax.map(read, visited[order]),
        logits=jnp.zeros((SNAPSHOTS + 1, z.shape[0], 0)),
        loss=losses[order],
        iterations=done,
        evaluations=done + jnp.arange(SNAPSHOTS + 1, dtype=jnp.int32),
    )
