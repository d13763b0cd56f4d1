"""jax_privacy's clipped gradients and Gaussian noise, for `gradveil audit --mechanism`.

    gradveil audit --mechanism examples.audit_jax_privacy:release --noise-multiplier 1
    gradveil audit --mechanism examples.audit_jax_privacy:rebuilt_each_round --noise-multiplier 0.70710678

A unit is the gradient of one example. Needs jax_privacy 2.0, which the peers' environment of `make audit-peers` has.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax_privacy.clipping import clipped_grad
from jax_privacy.noise_addition import gaussian_privatizer

CLIP, NOISE_MULTIPLIER = 1.0, 1.0


def release(units: Any, seed: int) -> Any:
    """Return the noised sum of clipped gradients, [d]."""
    return np.asarray(_release(units, jax.random.key(seed)))


def rebuilt_each_round(units: Any, seed: int) -> Any:
    """Return two rounds, [2, d], whose privatizer is made anew from one key for each: a bug, the noise is the same.

    Each round has half of the units. If the noise were fresh, two releases of a noise multiplier of 1 would be at least
    as private as one of 1 / sqrt(2), which is what to claim.
    """
    return np.stack([release(half, seed) for half in (units[0::2], units[1::2])])


@jax.jit
def _release(units: Any, key: Any) -> Any:
    """Return the noised sum of clipped gradients of the loss <w, x>, whose gradient is x."""
    gradients = clipped_grad(lambda w, x: jnp.sum(w * x), l2_clip_norm=CLIP, keep_batch_dim=True)
    total = gradients(jnp.zeros(units.shape[1]), units)
    privatizer = gaussian_privatizer(stddev=NOISE_MULTIPLIER * CLIP, prng_key=key)
    noised, _ = privatizer.update(total, privatizer.init(total))
    return noised
