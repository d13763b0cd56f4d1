"""The crossing against loops over units and layers, written from the formulas; its noise against the normal law."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gradveil.methods import METHODS
from gradveil.privacy.adaptive import AdaClip, Quantile
from gradveil.privacy.clip import Flat, OwnNorm, PerLayer, Unclipped
from gradveil.privacy.draw import Draw
from gradveil.privacy.method import StaticMethod, combine, split_static
from gradveil.privacy.prune import Dssgd, Keep, Smallest
from gradveil.privacy.sanitize import cross
from gradveil.privacy.sensitivity import ClipBound, Fixed, L2Max, L2MaxAsCoded, L2MaxOfMean
from gradveil.privacy.slack import Slack
from gradveil.surface import Surface

N, SHAPES = 5, ((50, 30), (1100,), (7, 10, 20))
KEY = jax.random.key(21)
MASK = np.array([1.0, 0.0, 1.0, 1.0, 0.0])
FULL = np.ones(N)
FLAT_METHOD = replace(METHODS["fed-cdp"].value, name="fed-cdp-flat", clip=Flat(4.0))
ALPHA_PRINTED = replace(METHODS["fed-alpha-cdp"].value, name="fed-alpha-cdp-printed", sensitivity=L2MaxOfMean())
EVERY = {m.name: m for m in (*(e.value for e in METHODS.values()), FLAT_METHOD, ALPHA_PRINTED)}


def each(holds=lambda method: True):
    """Parametrize over the methods of which something holds."""
    chosen = [method for method in EVERY.values() if holds(method)]
    return pytest.mark.parametrize("method", chosen, ids=[method.name for method in chosen])


ALL = each()
NOISY = each(lambda method: not method.noise.silent)


def lot(seed=0):
    """Units of sizes around the bounds: from 0.2 to 100 over the whole unit."""
    rng = np.random.default_rng(seed)
    sizes = np.array([0.2, 3.0, 5.0, 20.0, 100.0]) / np.sqrt(4000)
    return [(sizes.reshape(-1, *[1] * len(s)) * rng.normal(size=(N, *s))).astype(np.float32) for s in SHAPES]


def memory_of(method):
    """A memory as after some rounds: for AdaClip a mean and spread that differ between coordinates."""
    params = tuple(jnp.zeros(s) for s in SHAPES)
    if not isinstance(method.clip, AdaClip):
        return method.clip.init(params)
    rng = np.random.default_rng(5)
    mean = tuple(jnp.asarray(0.01 * rng.normal(size=s), jnp.float32) for s in SHAPES)
    spread = tuple(jnp.asarray(rng.uniform(0.003, 0.03, size=s), jnp.float32) for s in SHAPES)
    return mean, spread, tuple(jnp.asarray(b, jnp.float32) for b in widths(spread))


@partial(jax.jit, static_argnums=(0, 1, 2))
def compiled(surface, kind: StaticMethod, expected, numbers, units, mask, sigma, clip_state, key):
    return cross(surface, combine(kind, numbers), units, mask, expected, sigma, clip_state, key)


def crossed(method, units, mask, sigma, surface=None, key=KEY, expected=N):
    kind, numbers = split_static(method)
    units = tuple(jnp.asarray(u) for u in units)
    return compiled(
        method.surface if surface is None else surface,
        kind,
        expected,
        numbers,
        units,
        jnp.asarray(mask, jnp.float32),
        jnp.float32(sigma),
        memory_of(method),
        key,
    )


def flat(tree):
    return np.concatenate([np.ravel(np.asarray(a, np.float64)) for a in tree])


def naive_prune(prune, unit, key):
    vector = flat(unit)
    match prune:
        case Keep():
            kept = vector
        case Smallest(mu):
            kept = vector.copy()
            kept[np.argsort(np.abs(vector))[: int(mu * vector.size)]] = 0
        case Dssgd(share, threshold, bound):
            lucky = np.asarray(jax.random.uniform(key, vector.shape)) < np.float32(share)
            kept = np.array(
                [
                    min(max(g, -bound), bound) if ok and abs(g) > threshold else 0.0
                    for g, ok in zip(vector, lucky, strict=True)
                ]
            )
    cuts = np.cumsum([np.prod(s) for s in SHAPES])[:-1]
    return [part.reshape(s) for part, s in zip(np.split(kept, cuts), SHAPES, strict=True)]


def widths(spread):
    total = flat(spread).sum()
    return [np.sqrt(np.asarray(s, np.float64) * total) for s in spread]


def naive_scales(clip, norms):
    """Factors of one unit's layers."""
    whole = np.sqrt(sum(n * n for n in norms))
    match clip:
        case Unclipped():
            return [1.0 for _ in norms]
        case PerLayer(c):
            return [min(1, c / n) if n else 1.0 for n in norms]
        case OwnNorm(low, high):
            own = min(max(max(norms), low), high)
            return [min(1, own / n) if n else 1.0 for n in norms]
        case Flat(c) | Quantile(c) | AdaClip(c) | Slack(c):
            return [min(1, c / whole) if whole else 1.0 for _ in norms]


