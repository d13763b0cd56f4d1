"""Candidate identification (Hayes et al.): which of n candidates is behind a reading."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from gradveil.attacks.labels import likelihood
from gradveil.attacks.leak import Host, Leak, Reading, Stage, fused
from gradveil.tree import Array


def log_likelihoods(leak: Leak, x: Host, y: Host) -> Host:
    """Return log p(readings | candidate) of n candidates, up to a constant: x [n, L B, ...], y [n, L B] -> [n].

    A candidate is the whole batch: the adversary is given its other examples.
    """
    return np.asarray(_scores(leak.stage, fused(leak), jnp.asarray(x), jnp.asarray(y)))


@partial(jax.jit, static_argnums=0)
def _scores(stage: Stage, readings: Reading, x: Array, y: Array) -> Array:
    def of(candidate: tuple[Array, Array]) -> Array:
        def under(reading: Reading) -> Array:
            replayed = stage.replay(reading.params, reading.clip_state, *candidate)
            return likelihood(reading.gradient, replayed, reading.std)

        return jnp.sum(jax.lax.map(under, readings))

    scores: Array = jax.lax.map(of, (x, y))
    return scores


def bound(mu: float, n: int) -> float:
    """Return the largest success against a mu-GDP release with n equally likely candidates: Phi(Phi^-1(1/n) + mu)."""
    return float(norm.cdf(norm.ppf(1 / n) + mu))
