"""A decoder of public digits as a prior: what it learns, where it is kept, what it gains, and where noise ends that."""

from dataclasses import dataclass, replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from gradveil.attacks import decoder_training
from gradveil.attacks.decoder import Decoder
from gradveil.attacks.decoder_training import DecoderTraining, decoded, train, trained_decoder
from gradveil.attacks.labels import Granted
from gradveil.attacks.leak import Leak, Public, Reading, Stage
from gradveil.attacks.metrics import rmse
from gradveil.attacks.public_stats import compute
from gradveil.attacks.zoo import MAP
from gradveil.data.sources import load
from gradveil.errors import BadInput
from gradveil.models.gradients import per_example_gradients
from gradveil.surface import Surface

TINY = DecoderTraining(latent=8, hidden=48, steps=600, lot=64, rate=3e-3)
SHAPE, CLASSES, VICTIMS, CLIP = (8, 8, 1), 10, 12, 1.0


@dataclass(frozen=True)
class Linear:
    """logits = x W."""

    def apply(self, params, x):
        return x.reshape(-1) @ params[0]


@dataclass(frozen=True)
class Clipped:
    """The gradient of one example, clipped to CLIP: what Fed-CDP noises."""

    def __call__(self, params, clip_state, x, y):
        (gradient,) = per_example_gradients(Linear(), params, x, y)
        return (gradient[0] * jnp.minimum(1.0, CLIP / jnp.linalg.norm(gradient[0])),)


STAGE = Stage(
    model=Linear(),
    shape=SHAPE,
    classes=CLASSES,
    surface=Surface.EXAMPLE,
    view="released",
    batch=1,
    steps=1,
    replay=Clipped(),
)
PARAMS = (jnp.zeros((64, CLASSES)),)


@cache
def digits():
    """Public digits and victims, none of whom is public."""
    data = load("digits")
    x, y = np.asarray(data.train.x, np.float32), np.asarray(data.train.y)
    return Public(x[VICTIMS:1000], y[VICTIMS:1000]), x[:VICTIMS], y[:VICTIMS]


@cache
def kept():
    public, *_ = digits()
    return train(TINY, public)


def leaks(sigma):
    """What Fed-CDP releases of each victim at this sigma, the labels told."""
    public, x, y = digits()
    public.memo[TINY] = kept()
    random = np.random.default_rng(1)
    for one, label in zip(x, y, strict=True):
        (value,) = STAGE.replay(PARAMS, (), jnp.asarray(one[None]), jnp.asarray(label[None]))
        noised = np.asarray(value) + np.float32(sigma * CLIP) * random.normal(size=value.shape).astype(np.float32)
        reading = Reading(PARAMS, (), (noised,), (np.float32(sigma * CLIP),))
        yield Leak(STAGE, (reading,), public, label[None])


def gains(prior, sigma):
    """What an attack with this prior gains over the public mean, for each victim."""
    public, x, _ = digits()
    attack = replace(MAP, prior=prior, labels=Granted())
    found = np.stack([np.clip(attack(leak, jax.random.key(0)).x[-1][0], 0, 1) for leak in leaks(sigma)])
    mean = np.broadcast_to(public.x.mean(axis=0), x.shape)
    return rmse(mean, x) - rmse(found, x)


def test_a_decoding_is_nearer_to_digits_it_never_saw_than_their_mean():
    public, x, _ = digits()
    rows = jnp.asarray(x.reshape(VICTIMS, -1) - public.x.mean(axis=0).reshape(-1))

    decoder = kept()

    def error(u):
        return jnp.sum(jnp.square(decoded(TINY, decoder.layers, u) - rows))

    best, slope = jnp.zeros((VICTIMS, TINY.latent)), jax.jit(jax.grad(error))
    for _ in range(300):
        best = best - 0.02 * slope(best)
    assert error(best) < 0.6 * error(jnp.zeros_like(best))


def test_the_latent_value_0_stands_for_the_public_mean():
    public, *_ = digits()
    leak, decoder = next(iter(leaks(1.0))), kept()
    flat = decoder._replace(middles=jnp.zeros_like(decoder.middles))
    facts = compute(leak, np.zeros(1, np.int32), None, flat)
    guess = Decoder(TINY).read(jnp.zeros((1, TINY.latent + 64)), facts, STAGE)
    np.testing.assert_allclose(guess[0], public.x.mean(axis=0), atol=1e-5)