def naive(method, units, mask, expected=N):
    """The noiseless mean, S and the clipped units, one unit and one layer at a time, in float64."""
    clip_state, clip = memory_of(method), method.clip
    whitens = isinstance(clip, AdaClip)
    m, b = (
        ([np.asarray(a, np.float64) for a in clip_state[0]], widths(clip_state[1]))
        if whitens
        else ([0.0] * 3, [1.0] * 3)
    )
    prune_keys = jax.random.split(jax.random.split(KEY)[0], N)
    sums, own, clipped_norms, kept = [np.zeros(s) for s in SHAPES], [], [], {}
    for j in range(N):
        if mask[j] == 0:
            continue
        unit = naive_prune(method.prune, [u[j].astype(np.float64) for u in units], prune_keys[j])
        unit = [(g - mean) / width for g, mean, width in zip(unit, m, b, strict=True)]
        norms = [np.linalg.norm(g) for g in unit]
        scales = naive_scales(clip, norms)
        kept[j] = [s * g for s, g in zip(scales, unit, strict=True)]
        sums = [total + g for total, g in zip(sums, kept[j], strict=True)]
        own.append(max(norms))
        clipped_norms.append(max(s * n for s, n in zip(scales, norms, strict=True)))
    mean = [total / expected for total in sums]
    match method.sensitivity:
        case ClipBound():
            s = {OwnNorm: "high", AdaClip: "radius"}.get(type(clip), "c")
            sensitivity = getattr(clip, s)
        case Fixed(value):
            sensitivity = value
        case L2Max():
            sensitivity = max(clipped_norms, default=0.0)
        case L2MaxOfMean():
            sensitivity = max(np.linalg.norm(g) for g in mean)
        case L2MaxAsCoded(low, high):
            sensitivity = np.mean([min(max(c, low), high) for c in own]) if own else low
    back = [width * g + center for g, center, width in zip(mean, m, b, strict=True)]
    return (
        back,
        sensitivity,
        kept,
        np.concatenate([np.ravel(np.broadcast_to(w, s)) for w, s in zip(b, SHAPES, strict=True)]),
    )


def follows(noise, std):
    """The p-value of Kolmogorov and Smirnov for noise ~ N(0, std^2)."""
    return stats.kstest(noise / std, "norm").pvalue


def is_normal_with(noise, std):
    assert follows(noise, std) > 1e-3
    assert follows(noise, 2 / 3 * std) < 1e-9
    assert follows(noise, 3 / 2 * std) < 1e-9


@ALL
@pytest.mark.parametrize("surface", Surface)
@pytest.mark.parametrize("mask", [FULL, MASK], ids=["full", "masked"])
def test_without_noise_it_is_the_loop(method, surface, mask):
    units = lot()
    crossing = crossed(method, units, mask, 0.0, surface)
    if surface is method.surface and not method.idle:
        expected, sensitivity, _, _ = naive(method, units, mask)
        assert float(crossing.metrics.sensitivity) == pytest.approx(sensitivity, rel=1e-5)
    else:
        expected = [np.einsum("j,j...->...", mask, u.astype(np.float64)) / N for u in units]
    for used, layer in zip(crossing.used, expected, strict=True):
        np.testing.assert_allclose(used, layer, rtol=1e-4, atol=1e-5 * np.abs(layer).max())
    for raw, unit in zip(crossing.observed.raw, units, strict=True):
        np.testing.assert_array_equal(raw, unit)


