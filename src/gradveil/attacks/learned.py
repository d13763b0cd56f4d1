"""A learned inverter: a small network from the noisy gradient to the example, trained on public examples.

It is trained with the same noise, so at heavy noise it tends to the mean of what the gradient leaves possible: the most
that an image attack can get.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from gradveil import tree
from gradveil.attacks.attack import Reconstruction
from gradveil.attacks.labels import Labels, MatchedFilter
from gradveil.attacks.law import law_of
from gradveil.attacks.leak import Leak, Reading, Stage, merged
from gradveil.errors import BadInput
from gradveil.models.networks import Mlp
from gradveil.tree import Array, Tree

LARGEST = 100_000_000
"""Values of public gradients in memory at a time (400 MB)."""


class TrainedNet(NamedTuple):
    """A trained inverter: the origin and directions of gradients, the scale along each, the network and the mean."""

    origin: Array
    directions: Array
    scale: Array
    network: Tree
    mean: Array


@dataclass(frozen=True, slots=True)
class Learned:
    """Projects the gradient on the `kept` directions in which public gradients vary most, then a network of one layer.

    Directions are orthonormal, so noise stays white; random ones would keep as much noise and less signal. Of all
    stages of training, the best on a tenth of the public examples is kept.
    """

    name: str = "learned"
    kept: int = 256
    hidden: int = 512
    steps: int = 2000
    lot: int = 128
    rate: float = 1e-3
    labels: Labels = field(default_factory=MatchedFilter)
    restarts: int = 1
    trained: TrainedNet | None = field(default=None, compare=False)

    def refuse(self, leak: Leak) -> None:
        """Refuse what one network cannot learn: readings of several examples, or at several parameters."""
        if leak.stage.examples > 1:
            raise BadInput(f"attack = {self.name}: needs readings of one example; use --batch 1 at surface 2")
        if len({id(reading.params) for reading in leak.readings}) > 1:
            raise BadInput(f"attack = {self.name}: needs readings at the same parameters")

    def prepared(self, leak: Leak, key: Array) -> "Learned":
        """Train on the public examples of a leak; serves all leaks at the same parameters and noise."""
        reading = merged(leak)
        d = tree.size(reading.gradient)
        rows = slice(0, max(200, LARGEST // d))
        x, y = leak.public.x[rows], leak.public.y[rows]
        keys = jax.random.split(jax.random.fold_in(key, len(x)), len(x))
        gradients = _public_readings(leak.stage, reading, jnp.asarray(x), jnp.asarray(y), keys)
        noisy = float(jnp.max(tree.flat(tree.lot_of_one(reading.std)))) > 0
        return replace(self, trained=_train(self, gradients, jnp.asarray(x).reshape(len(x), -1), noisy, key))

    def __call__(self, leak: Leak, key: Array) -> Reconstruction:
        """Evaluate the network once."""
        assert self.trained is not None, "prepared() trains the network that is asked here"
        reading = merged(leak)
        row = _whitened(leak.stage, reading.gradient, reading.std)[None]
        guess = _guess(self, self.trained, _features(self.trained, row))
        one = np.ones(1, np.int32)
        x = np.asarray(guess).reshape(1, 1, *leak.stage.shape)
        return Reconstruction(x, self.labels(leak, 1), np.zeros(1), one, one)


def _whitened(stage: Stage, gradient: Tree, std: Tree) -> Array:
    """Return a reading in units of its noise, one row [d]; where there is none, as it is.

    Noise that follows the data says how large it is: one more value, the logarithm of the scale in units of the error
    1 / sqrt(2 d) with which it can be read off d coordinates.
    """
    spread = jax.tree.map(lambda s, g: jnp.broadcast_to(s, g.shape), std, gradient)
    row, scale = (tree.flat(tree.lot_of_one(part))[0] for part in (gradient, spread))
    row = row / jnp.where(scale > 0, scale, 1.0)
    if not stage.own_scale:
        return row
    return jnp.append(row, jnp.log(jnp.maximum(scale[0], 1e-30)) * jnp.sqrt(2.0 * row.size))


@partial(jax.jit, static_argnums=0)
def _public_readings(stage: Stage, reading: Reading, x: Array, y: Array, keys: Array) -> Array:
    """Return what the mechanism makes of examples before noise, in units of the noise of each, as `_whitened`, [n, d].

    Coordinates that are held back at random are drawn once for each example.
    """

    def one(given: tuple[Array, Array, Array]) -> Array:
        law = law_of(stage, reading, given[0][None], given[1][None])
        std = law.std if stage.own_scale else reading.std
        if law.share is None:
            return _whitened(stage, law.value, std)
        drawn = tree.unflat(jax.random.uniform(given[2], (tree.size(law.value),)), law.value)
        kept = jax.tree.map(lambda v, a, p, u: jnp.where(u < p, v, a), law.value, law.absent, law.share, drawn)
        return _whitened(stage, kept, std)

    rows: Array = jax.lax.map(one, (x, y, keys))
    return rows


def _train(attack: Learned, gradients: Array, x: Array, noisy: bool, key: Array) -> TrainedNet:
    """Fit the projection and the network."""
    origin = gradients.mean(axis=0)
    directions = _directions(gradients - origin, attack.kept)
    features = (gradients - origin) @ directions
    scale = jnp.sqrt(jnp.var(features, axis=0) + (1.0 if noisy else 0.0)) + 1e-12
    initial = TrainedNet(
        origin, directions, scale, _network(attack).init(key, (features.shape[1],), x.shape[1]), x.mean(0)
    )
    held_out = len(x) // 10
    return _descend(attack, initial, features, x, held_out, noisy, key)


def _directions(centered: Array, kept: int) -> Array:
    """Return the principal directions of rows [n, d] as columns [d, k], by the smaller n x n matrix of products."""
    rows = centered[: 4 * kept]
    values, vectors = jnp.linalg.eigh(rows @ rows.T)
    k = min(kept, len(rows) - 1)
    columns = rows.T @ vectors[:, -k:] / jnp.sqrt(jnp.maximum(values[-k:], 1e-12))
    return jnp.linalg.qr(columns)[0]


def _network(attack: Learned) -> Mlp:
    return Mlp(hidden=(attack.hidden,), bias=True)


def _features(trained: TrainedNet, rows: Array) -> Array:
    return (rows - trained.origin) @ trained.directions


def _guess(attack: Learned, trained: TrainedNet, features: Array) -> Array:
    """Return the guesses [n, p] for features [n, k]: the public mean plus what the network makes of them."""
    moved = jax.vmap(partial(_network(attack).apply, trained.network))(features / trained.scale)
    return trained.mean + moved


def _descend(
    attack: Learned, initial: TrainedNet, features: Array, x: Array, held_out: int, noisy: bool, key: Array
) -> TrainedNet:
    """Minimize the mean squared error with fresh noise at every step; keep the best stage on held-out examples."""
    rule = optax.adam(attack.rate)

    def error(network: Tree, rows: Array, noise: Array) -> Array:
        guesses = _guess(attack, initial._replace(network=network), features[rows] + noise)
        return jnp.mean(jnp.square(guesses - x[rows]))

    def drawn(k: Array, count: int) -> Array:
        return jax.random.normal(k, (count, features.shape[1])) * (1.0 if noisy else 0.0)

    @jax.jit
    def stage(network: Tree, state: Tree, k: Array) -> tuple[Tree, Tree, Array]:
        def step(carry: tuple[Tree, Tree], one: Array) -> tuple[tuple[Tree, Tree], None]:
            which, noise = jax.random.split(one)
            rows = jax.random.randint(which, (attack.lot,), held_out, len(x))
            slope = jax.grad(error)(carry[0], rows, drawn(noise, attack.lot))
            move, after = rule.update(slope, carry[1])
            return (optax.apply_updates(carry[0], move), after), None

        (network, state), _ = jax.lax.scan(step, (network, state), jax.random.split(k, attack.steps // 10))
        return network, state, error(network, jnp.arange(held_out), drawn(jax.random.fold_in(k, 1), held_out))

    zeros = jax.tree.map(jnp.zeros_like, initial.network)
    network, state = initial.network, rule.init(initial.network)
    best = (float(jnp.mean(jnp.square(initial.mean - x[:held_out]))), zeros)
    for tenth in range(10):
        network, state, validation_error = stage(network, state, jax.random.fold_in(key, tenth))
        best = min(best, (float(validation_error), network), key=lambda pair: pair[0])
    return initial._replace(network=best[1])