def test_a_class_that_is_known_starts_the_guess_near_that_class():
    public, *_ = digits()
    leak, zero = next(iter(leaks(1.0))), jnp.zeros((1, TINY.latent + 64))
    means = np.stack([public.x[public.y == c].mean(axis=0) for c in range(CLASSES)])
    for label in range(CLASSES):
        facts = compute(leak, np.zeros(1, np.int32), np.eye(CLASSES)[label], kept())
        guess = np.asarray(Decoder(TINY).read(zero, facts, STAGE))
        assert int(np.argmin(rmse(np.broadcast_to(guess, means.shape), means))) == label


def test_latent_values_vary_as_those_of_a_mix_of_the_believed_classes_and_the_rest_value_by_value():
    leak, decoder, random = next(iter(leaks(1.0))), kept(), np.random.default_rng(3)
    shares = np.eye(CLASSES)[2] * 0.25 + np.eye(CLASSES)[7] * 0.75
    v, w = random.normal(size=TINY.latent), random.normal(size=64)
    # A draw from the mix, by its mean and its variance within and between classes.
    middles, spreads = (np.asarray(part, np.float64)[[2, 7]] for part in (decoder.middles, decoder.spreads))
    mean = 0.25 * middles[0] + 0.75 * middles[1]
    variance = 0.25 * (spreads[0] ** 2 + (middles[0] - mean) ** 2) + 0.75 * (spreads[1] ** 2 + (middles[1] - mean) ** 2)
    plain = decoder._replace(middles=jnp.zeros_like(decoder.middles), spreads=jnp.ones_like(decoder.spreads))

    def read(known, beliefs, latent, rest):
        z = jnp.asarray(np.concatenate([latent, rest])[None], jnp.float32)
        return np.asarray(Decoder(TINY).read(z, compute(leak, np.zeros(1, np.int32), beliefs, known), STAGE)).ravel()

    found = read(decoder, shares, v, w)
    expected = read(plain, np.eye(CLASSES)[0], mean + np.sqrt(variance) * v, 0 * w) + np.asarray(decoder.rest) * w
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert float(Decoder(TINY).cost(jnp.array([[1.0, 2.0], [3.0, -4.0]]), None, None)) == (1 + 4 + 9 + 16) / 2


def test_at_little_noise_the_decoder_gains_more_than_the_gaussian_prior():
    decoder, gaussian = gains(Decoder(TINY), 0.03), gains(MAP.prior, 0.03)
    assert decoder.min() > 0
    assert decoder.mean() > gaussian.mean() + 0.02


def test_noise_of_a_small_epsilon_leaves_nothing_to_gain():
    # sigma = 4.4: one release is (1, 1e-5)-DP for one example, by the exact Gaussian trade-off.
    found, public, x = gains(Decoder(TINY), 4.4), digits()[0], digits()[1]
    low, high = stats.t.interval(0.95, VICTIMS - 1, found.mean(), found.std(ddof=1) / np.sqrt(VICTIMS))
    # What a verdict calls nothing found: no gain is seen, and one of a tenth of the error would have been.
    assert low < 0
    assert high < 0.1 * rmse(np.broadcast_to(public.x.mean(axis=0), x.shape), x).mean()


def test_a_decoder_is_trained_once_and_found_again_by_what_it_was_made_from(tmp_path, monkeypatch):
    monkeypatch.setenv("GRADVEIL_CACHE", str(tmp_path))
    small, x = replace(TINY, steps=3), digits()[0].x[:50]
    first = trained_decoder(small, Public(x, np.zeros(50, int)))
    (file,) = (tmp_path / "decoders").iterdir()
    monkeypatch.setattr(decoder_training, "train", lambda *given: pytest.fail("trained again"))
    again = trained_decoder(small, Public(x, np.zeros(50, int)))
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)
    monkeypatch.undo()
    monkeypatch.setenv("GRADVEIL_CACHE", str(tmp_path))
    file.write_bytes(b"damaged")
    trained_decoder(small, Public(x, np.zeros(50, int)))
    trained_decoder(small, Public(x[:40], np.zeros(40, int)))
    assert len(list((tmp_path / "decoders").iterdir())) == 2


def test_table_rows_and_senseless_sizes_are_refused():
    with pytest.raises(BadInput, match=r"^prior = decoder: needs pictures"):
        Decoder().refuse(replace(STAGE, shape=(10,)))
    for name in ("latent", "hidden", "steps", "lot", "rate"):
        with pytest.raises(BadInput, match=f"^{name} = 0"):
            replace(TINY, **{name: 0})