UNTOUCHED = [(m, s) for m in EVERY.values() for s in Surface if m.idle or s is not m.surface]


@pytest.mark.parametrize(("method", "surface"), UNTOUCHED, ids=[f"{m.name}-{s.name}" for m, s in UNTOUCHED])
def test_where_a_method_does_not_act_the_units_themselves_are_seen_and_no_noise_is_drawn(method, surface):
    quiet, loud = (crossed(method, lot(), FULL, sigma, surface) for sigma in (0.0, 9.0))
    np.testing.assert_array_equal(flat(quiet.used), flat(loud.used))
    for seen, unit in zip(loud.observed.released, lot(), strict=True):
        np.testing.assert_array_equal(seen, unit)


@NOISY
@pytest.mark.parametrize("draw", Draw)
def test_the_noise_on_the_mean_has_the_promised_law(method, draw):
    drawn, sigma = replace(method, draw=draw), 0.7
    _, sensitivity, _, width = naive(drawn, lot(), FULL)
    quiet, loud = (flat(crossed(drawn, lot(), FULL, s).used) for s in (0.0, sigma))
    share = {Draw.EACH: 1 / np.sqrt(N), Draw.SUM: 1 / N, Draw.MEAN: 1}[draw]
    is_normal_with((loud - quiet) / width, sigma * sensitivity * share)


@NOISY
@pytest.mark.parametrize("draw", [Draw.SUM, Draw.MEAN])
def test_the_one_noised_mean_is_what_is_released(method, draw):
    crossing = crossed(replace(method, draw=draw), lot(), FULL, 0.7)
    for released, used in zip(crossing.observed.released, crossing.used, strict=True):
        np.testing.assert_array_equal(released, used[None])


@NOISY
def test_noise_for_each_is_on_every_released_unit_and_averages_to_what_is_used(method):
    drawn = replace(method, draw=Draw.EACH)
    crossing = crossed(drawn, lot(), FULL, 0.7)
    for released, used in zip(crossing.observed.released, crossing.used, strict=True):
        np.testing.assert_allclose(np.mean(released, axis=0), used, rtol=1e-4, atol=1e-5 * np.abs(released).max())
    _, sensitivity, kept, width = naive(drawn, lot(), FULL)
    shift = flat(memory_of(drawn)[0]) if isinstance(drawn.clip, AdaClip) else 0.0
    for j in range(N):
        unit = (flat([r[j] for r in crossing.observed.released]) - shift) / width
        is_normal_with(unit - flat(kept[j]), 0.7 * sensitivity)


@pytest.mark.parametrize("name", ["fed-cdp", "adaclip", "fed-sdp-client"])
def test_noise_is_new_for_every_key_layer_and_unit(name):
    method = EVERY[name]

    def noise(key, draw):
        drawn = replace(method, draw=draw)
        quiet, loud = (crossed(drawn, lot(), FULL, s, key=key).observed.released for s in (0.0, 0.7))
        return [np.asarray(a - b, np.float64) for a, b in zip(loud, quiet, strict=True)]

    def correlation(a, b):
        n = min(a.size, b.size)
        return abs(np.corrcoef(a.ravel()[:n], b.ravel()[:n])[0, 1]) * np.sqrt(n)

    one, other = (noise(jax.random.key(k), Draw.SUM) for k in (1, 2))
    each = noise(jax.random.key(1), Draw.EACH)
    assert correlation(one[0], other[0]) < 5
    assert correlation(one[0], one[2]) < 5
    assert correlation(one[1], one[2]) < 5
    assert correlation(each[0][0], each[0][1]) < 5


