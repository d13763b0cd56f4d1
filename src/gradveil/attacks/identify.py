"""Candidate identification (Hayes et al.): which of n candidates is behind a reading, and what the best could reach."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from gradveil import tree
from gradveil.attacks.law import floored, law_of, log_density, units
from gradveil.attacks.leak import Host, Law, Leak, Reading, Stage, apart
from gradveil.tree import Array, Tree

CHUNK = 10
"""Candidates that are judged at a time."""
Densities = Callable[[Law], Array]
"""From a candidate's law to its log-densities at drawn readings [draws], up to what is the same for all candidates."""


def log_likelihoods(leak: Leak, x: Host, y: Host) -> Host:
    """Return log p(readings | candidate) of n candidates, up to a constant: x [n, L B, ...], y [n, L B] -> [n].

    A candidate is the whole batch: the adversary is given its other examples. The likelihood is that of the mechanism:
    which coordinates it holds back, how it clips, and the noise that this candidate would have drawn.
    """
    return log_likelihoods_and_draws(leak, x, y, 0, jax.random.key(0))[0]


def log_likelihoods_and_draws(leak: Leak, x: Host, y: Host, draws: int, key: Array) -> tuple[Host, Host]:
    """Return `log_likelihoods` [n], and those of readings that the mechanism makes of the first candidate [n, draws].

    How often the first is the likeliest of its own draws is what the best adversary reaches: no other rule that knows
    the mechanism picks the true one of n equally likely candidates more often.
    """
    readings = apart(leak)
    truth = _truth(leak.stage, readings, jnp.asarray(x[0]), jnp.asarray(y[0])) if draws else None
    spare = -len(y) % CHUNK  # of candidates, so that one program serves any number of them
    x, y = (np.concatenate([part, np.repeat(part[:1], spare, axis=0)]) for part in (x, y))
    parts = [
        _scores(leak.stage, draws, readings, truth, jnp.asarray(x[i : i + CHUNK]), jnp.asarray(y[i : i + CHUNK]), key)
        for i in range(0, len(y), CHUNK)
    ]
    scores = np.concatenate([np.asarray(part) for part in parts])[: len(y) - spare]
    return scores[:, 0], scores[:, 1:]


@partial(jax.jit, static_argnums=0)
def _truth(stage: Stage, readings: Reading, x: Array, y: Array) -> Law:
    """Return the laws of all readings of one candidate, stacked."""
    laws: Law = jax.lax.map(lambda reading: _certain(law_of(stage, reading, x, y), reading.gradient), readings)
    return laws


@partial(jax.jit, static_argnums=(0, 1))
def _scores(stage: Stage, draws: int, readings: Reading, truth: Law | None, x: Array, y: Array, key: Array) -> Array:
    """Return log-likelihoods [n, 1 + draws], those of the readings first, added up over readings."""

    def under(given: tuple[Reading, Law | None, Array]) -> Array:
        reading, true, own_key = given
        unit = units(reading)
        drawn = None if true is None else _drawn(true, unit, draws, own_key)

        def of(candidate: tuple[Array, Array]) -> Array:
            law = law_of(stage, reading, *candidate)
            own = log_density(reading.gradient, law, unit)[None]
            return own if drawn is None else jnp.concatenate([own, drawn(_certain(law, reading.gradient))])

        scores: Array = jax.lax.map(of, (x, y))
        return scores

    count = jax.tree.leaves(readings)[0].shape[0]
    return jnp.sum(jax.lax.map(under, (readings, truth, jax.random.split(key, count))), axis=0)


def _drawn(truth: Law, unit: Tree, draws: int, key: Array) -> Densities:
    """Draw readings of a law; give the rule from a candidate's law to its log-densities there."""
    if truth.share is None:
        return _gaussian_draws(truth, draws, key)
    return _mixed_draws(truth, unit, draws, key)


def _certain(law: Law, gradient: Tree) -> Law:
    """Return a law whose noise is nowhere nothing, as the likelihood takes it."""
    return law._replace(std=floored(law.std, gradient))


def _gaussian_draws(truth: Law, draws: int, key: Array) -> Densities:
    """Draw noise xi [draws, d] once; give the rule from a candidate's law to its log-densities at value + std xi.

    With D = (value_c - value) / std, r = std_c / std: -(|xi - D|^2 / r^2 - |xi|^2) / 2 - d log r, layer by layer: D is
    multiplied with all draws at once, and what is large and common never appears.
    """
    noise = [jnp.zeros((draws, a.size)) for a in jax.tree.leaves(truth.value)]
    keys = jax.random.split(key, len(noise))
    noise = [jax.random.normal(k, a.shape) for k, a in zip(keys, noise, strict=True)]
    squares = [jnp.sum(jnp.square(a), axis=1) for a in noise]

    def scores(law: Law) -> Array:
        total = jnp.zeros(draws)
        parts = (jax.tree.leaves(part) for part in (truth.value, truth.std, law.value, law.std))
        for xi, square, value, std, other, own in zip(noise, squares, *parts, strict=True):
            shift = ((other - value) / std).reshape(-1)
            ratio = jnp.mean(own / std)
            change = (square - 2 * xi @ shift + jnp.sum(jnp.square(shift))) / ratio**2 - square
            total = total - change / 2 - shift.size * jnp.log(ratio)
        return total

    return scores


def _mixed_draws(truth: Law, unit: Tree, draws: int, key: Array) -> Densities:
    """Draw which coordinates are held back, and noise; give the rule from a candidate's law to its log-densities."""

    def draw(one: Array) -> Tree:
        which, noise = jax.random.split(one)
        kept = tree.unflat(jax.random.uniform(which, (tree.size(truth.value),)), truth.value)
        xi = tree.unflat(jax.random.normal(noise, (tree.size(truth.value),)), truth.value)
        return jax.tree.map(
            lambda v, a, p, s, u, n: jnp.where(u < p, v, a) + s * n,
            *(truth.value, truth.absent, truth.share, truth.std, kept, xi),
        )

    readings = jax.lax.map(draw, jax.random.split(key, draws))

    def scores(law: Law) -> Array:
        found: Array = jax.lax.map(lambda drawn: log_density(drawn, law, unit), readings)
        return found

    return scores


def bound(mu: float, n: int) -> float:
    """Return the largest success against a mu-GDP release with n equally likely candidates: Phi(Phi^-1(1/n) + mu)."""
    return float(norm.cdf(norm.ppf(1 / n) + mu))
