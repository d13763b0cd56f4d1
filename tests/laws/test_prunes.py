"""What every pruning rule promises: coordinates are let through, made smaller or zeroed, never moved or invented."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradveil.errors import BadInput
from gradveil.privacy.prune import PRUNES, Dssgd, Keep, Smallest

EXAMPLES = {
    Keep: (Keep(),),
    Smallest: (Smallest(0.0), Smallest(0.3), Smallest(0.95)),
    Dssgd: (Dssgd(fraction=0.1, threshold=1e-4, bound=1e-2), Dssgd(fraction=1.0, threshold=0.0, bound=1e3)),
}
ALL = pytest.mark.parametrize("prune", [p for examples in EXAMPLES.values() for p in examples], ids=repr)
KEY = jax.random.key(7)


def unit(scale=1.0, seed=0):
    draw = np.random.default_rng(seed).normal
    return tuple(jnp.asarray(scale * draw(size=shape), jnp.float32) for shape in ((9, 4), (30,), (3, 3, 7)))


def flat(tree):
    return np.concatenate([np.ravel(a) for a in tree])


def test_every_rule_has_an_example():
    assert set(EXAMPLES) == set(PRUNES)


@ALL
@pytest.mark.parametrize("scale", [0.0, 1e-6, 1.0, 1e30])
def test_a_coordinate_keeps_its_sign_and_never_grows(prune, scale):
    before = unit(scale)
    after = prune(before, KEY)
    assert [(a.shape, a.dtype) for a in after] == [(b.shape, b.dtype) for b in before]
    old, new = flat(before), flat(after)
    assert np.isfinite(new).all()
    assert (np.abs(new) <= np.abs(old)).all()
    assert (new * np.sign(old) >= 0).all()


@ALL
def test_the_same_key_prunes_the_same_coordinates(prune):
    np.testing.assert_array_equal(flat(prune(unit(), KEY)), flat(prune(unit(), KEY)))


@ALL
def test_a_rule_can_be_compiled_and_mapped_over_a_lot(prune):
    lot = jax.tree.map(lambda a: jnp.stack([a, -a]), unit())
    keys = jax.random.split(KEY, 2)
    mapped = jax.jit(jax.vmap(prune))(lot, keys)
    for j, sign in enumerate((1, -1)):
        alone = prune(jax.tree.map(lambda a, s=sign: s * a, unit()), keys[j])
        np.testing.assert_array_equal(flat([a[j] for a in mapped]), flat(alone))


@ALL
def test_the_law_of_a_rule_is_what_many_draws_of_it_show(prune):
    before, keys = unit(), jax.random.split(KEY, 2000)
    value, share = map(flat, prune.law(before))
    drawn = np.stack(
        [np.ravel(a) for a in jax.vmap(lambda k: jnp.concatenate([jnp.ravel(a) for a in prune(before, k)]))(keys)]
    )
    kept = drawn != 0
    assert (np.abs(kept.mean(axis=0) - share) <= 5 * np.sqrt(share * (1 - share) / 2000)).all()
    np.testing.assert_array_equal(drawn[kept], np.broadcast_to(value, drawn.shape)[kept])


def test_keep_keeps_everything():
    np.testing.assert_array_equal(flat(Keep()(unit(), KEY)), flat(unit()))


@pytest.mark.parametrize("mu", [0.0, 0.1, 0.3, 0.5, 0.9, 0.99])
def test_smallest_zeroes_the_given_share_over_all_layers_together(mu):
    small, large = unit(seed=1), unit(scale=100.0, seed=2)
    before = (small[0], large[1], small[2])
    vector = flat(before)
    order = np.argsort(np.abs(vector))
    expected = vector.copy()
    expected[order[: int(mu * vector.size)]] = 0
    np.testing.assert_array_equal(flat(Smallest(mu)(before, KEY)), expected)


def test_smallest_zeroes_all_of_a_tie():
    tied = (jnp.asarray([1.0, -1.0, 1.0, 5.0]),)
    np.testing.assert_array_equal(flat(Smallest(0.25)(tied, KEY)), [0, 0, 0, 5])


def test_dssgd_shares_large_coordinates_only_bounded_and_at_its_rate():
    before = (jnp.linspace(-1, 1, 20_001),)
    old, new = flat(before), flat(Dssgd(fraction=0.25, threshold=0.5, bound=0.75)(before, KEY))
    shared = new != 0
    np.testing.assert_allclose(new[shared], np.clip(old, -0.75, 0.75)[shared])
    assert (np.abs(old[shared]) > 0.5).all()
    large = np.abs(old) > 0.5
    rate, error = shared[large].mean(), np.sqrt(0.25 * 0.75 / large.sum())
    assert abs(rate - 0.25) < 4 * error


def test_dssgd_chooses_anew_for_every_key():
    prune = Dssgd(fraction=0.5, threshold=0.0, bound=9.0)
    first, second = (flat(prune(unit(), k)) != 0 for k in jax.random.split(KEY))
    assert 0 < (first != second).mean() < 1


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Smallest(1.0), "mu"),
        (lambda: Smallest(-0.1), "mu"),
        (lambda: Smallest(float("nan")), "mu"),
        (lambda: Dssgd(fraction=0.0, threshold=0.0, bound=1.0), "fraction"),
        (lambda: Dssgd(fraction=1.1, threshold=0.0, bound=1.0), "fraction"),
        (lambda: Dssgd(fraction=0.5, threshold=-1.0, bound=1.0), "threshold"),
        (lambda: Dssgd(fraction=0.5, threshold=0.0, bound=0.0), "bound"),
    ],
)
def test_a_senseless_number_is_refused_by_name(make, name):
    with pytest.raises(BadInput, match=f"^{name} = "):
        make()