def with_garbage(garbage):
    """The lot with its masked slots overwritten."""
    masks = (MASK.reshape(-1, *[1] * len(s)) > 0 for s in SHAPES)
    return [np.where(mask, u, np.float32(garbage)) for mask, u in zip(masks, lot(), strict=True)]


@ALL
@pytest.mark.parametrize("garbage", [7.0, 1e15, 1e30])
def test_masked_slots_never_matter_to_what_is_used(method, garbage):
    one, other = (flat(crossed(method, units, MASK, 0.7).used) for units in (lot(), with_garbage(garbage)))
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("garbage", [7.0, 1e15, 1e30])
def test_masked_slots_never_matter_to_what_is_measured(garbage):
    for surface in Surface:
        pair = (crossed(FLAT_METHOD, units, MASK, 0.7, surface) for units in (lot(), with_garbage(garbage)))
        np.testing.assert_array_equal(*(crossing.metrics for crossing in pair))


@each(lambda method: not isinstance(method.clip, Unclipped) or isinstance(method.prune, Dssgd))
def test_a_unit_that_overflows_is_clipped_away_and_not_spread(method):
    units = lot()
    units[0][2] *= 1e30
    crossing = crossed(method, units, FULL, 0.7)
    assert np.isfinite(flat(crossing.used)).all()


@each(lambda method: not method.noise.silent and not isinstance(method.sensitivity, L2Max | L2MaxOfMean))
@pytest.mark.parametrize("draw", [Draw.SUM, Draw.MEAN])
def test_an_empty_lot_is_noised_like_any_other_unless_its_noise_follows_the_data(method, draw):
    drawn = replace(method, draw=draw)
    empty, sensitivity, _, width = naive(drawn, lot(), np.zeros(N))
    used = flat(crossed(drawn, lot(), np.zeros(N), 0.7).used)
    is_normal_with((used - flat(empty)) / width, 0.7 * sensitivity * {Draw.SUM: 1 / N, Draw.MEAN: 1}[draw])


@pytest.mark.parametrize("name", ["fed-cdp", "adaclip", "fed-sdp"])
def test_the_sum_is_divided_by_the_expected_number_and_not_by_the_realized(name):
    method, units = EVERY[name], lot()
    half, _, _, _ = naive(method, units, MASK, expected=8)
    used = crossed(method, units, MASK, 0.0, expected=8).used
    for got, layer in zip(used, half, strict=True):
        np.testing.assert_allclose(got, layer, rtol=1e-4, atol=1e-5 * np.abs(layer).max())


@each(lambda method: not method.idle and not isinstance(method.clip, Unclipped))
def test_one_unit_moves_the_clipped_sum_by_no_more_than_the_bound(method):
    bound = float(method.clip.bound(memory_of(method)))
    assert np.isfinite(bound)
    _, _, _, width = naive(method, lot(), FULL)
    for j in range(N):
        without = FULL.copy()
        without[j] = 0
        pair = (crossed(method, [100 * u for u in lot()], mask, 0.0).used for mask in (FULL, without))
        moved = N * np.subtract(*(flat(p) for p in pair)) / width
        cuts = np.cumsum([np.prod(s) for s in SHAPES])[:-1]
        sizes = [np.linalg.norm(part) for part in np.split(moved, cuts)]
        largest = np.linalg.norm(sizes) if method.clip.joint else max(sizes)
        assert largest <= bound * 1.001


@ALL
def test_the_metrics_say_that_a_share_of_the_unit_layers_was_clipped_and_none_by_an_idle_method(method):
    clipped = float(crossed(method, lot(), MASK, 0.0).metrics.clipped)
    assert 0 <= clipped <= (0 if method.idle else 1)


@each(lambda method: not method.idle and isinstance(method.clip, PerLayer) and isinstance(method.prune, Keep))
def test_the_metrics_say_how_many_unit_layers_were_clipped(method):
    norms = np.array([[np.linalg.norm(u[j]) for u in lot()] for j in range(N) if MASK[j]])
    clipped = float(crossed(method, lot(), MASK, 0.0).metrics.clipped)
    assert clipped == pytest.approx((norms > method.clip.c).mean())
