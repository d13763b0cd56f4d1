"""What every clip promises: no unit beyond its bound, small units untouched, memory of one shape for ever."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gradveil.errors import BadInput
from gradveil.privacy.adaptive import CLIPS, AdaClip, Quantile
from gradveil.privacy.clip import Flat, NormStats, OwnNorm, PerLayer, Unclipped
from gradveil.privacy.slack import Slack, slots_of
from gradveil.tree import layer_norms, norms, weigh, weighted_sum

EXAMPLES = {
    Unclipped: (Unclipped(),),
    PerLayer: (PerLayer(4.0), PerLayer(1e-3)),
    Flat: (Flat(4.0), Flat(1e-3)),
    OwnNorm: (OwnNorm(), OwnNorm(low=0.5, high=0.5)),
    Quantile: (Quantile(4.0), Quantile(0.01, gamma=0.9, eta=1.0, count_noise=0.0)),
    Slack: (Slack(4.0), Slack(0.5, high=2.0, per_layer=True, slots=7)),
    AdaClip: (AdaClip(), AdaClip(radius=2.0, beta1=0.0, beta2=0.5, low=0.1, high=10.0)),
}
ALL = pytest.mark.parametrize("clip", [c for examples in EXAMPLES.values() for c in examples], ids=repr)
SHAPES = ((3, 2), (4,), (2, 2, 2))
PARAMS = tuple(jnp.zeros(s) for s in SHAPES)
ROUNDING = 1e-5


def lot(n, scale=1.0, seed=0):
    """Units of very different sizes, from 1/1000 to 1000 times the scale."""
    rng = np.random.default_rng(seed)
    sizes = scale * 10.0 ** rng.uniform(-3, 3, size=n)
    return tuple(jnp.asarray(np.einsum("j,j...->j...", sizes, rng.normal(size=(n, *s))), jnp.float32) for s in SHAPES)


def clipped(clip, units, clip_state):
    entered = clip.transform(units, clip_state)
    before = layer_norms(entered)
    scales = clip.scales(before, clip_state)
    return weigh(scales, entered), before, scales


def crossing(clip, units, clip_state):
    """One crossing as the surface does it, without noise: facts, and the released mean or that of the slots."""
    n = jax.tree.leaves(units)[0].shape[0]
    _, before, scales = clipped(clip, units, clip_state)
    mean = weighted_sum(scales / n, clip.transform(units, clip_state))
    slots = slots_of(clip, before, clip_state)
    known = jnp.mean(slots, axis=0) if isinstance(clip, Slack) else clip.inverse(mean, clip_state)
    return NormStats(before, before * scales, norms(mean), jnp.ones(n)), known


def memories(clip):
    """The first memory, and one after two rounds of learning from units of size 1."""
    clip_state = clip.init(PARAMS)
    yield clip_state
    for t in range(2):
        facts, mean = crossing(clip, lot(7, seed=t), clip_state)
        note = clip.statistics(facts, mean, jnp.asarray(0.1), clip_state)
        clip_state = clip.update(clip_state, note, jnp.asarray(7.0), jax.random.key(t))
    yield clip_state


def sizes(clip, units):
    """Norms to which the bound applies, in float64: jointly [n] or for each layer [n, M]."""
    squares = np.stack([np.square(np.asarray(a, np.float64)).reshape(len(a), -1).sum(1) for a in units], axis=1)
    return np.sqrt(squares.sum(1) if clip.joint else squares)


def test_every_clip_has_an_example():
    assert set(EXAMPLES) == set(CLIPS)


@ALL
@pytest.mark.parametrize("n", [1, 7])
@pytest.mark.parametrize("scale", [0.0, 1e-20, 1.0, 1e15, 1e30])
def test_a_clipped_unit_is_finite_and_within_the_bound(clip, n, scale):
    for clip_state in memories(clip):
        after, _, scales = clipped(clip, lot(n, scale), clip_state)
        bound = float(clip.bound(clip_state))
        assert scales.shape == (n, len(SHAPES))
        assert np.isfinite(np.concatenate([np.ravel(a) for a in after])).all()
        assert (np.asarray(scales) >= 0).all()
        assert (np.asarray(scales) <= 1).all()
        assert (sizes(clip, after) <= bound * (1 + ROUNDING)).all()


@ALL
def test_a_unit_much_larger_than_the_bound_lands_on_it(clip):
    clip_state = clip.init(PARAMS)
    after, _, _ = clipped(clip, lot(7, 1e9), clip_state)
    if np.isfinite(bound := float(clip.bound(clip_state))):
        np.testing.assert_allclose(sizes(clip, after), bound, rtol=ROUNDING)


@ALL
def test_a_unit_within_the_bound_is_untouched(clip):
    for clip_state in memories(clip):
        bound = min(float(clip.bound(clip_state)), 1e6)
        inside = jnp.asarray(np.random.default_rng(0).uniform(0, 0.99, (7, 3)) * bound / np.sqrt(3), jnp.float32)
        np.testing.assert_array_equal(clip.scales(inside, clip_state), 1.0)
        np.testing.assert_array_equal(clip.scales(jnp.zeros((7, 3)), clip_state), 1.0)


@ALL
def test_clipping_what_is_clipped_changes_nothing(clip):
    for clip_state in memories(clip):
        before = layer_norms(clip.transform(lot(7), clip_state))
        once = before * clip.scales(before, clip_state)
        np.testing.assert_allclose(clip.scales(once, clip_state), 1.0, rtol=ROUNDING)


@ALL
@settings(max_examples=40, deadline=None, derandomize=True)
@given(values=st.lists(st.floats(0, 2.0**126, width=32) | st.just(np.inf), min_size=21, max_size=21))
def test_factors_lie_between_0_and_1_and_bound_any_norms(clip, values):
    clip_state, before = clip.init(PARAMS), np.reshape(values, (7, 3)).astype(np.float32)
    scales = np.asarray(clip.scales(jnp.asarray(before), clip_state), np.float64)
    assert ((scales >= 0) & (scales <= 1)).all()
    bound, finite = float(clip.bound(clip_state)), np.where(np.isinf(before), 0, before).astype(np.float64)
    after = finite * scales
    assert ((np.sqrt((after**2).sum(1)) if clip.joint else after) <= bound * (1 + ROUNDING)).all()
    assert np.isinf(bound) or (scales[np.isinf(before)] == 0).all()


@ALL
def test_units_do_not_see_each_other(clip):
    clip_state, units = list(memories(clip))[1], lot(7)
    together, _, _ = clipped(clip, units, clip_state)
    for j in range(7):
        alone, _, _ = clipped(clip, jax.tree.map(lambda a, j=j: a[j : j + 1], units), clip_state)
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[j], b[0], rtol=1e-6)


@ALL
def test_leave_undoes_enter(clip):
    for clip_state in memories(clip):
        units = lot(7, 0.01)
        entered = clip.transform(units, clip_state)
        for j in range(7):
            back = clip.inverse(jax.tree.map(lambda a, j=j: a[j], entered), clip_state)
            for a, b in zip(units, back, strict=True):
                np.testing.assert_allclose(a[j], b, rtol=1e-4, atol=1e-6)


@ALL
def test_memory_keeps_its_shape_and_stays_finite_through_rounds(clip):
    def shape(clip_state):
        return jax.tree.structure(clip_state), [(a.shape, a.dtype) for a in jax.tree.leaves(clip_state)]

    clip_state = first = clip.init(PARAMS)
    for t in range(4):
        facts, mean = crossing(clip, lot(7, 10.0**t, seed=t), clip_state)
        notes = [clip.statistics(facts, mean, jnp.asarray(0.5), clip_state)] * 2
        summed = jax.tree.map(jnp.add, *notes)
        clip_state = clip.update(clip_state, summed, jnp.asarray(14.0), jax.random.key(t))
        assert shape(clip_state) == shape(first)
        assert all(np.isfinite(a).all() for a in jax.tree.leaves(clip_state))
        assert float(clip.bound(clip_state)) > 0


@ALL
def test_a_note_ignores_masked_slots(clip):
    clip_state = clip.init(PARAMS)
    facts, mean = crossing(clip, lot(7), clip_state)
    mask = jnp.asarray([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
    notes = [
        clip.statistics(
            facts._replace(mask=mask, before=jnp.where(mask[:, None] > 0, facts.before, other)), mean, 0.1, clip_state
        )
        for other in (0.0, 1e30)
    ]
    jax.tree.map(np.testing.assert_array_equal, *notes)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: PerLayer(0.0), "c"),
        (lambda: PerLayer(float("inf")), "c"),
        (lambda: Flat(-1.0), "c"),
        (lambda: Flat(float("nan")), "c"),
        (lambda: OwnNorm(low=0.0), "low"),
        (lambda: OwnNorm(low=2.0, high=1.0), "high"),
        (lambda: Quantile(0.0), "c"),
        (lambda: Quantile(1.0, gamma=1.0), "gamma"),
        (lambda: Quantile(1.0, eta=0.0), "eta"),
        (lambda: Quantile(1.0, count_noise=-0.1), "count_noise"),
        (lambda: Slack(0.0), "c"),
        (lambda: Slack(1.0, low=2.0), "low"),
        (lambda: Slack(1.0, high=0.5), "high"),
        (lambda: Slack(1.0, high=float("inf")), "high"),
        (lambda: Slack(1.0, unused=0.0), "unused"),
        (lambda: Slack(1.0, unused=0.75, slots=2), "unused"),
        (lambda: Slack(1.0, slots=0), "slots"),
        (lambda: Slack(1.0, slots=33), "slots"),
        (lambda: Slack(1.0, eta=0.0), "eta"),
        (lambda: Slack(1.0, drift=-1.0), "drift"),
        (lambda: AdaClip(radius=0.0), "radius"),
        (lambda: AdaClip(beta1=1.0), "beta1"),
        (lambda: AdaClip(beta2=-0.1), "beta2"),
        (lambda: AdaClip(low=1.0, high=0.5), "high"),
    ],
)
def test_a_senseless_number_is_refused_by_name(make, name):
    with pytest.raises(BadInput, match=f"^{name} = "):
        make()
