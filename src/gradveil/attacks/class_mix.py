"""Which classes are behind a reading: typical readings of classes, and the mix of them that explains it best.

Where noise hides the reading the answer is the public shares of the classes, so that it is never worse than those.
"""

from functools import partial
from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls
from scipy.special import softmax

from gradveil import tree
from gradveil.attacks.law import LEAST, law_of, shown_on_average
from gradveil.attacks.leak import Host, Leak, Reading, Stage, last_layer, merged
from gradveil.models.gradients import per_example_gradients
from gradveil.tree import Array, Tree

PER_CLASS = 20
"""Public examples of a class from which its typical gradient is averaged."""


def likelihood(observed: Tree, guessed: Tree, std: Tree) -> Array:
    """Return log p(read | guessed) up to what does not depend on the guess; noise 0 counts as a small one."""
    d = tree.size(observed)
    floor = 1e-3 * jnp.sqrt(sum(jnp.sum(jnp.square(a)) for a in jax.tree.leaves(observed)) / d) + 1e-12
    terms = jax.tree.map(lambda y, g, s: jnp.sum(jnp.square((y - g) / jnp.maximum(s, floor))), observed, guessed, std)
    total: Array = sum(jax.tree.leaves(terms))  # type: ignore[assignment]
    return -total / 2


def beliefs(leak: Leak) -> Host:
    """Return the posterior share of each class given the readings, float [classes], adding up to 1.

    One example: p(c | reading) by the likelihood of each class's typical reading, with the public shares as prior.
    Several: the likeliest mix of classes.
    """
    if leak.stage.examples > 1:
        return unmix(leak, every_coordinate)
    shares: Host = softmax(class_scores(leak))
    return shares


def public_shares(leak: Leak) -> Host:
    """Return each class's share of the public examples, none of them 0: (count + 1/2) / (n + classes / 2)."""
    counts = np.bincount(leak.public.y, minlength=leak.stage.classes) + 0.5
    shares: Host = counts / counts.sum()
    return shares


def class_scores(leak: Leak) -> Host:
    """Return log p(c) + log p(reading | c), up to a constant, for one example: float [classes].

    Where the scale of the noise is private it tells of the class too: the logarithm of what is read off the release is
    compared with those of the class's public examples, as a normal number.
    """
    reading, typical = reading_of(leak), typical_readings(leak)
    scores = np.asarray(_likelihoods(masked_reading(leak.stage, reading), typical.gradients), np.float64)
    scores = scores + np.log(public_shares(leak))
    if typical.scales is None:
        return scores
    middle, spread = typical.scales
    log_scale = np.log(np.sqrt(np.mean([np.mean(np.square(a)) for a in jax.tree.leaves(reading.gradient)])))
    log_posterior: Host = scores - np.square((log_scale - middle) / spread) / 2 - np.log(spread)
    return log_posterior


@jax.jit
def _likelihoods(reading: Reading, typical: Tree) -> Array:
    return jax.vmap(lambda g: likelihood(reading.gradient, g, reading.std))(typical)


def masked_reading(stage: Stage, reading: Reading) -> Reading:
    """Return a reading whose coordinates that were held back have no say: there the noise is infinite."""
    if not stage.sparse:
        return reading
    std = jax.tree.map(lambda s, y: np.where(y == 0, np.float32(np.inf), s), reading.std, reading.gradient)
    return reading._replace(std=std)


class TypicalReadings(NamedTuple):
    """Of each class: its mean reading over public examples, leaves [classes, ...], zeros where there are none.

    scales: where the noise follows the example, the mean and the deviation of the logarithm of how large a reading is
    (root mean square, with its noise), [classes] each; else None.
    """

    gradients: Tree
    scales: tuple[Host, Host] | None


def typical_readings(leak: Leak) -> TypicalReadings:
    """Return the typical readings of classes.

    The same for all leaks of one stage and the same parameters, so they are cached with the public examples.
    """
    x, y, reading = leak.public.x, leak.public.y, leak.readings[0]
    memo_key = (leak.stage, id(reading.params))
    if memo_key not in leak.public.memo:
        rows = np.concatenate([np.flatnonzero(y == c)[:PER_CLASS] for c in range(leak.stage.classes)])
        gradients, sizes = _class_gradients(leak.stage, reading._replace(gradient=(), std=()), x[rows], y[rows])
        private = leak.stage.own_scale and bool(np.isfinite(sizes).all())
        scales = _scales(np.log(np.asarray(sizes)), y[rows], leak.stage.classes) if private else None
        leak.public.memo[memo_key] = (reading.params, TypicalReadings(jax.tree.map(np.asarray, gradients), scales))
    typical: TypicalReadings = leak.public.memo[memo_key][1]
    return typical


def _scales(sizes: Host, y: Host, classes: int) -> tuple[Host, Host]:
    """Return the mean and the deviation of each class's log sizes; those of all where a class has fewer than three."""
    overall = sizes.mean(), sizes.std() + 0.05
    each = [
        (sizes[y == c].mean(), sizes[y == c].std() + 0.05) if np.sum(y == c) > 2 else overall for c in range(classes)
    ]
    middle, spread = np.array(each).T
    return middle, spread


