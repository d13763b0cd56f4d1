"""Statistics of public examples that an attack starts from: means, and how examples vary."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from gradveil.attacks.class_mix import public_shares
from gradveil.attacks.leak import Host, Leak
from gradveil.tree import Array, Tree


class PublicStats(NamedTuple):
    """Statistics of public examples, as arrays for compiled code; p is the number of values of one example.

    mean, deviation [...]; center [...]: the mean weighted by the posterior of the classes; class_means
    [classes, ...]: the mean where a class has no public example; low, high [...]: the range. spread [p, k] and gains
    [k]: examples vary as center + V diag(gains) z + floor w with z, w standard normal.
    labels [n]: the inferred labels of the n guesses. beliefs [classes]: the shares of classes. decoder: of a prior that
    has one (see `decoder_training`).
    """

    mean: Array
    deviation: Array
    center: Array
    class_means: Array
    low: Array
    high: Array
    spread: Array
    gains: Array
    floor: Array
    labels: Array
    beliefs: Array
    decoder: Tree = ()


def class_means(leak: Leak) -> Host:
    """Return the public mean of each class [classes, ...]; the mean of all where a class has no public example."""
    x, y = leak.public.x, leak.public.y
    mean = x.mean(axis=0)
    return np.stack([x[y == c].mean(axis=0) if np.any(y == c) else mean for c in range(leak.stage.classes)])


def compute(leak: Leak, labels: Host, beliefs: Host | None = None, decoder: Tree = ()) -> PublicStats:
    """Return the statistics of the public examples of a leak; beliefs [classes] are the shares of classes."""
    x, means = leak.public.x, class_means(leak)
    mean = x.mean(axis=0)
    shares = public_shares(leak) if beliefs is None else beliefs
    center = mean if beliefs is None else np.tensordot(beliefs, means, 1)
    spread, gains, floor = leak.public.variation
    return PublicStats(
        mean=jnp.asarray(mean, jnp.float32),
        deviation=jnp.asarray(x.std(axis=0), jnp.float32),
        center=jnp.asarray(center, jnp.float32),
        class_means=jnp.asarray(means, jnp.float32),
        low=jnp.asarray(x.min(axis=0), jnp.float32),
        high=jnp.asarray(x.max(axis=0), jnp.float32),
        spread=jnp.asarray(spread, jnp.float32),
        gains=jnp.asarray(gains, jnp.float32),
        floor=jnp.asarray(floor, jnp.float32),
        labels=jnp.asarray(labels, jnp.int32),
        beliefs=jnp.asarray(shares, jnp.float32),
        decoder=decoder,
    )
