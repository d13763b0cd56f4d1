"""A unit whose gradient is no number counts as zero wherever units are bounded: NaN would pass any clip and noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.methods import METHODS
from gradveil.privacy.clip import Unclipped
from gradveil.privacy.method import combine, split_static
from gradveil.privacy.prune import Keep
from gradveil.privacy.sanitize import cross

BOUNDED = {name: e.value for name, e in METHODS.items() if not isinstance(e.value.clip, Unclipped)}


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 3e38])
@pytest.mark.parametrize("name", BOUNDED)
def test_it_counts_as_zero_and_everything_that_is_released_stays_finite(name, bad):
    method = BOUNDED[name]
    static, numbers = split_static(method)
    rule = combine(static, tuple(map(jnp.float32, numbers)))
    rng = np.random.default_rng(0)
    lot = [rng.normal(size=(4, 3, 2)).astype(np.float32), rng.normal(size=(4, 5)).astype(np.float32)]
    clip_state = method.clip.init([leaf[0] for leaf in map(jnp.asarray, lot)])

    def crossed(value):
        held = [leaf.copy() for leaf in lot]
        held[0][1] = value
        held[1][1] = 0.0 if value == 0.0 else held[1][1]
        key = jax.random.key(3)
        return cross(
            method.surface, rule, list(map(jnp.asarray, held)), jnp.ones(4), 4, jnp.float32(0.5), clip_state, key
        )

    spoilt, zeroed = crossed(bad), crossed(0.0)
    for one, other in zip(jax.tree.leaves(spoilt.used), jax.tree.leaves(zeroed.used), strict=True):
        assert np.isfinite(one).all()
        if isinstance(method.prune, Keep):  # DSSGD bounds every number before that
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((spoilt.observed.released, spoilt.statistics)))