@partial(jax.jit, static_argnums=0)
def _class_gradients(stage: Stage, reading: Reading, x: Array, y: Array) -> tuple[Tree, Array]:
    """Return the mean reading of each class, and how large the reading of each example is with its noise, [n]."""
    belongs = jax.nn.one_hot(y, stage.classes).T
    shares = belongs / jnp.maximum(jnp.sum(belongs, axis=1, keepdims=True), 1.0)
    if stage.steps > 1:  # the mechanism needs a sequence of batches, not one example
        lot, sizes = per_example_gradients(stage.model, reading.params, x, y), jnp.ones(len(y))
    else:
        lot, sizes = jax.lax.map(partial(_batch_of_copies, stage, reading), (x, y))
    return jax.tree.map(lambda a: jnp.tensordot(shares, a, 1), lot), sizes


def _batch_of_copies(stage: Stage, reading: Reading, example: tuple[Array, Array]) -> tuple[Tree, Array]:
    """Replay a batch of B copies of one example: the typical reading of a class, and how large it is with noise."""
    x, y = (jnp.repeat(part[None], stage.batch, axis=0) for part in example)
    quiet = jax.tree.map(lambda _: jnp.zeros(()), reading.params)
    law = law_of(stage, reading._replace(std=quiet), x, y)
    squares = jax.tree.map(lambda v, s: jnp.mean(jnp.square(v) + jnp.square(s)) * v.size, law.value, law.std)
    size = jnp.sqrt(sum(jax.tree.leaves(squares)) / tree.size(law.value))
    return shown_on_average(law), size


def unmix(leak: Leak, features: "GradientRows") -> Host:
    """Return each class's share of the n examples: the likeliest mix of typical gradients, none below 0.

    argmin_m |y - T m|^2 + sum_c n (m_c - p_c)^2 / p_c, with the features y and T in units of their noise and p the
    public shares: the second term is the (multinomial) spread of n labels drawn from p, so that where noise hides the
    first the answer is p. A heavy extra row makes the shares add up to 1: the class gradients p - e_c of the last
    layer, weighted by p itself, add up to zero, so the first term alone does not determine the mix.
    """
    reading = masked_reading(leak.stage, reading_of(leak))
    observed = features(tree.lot_of_one(reading.gradient), reading)[0].astype(np.float64)
    typical = features(typical_readings(leak).gradients, reading).T.astype(np.float64)
    usual, n = public_shares(leak), leak.stage.examples
    prior = np.sqrt(n / usual)
    heavy = 100 * np.sqrt(np.square(typical).sum(axis=0).mean() + np.square(prior).mean())
    system = np.vstack([typical, np.diag(prior), np.full(len(usual), heavy)])
    mix, _ = nnls(system, np.concatenate([observed, prior * usual, [heavy]]), maxiter=10_000)
    shares: Host = mix / mix.sum() if mix.sum() > 0 else usual
    return shares


def reading_of(leak: Leak) -> Reading:
    """Return the fused reading with values that are not finite replaced by zero."""
    reading = merged(leak)
    gradient, std = jax.tree.map(partial(np.nan_to_num, posinf=0.0, neginf=0.0), (reading.gradient, reading.std))
    return reading._replace(gradient=gradient, std=std)


class GradientRows(Protocol):
    """A map from a lot of gradients to rows [n, features], given the reading that they are compared with."""

    def __call__(self, lot: Tree, reading: Reading) -> Host:
        """Return one row per unit."""


def column_sums(stage: Stage, lot: Tree, reading: Reading) -> Host:
    """Sum the columns of the last layer, in units of the noise on the sums; where there is none, of a small part."""
    whole = jax.tree.map(lambda s, a: np.broadcast_to(s, a.shape), reading.std, reading.gradient)
    parts = [part for part in last_layer(stage, whole) if part is not None]
    seen = [np.isfinite(part) for part in parts]

    def sums(layers: list[Host]) -> Host:
        totals = [np.where(kept, layer, 0) for kept, layer in zip(seen, layers, strict=True)]
        return np.concatenate([part.sum(axis=0) if part.ndim == 2 else part * len(totals[0]) for part in totals])

    def unit(i: int) -> Host:
        return sums([part for part in last_layer(stage, jax.tree.map(lambda a: a[i], lot)) if part is not None])

    rows = np.stack([unit(i) for i in range(len(jax.tree.leaves(lot)[0]))])
    inputs = len(parts[0])
    noise = np.concatenate([np.square(s).sum(axis=0) if s.ndim == 2 else np.square(s * inputs) for s in _finite(parts)])
    size = np.sqrt(np.mean(np.square(last_layer(stage, reading.gradient)[0])))
    scaled: Host = rows / np.sqrt(np.maximum(noise, (LEAST * inputs * size) ** 2 + 1e-24))
    return scaled


def _finite(parts: list[Host]) -> list[Host]:
    return [np.where(np.isfinite(part), part, 0) for part in parts]


def every_coordinate(lot: Tree, reading: Reading) -> Host:
    """Lay all coordinates side by side, in units of its noise; where there is none, of a thousandth of the rest."""
    root = np.sqrt(np.mean([np.mean(np.square(a)) for a in jax.tree.leaves(reading.gradient)]))
    scaled = jax.tree.map(lambda a, s: a / np.maximum(s, 1e-3 * root + 1e-12), lot, reading.std)
    return np.concatenate([a.reshape(len(a), -1) for a in jax.tree.leaves(scaled)], axis=1)
