"""The likelihood of a reading under the law of a guess: pruned coordinates, and noise of the guess's own scale."""

import jax
import jax.numpy as jnp

from gradveil import tree
from gradveil.attacks.leak import Law, Reading, Stage
from gradveil.tree import Array, Tree

LEAST = 1e-3
"""Relative noise that a reading without noise is assumed to have; otherwise only an exact match would count."""


def law_of(stage: Stage, reading: Reading, x: Array, y: Array) -> Law:
    """Return the law of a reading of examples; where no law is known, their replay with the noise of the reading."""
    if stage.law is None:
        return Law(stage.replay(reading.params, reading.clip_state, x, y), None, None, reading.std)
    return stage.law(reading.params, reading.clip_state, reading.sigmas, x, y)


def seen(reading: Reading) -> Tree:
    """Return all that a reading shows: the gradient, and the slots beside it."""
    return reading.gradient, reading.slots


def all_of(law: Law) -> Law:
    """Return the law of what `seen` returns; slots are never held back."""
    absent = None if law.absent is None else (law.absent, law.slots)
    share = None if law.share is None else (law.share, jax.tree.map(jnp.ones_like, law.slots))
    return Law((law.value, law.slots), absent, share, (law.std, law.slots_std))


def units_of_all(reading: Reading) -> Tree:
    """Return the units of what `seen` returns; those of slots do not matter, since they are the same for all."""
    return units(reading), jax.tree.map(lambda _: jnp.ones(()), reading.slots)


def shown_on_average(law: Law) -> Tree:
    """Return what a reading shows of a guess: its mean under noise; without noise the value of whatever was kept.

    Zeros show what was held back, as long as no noise lies on them.
    """
    if law.share is None:
        return law.value
    means = jax.tree.map(lambda v, a, p: p * v + (1 - p) * a, law.value, law.absent, law.share)
    return jax.tree.map(lambda v, m, s: jnp.where(s > 0, m, v), law.value, means, law.std)


def root_mean_square(gradient: Tree) -> Array:
    """Return the root of the mean square over all coordinates."""
    total = sum(jnp.sum(jnp.square(a)) for a in jax.tree.leaves(gradient))
    return jnp.sqrt(total / tree.size(gradient))


def floored(std: Tree, gradient: Tree) -> Tree:
    """Return the noise of a law, nowhere below LEAST of the reading's root mean square; NaN stays NaN."""
    floor = LEAST * root_mean_square(gradient) + 1e-12
    return jax.tree.map(lambda s: jnp.maximum(s, floor), std)


def units(reading: Reading) -> Tree:
    """Return the noise of a reading as far as it is public, else the root mean square: units for every guess alike."""
    size = root_mean_square(reading.gradient) + 1e-12
    return jax.tree.map(lambda s: jnp.where(jnp.isnan(s), size, s), floored(reading.std, reading.gradient))


def log_density(gradient: Tree, law: Law, unit: Tree) -> Array:
    """Return log p(gradient | law), up to what depends on the gradient and on `unit` alone.

    sum_i log(share_i n(y_i - value_i; s_i) + (1 - share_i) n(y_i - absent_i; s_i)), n(r; s) = exp(-r^2 / 2 s^2) / s,
    with s in multiples of `unit`, so that it is 0 for a perfect match with the noise that is public. Where the scale is
    not known it is the likeliest one: s^2 = mean_i (y_i - value_i)^2.
    """
    likeliest = root_mean_square(tree.subtract(gradient, law.value)) + 1e-12
    std = jax.tree.map(lambda s: jnp.where(jnp.isnan(s), likeliest, s), floored(law.std, gradient))
    if law.share is None:
        terms = jax.tree.map(_plain, unit, gradient, law.value, std)
    else:
        terms = jax.tree.map(_mixed, unit, gradient, law.value, law.absent, law.share, std)
    total: Array = sum(jax.tree.leaves(terms))  # type: ignore[assignment]
    return total


def log_ratio(gradient: Tree, law: Law, other: Law) -> Array:
    """Return log p(gradient | law) - log p(gradient | other), coordinate by coordinate, so that little is rounded off.

    sum_i (r'_i - r_i)(r'_i + r_i) / 2 + log(s'_i / s_i) with r = (y - value) / s, where every coordinate is shared.
    """
    if law.share is not None or other.share is not None:
        unit = jax.tree.map(jnp.ones_like, law.std)
        return log_density(gradient, law, unit) - log_density(gradient, other, unit)
    own, its = (floored(one.std, gradient) for one in (law, other))
    terms = jax.tree.map(_difference, gradient, law.value, own, other.value, its)
    total: Array = sum(jax.tree.leaves(terms))  # type: ignore[assignment]
    return total


def _difference(y: Array, value: Array, std: Array, other: Array, its: Array) -> Array:
    near, far = (y - value) / std, (y - other) / its
    scale = jnp.log(its / std)
    return jnp.sum((far - near) * (far + near)) / 2 + jnp.sum(scale) * (y.size / max(scale.size, 1))


def _plain(unit: Array, y: Array, value: Array, std: Array) -> Array:
    scale = jnp.log(std / unit)
    scales = jnp.sum(scale) * (y.size / max(scale.size, 1))
    return -jnp.sum(jnp.square((y - value) / std)) / 2 - scales


def _mixed(unit: Array, y: Array, value: Array, absent: Array, share: Array, std: Array) -> Array:
    here = jnp.log(jnp.maximum(share, 1e-30)) - jnp.square((y - value) / std) / 2
    away = jnp.log(jnp.maximum(1 - share, 1e-30)) - jnp.square((y - absent) / std) / 2
    return jnp.sum(jnp.logaddexp(here, away) - jnp.log(std / unit))
