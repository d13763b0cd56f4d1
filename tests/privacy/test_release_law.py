"""The law of a release against many releases: mean and variance of every coordinate, and which are held back."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.methods import FED_ALPHA_CDP, FED_CDP, METHODS
from gradveil.privacy.clip import Flat
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import combine, split_static
from gradveil.privacy.prune import Dssgd, Smallest
from gradveil.privacy.release_law import release_law
from gradveil.privacy.sanitize import cross
from gradveil.privacy.sensitivity import L2MaxOfMean

SIGMA, DRAWS = 0.3, 4000
SHARING = Dssgd(fraction=0.4, threshold=0.3, bound=1.2)
DSSGD, NOISY = (replace(METHODS[name].value, prune=SHARING) for name in ("dssgd", "dssgd-noisy"))
CASES = {
    "fed-cdp": (FED_CDP, 3),
    "fed-alpha-cdp": (FED_ALPHA_CDP, 3),
    "as coded": (METHODS["fed-alpha-cdp-as-coded"].value, 3),
    "adaclip": (METHODS["adaclip"].value, 3),
    "each": (replace(FED_ALPHA_CDP, draw=Draw.EACH), 3),
    "mean": (replace(FED_CDP, draw=Draw.MEAN), 3),
    "of mean": (replace(FED_ALPHA_CDP, sensitivity=L2MaxOfMean()), 3),
    "smallest": (replace(FED_CDP, clip=Flat(0.8), prune=Smallest(0.5)), 3),
    "sharing": (replace(FED_CDP, prune=SHARING), 3),
    "dssgd": (DSSGD, 1),
    "dssgd-noisy": (NOISY, 1),
}
"""Methods, and units of a lot."""
PARAMS = (jnp.zeros((5, 4)), jnp.zeros(3))


def lot(n):
    random = np.random.default_rng(n)
    return tuple(jnp.asarray(random.normal(size=(n, *a.shape)), jnp.float32) for a in PARAMS)


def flat(tree):
    return np.concatenate([np.ravel(a) for a in tree])


@pytest.mark.parametrize(("chosen", "n"), CASES.values(), ids=CASES)
def test_many_releases_have_the_mean_and_the_variance_of_the_law(chosen, n):
    method, units, mask = combine(*split_static(chosen)), lot(n), jnp.ones(n)
    state = chosen.clip.init(PARAMS)
    law = release_law(method, units, mask, n, SIGMA, state)
    release = jax.jit(
        jax.vmap(lambda key: cross(chosen.surface, method, units, mask, n, jnp.float32(SIGMA), state, key).used)
    )
    drawn = release(jax.random.split(jax.random.key(1), DRAWS))
    drawn = np.concatenate([np.asarray(a).reshape(DRAWS, -1) for a in drawn], axis=1).astype(np.float64)
    std = flat(jax.tree.map(lambda s, a: jnp.broadcast_to(s, a.shape), law.std, PARAMS)).astype(np.float64)
    chance = np.zeros_like(std)
    if law.share is not None:
        value, absent, share = (flat(part) for part in (law.value, law.absent, law.share))
        chance = share * (1 - share) * np.square(value - absent)
    variance = np.square(std) + chance
    # 5 standard errors; a variance of a mix of two normal numbers is known no worse than to 2.5 sqrt(2 / DRAWS).
    assert (np.abs(drawn.mean(axis=0) - flat(law.mean)) <= 5 * np.sqrt(variance / DRAWS) + 1e-6).all()
    np.testing.assert_allclose(drawn.var(axis=0), variance, rtol=5 * np.sqrt(2 / DRAWS) * 1.5, atol=1e-10)


def test_what_is_never_shared_is_never_released():
    method = combine(*split_static(DSSGD))
    law = release_law(method, lot(1), jnp.ones(1), 1, 0.0, ())
    keys = jax.random.split(jax.random.key(2), 40)
    seen = [cross(DSSGD.surface, method, lot(1), jnp.ones(1), 1, 0.0, (), key).used for key in keys]
    shown = np.stack([flat(one) for one in seen])
    assert (shown[:, flat(law.share) == 0] == 0).all()
    assert set(flat(law.share)) == {np.float32(0.0), np.float32(0.4)}
    kept = shown != 0
    np.testing.assert_allclose(shown[kept], np.broadcast_to(flat(law.value), shown.shape)[kept], rtol=1e-6)
