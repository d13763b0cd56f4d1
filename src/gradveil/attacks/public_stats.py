"""What an adversary draws from public examples before it starts: means, and how examples vary."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from gradveil.attacks.leak import Host, Leak
from gradveil.tree import Array


class Known(NamedTuple):
    """Statistics of public examples, as arrays for compiled code; p is the number of values of one example.

    mean, deviation [...]; centre [...]: the mean of the classes that the adversary believes in; class_means
    [classes, ...]: the mean where a class has no public example; low, high [...]: the range. spread [p, k] and gains
    [k]: examples vary as centre + V diag(gains) z + floor w with z, w standard normal.
    labels [n]: what the adversary holds for the labels of its n guesses.
    """

    mean: Array
    deviation: Array
    centre: Array
    class_means: Array
    low: Array
    high: Array
    spread: Array
    gains: Array
    floor: Array
    labels: Array


def class_means(leak: Leak) -> Host:
    """Return the public mean of each class [classes, ...]; the mean of all where a class has no public example."""
    x, y = leak.public.x, leak.public.y
    mean = x.mean(axis=0)
    return np.stack([x[y == c].mean(axis=0) if np.any(y == c) else mean for c in range(leak.stage.classes)])


def learn(leak: Leak, labels: Host, beliefs: Host | None = None) -> Known:
    """Draw the statistics from the public examples of a leak; beliefs [classes] are the shares of classes."""
    x, means = leak.public.x, class_means(leak)
    mean = x.mean(axis=0)
    centre = mean if beliefs is None else np.tensordot(beliefs, means, 1)
    spread, gains, floor = leak.public.variation
    return Known(
        mean=jnp.asarray(mean, jnp.float32),
        deviation=jnp.asarray(x.std(axis=0), jnp.float32),
        centre=jnp.asarray(centre, jnp.float32),
        class_means=jnp.asarray(means, jnp.float32),
        low=jnp.asarray(x.min(axis=0), jnp.float32),
        high=jnp.asarray(x.max(axis=0), jnp.float32),
        spread=jnp.asarray(spread, jnp.float32),
        gains=jnp.asarray(gains, jnp.float32),
        floor=jnp.asarray(floor, jnp.float32),
        labels=jnp.asarray(labels, jnp.int32),
    )
