"""Candidate identification (Hayes et al.): which of n candidates is behind a reading, and what the best could reach."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from gradveil import tree
from gradveil.attacks.law import all_of, floored, law_of, log_density, seen, units_of_all
from gradveil.attacks.leak import Host, Law, Leak, Reading, Stage, apart
from gradveil.tree import Array, Tree

CHUNK = 10
"""Candidates that are judged at a time."""


def log_likelihoods(leak: Leak, x: Host, y: Host) -> Host:
    """Return log p(readings | candidate) of n candidates, up to a constant: x [n, L B, ...], y [n, L B] -> [n].

    A candidate is the whole batch: the adversary is given its other examples. The likelihood is that of the mechanism:
    which coordinates it holds back, how it clips, the noise that this candidate would have drawn, and what the clip
    would have written beside it.
    """
    return log_likelihoods_and_draws(leak, x, y, 0, jax.random.key(0))[0]


def log_likelihoods_and_draws(leak: Leak, x: Host, y: Host, draws: int, key: Array) -> tuple[Host, Host]:
    """Return `log_likelihoods` [n], and those of readings that the mechanism makes of the first candidate [n, draws].

    How often the first is the likeliest of its own draws is what the best adversary reaches: no other rule that knows
    the mechanism picks the true one of n equally likely candidates more often.
    """
    spare = -len(y) % CHUNK  # of candidates, so that one program serves any number of them
    lots = [np.concatenate([part, np.repeat(part[:1], spare, axis=0)]) for part in (x, y)]
    chunks = [tuple(jnp.asarray(part[i : i + CHUNK]) for part in lots) for i in range(0, len(lots[1]), CHUNK)]
    readings, total = apart(leak), np.zeros((len(lots[1]), 1 + draws))
    for r in range(jax.tree.leaves(readings)[0].shape[0]):
        reading, own = jax.tree.map(lambda a, r=r: a[r], readings), jax.random.fold_in(key, r)
        drawn = _drawn(leak.stage, draws, reading, *(jnp.asarray(part[0]) for part in lots), own) if draws else None
        total += np.concatenate([np.asarray(_scores(leak.stage, reading, drawn, *chunk)) for chunk in chunks])
    scores = total[: len(y)]
    return scores[:, 0], scores[:, 1:]


class _Drawn(NamedTuple):
    """Draws of a reading, made once for all candidates: the law they are of, and values [draws, ...] for each layer.

    values: noise of deviation 1, [draws, size]; where coordinates are held back, whole readings.
    """

    truth: Law
    values: Tree


@partial(jax.jit, static_argnums=(0, 1))
def _drawn(stage: Stage, draws: int, reading: Reading, x: Array, y: Array, key: Array) -> _Drawn:
    """Draw what one candidate would have shown in place of a reading."""
    truth = _certain(all_of(law_of(stage, reading, x, y)), seen(reading))
    if truth.share is not None:
        return _Drawn(truth, _mixed_draws(truth, draws, key))
    leaves = jax.tree.leaves(truth.value)
    keys = jax.random.split(key, len(leaves))
    noise = [jax.random.normal(k, (draws, a.size)) for k, a in zip(keys, leaves, strict=True)]
    return _Drawn(truth, noise)


@partial(jax.jit, static_argnums=0)
def _scores(stage: Stage, reading: Reading, drawn: _Drawn | None, x: Array, y: Array) -> Array:
    """Return log-likelihoods [n, 1 + draws] of candidates, that of the reading first."""
    unit, observed = units_of_all(reading), seen(reading)

    def of(candidate: tuple[Array, Array]) -> Array:
        law = all_of(law_of(stage, reading, *candidate))
        own = log_density(observed, law, unit)[None]
        if drawn is None:
            return own
        certain, score = _certain(law, observed), _gaussian_scores if law.share is None else _mixed_scores
        return jnp.concatenate([own, score(drawn, certain, unit)])

    scores: Array = jax.lax.map(of, (x, y))
    return scores


def _certain(law: Law, gradient: Tree) -> Law:
    """Return a law whose noise is nowhere nothing, as the likelihood takes it."""
    return law._replace(std=floored(law.std, gradient))


def _gaussian_scores(drawn: _Drawn, law: Law, unit: Tree) -> Array:
    """Return a candidate's log-densities [draws] at value + std xi, up to what is the same for all candidates.

    With D = (value_c - value) / std, r = std_c / std: -(|xi - D|^2 / r^2 - |xi|^2) / 2 - d log r, layer by layer: D is
    multiplied with all draws at once, and what is large and common never appears.
    """
    truth, total = drawn.truth, jnp.zeros(len(drawn.values[0]))
    parts = (jax.tree.leaves(part) for part in (truth.value, truth.std, law.value, law.std))
    for xi, value, std, other, own in zip(drawn.values, *parts, strict=True):
        shift, square = ((other - value) / std).reshape(-1), jnp.sum(jnp.square(xi), axis=1)
        ratio = jnp.mean(own / std)
        change = (square - 2 * xi @ shift + jnp.sum(jnp.square(shift))) / ratio**2 - square
        total = total - change / 2 - shift.size * jnp.log(ratio)
    return total


def _mixed_draws(truth: Law, draws: int, key: Array) -> Tree:
    """Draw which coordinates are held back, and noise; return whole readings, leaves [draws, ...]."""

    def draw(one: Array) -> Tree:
        which, noise = jax.random.split(one)
        kept = tree.unflat(jax.random.uniform(which, (tree.size(truth.value),)), truth.value)
        xi = tree.unflat(jax.random.normal(noise, (tree.size(truth.value),)), truth.value)
        return jax.tree.map(
            lambda v, a, p, s, u, n: jnp.where(u < p, v, a) + s * n,
            *(truth.value, truth.absent, truth.share, truth.std, kept, xi),
        )

    return jax.lax.map(draw, jax.random.split(key, draws))


def _mixed_scores(drawn: _Drawn, law: Law, unit: Tree) -> Array:
    """Return a candidate's log-densities [draws] at whole readings."""
    log_densities: Array = jax.lax.map(lambda one: log_density(one, law, unit), drawn.values)
    return log_densities


def bound(mu: float, n: int) -> float:
    """Return the largest success against a mu-GDP release with n equally likely candidates: Phi(Phi^-1(1/n) + mu)."""
    return float(norm.cdf(norm.ppf(1 / n) + mu))
